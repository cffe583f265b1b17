"""`repro submit`, `repro status`, `repro run-prepared`: run experiments on a Slurm cluster."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from repro.cli.options import as_json, experiment_arguments
from repro.core.errors import PREEMPTED, InputError, NotHere


def add_commands(commands: Any) -> None:
    submit = commands.add_parser("submit", help="submit an experiment's missing runs to Slurm")
    experiment_arguments(submit)
    submit.add_argument("--site", type=Path, help="file that describes the cluster (default: $REPRO_SITE)")
    submit.add_argument(
        "--simulated",
        action="store_true",
        help="also submit simulated runs, several side by side in a job; with testbed=NAME only those of that testbed",
    )
    submit.add_argument("--dry-run", action="store_true", help="print a job script and a table; submit nothing")
    submit.add_argument(
        "--mlflow",
        action=argparse.BooleanOptionalAction,
        default=os.environ.get("MLFLOW_TRACKING_URI", "").startswith(("http://", "https://")),
        help="mirror to MLflow from the jobs (default: if $MLFLOW_TRACKING_URI names a server)",
    )
    as_json(submit)
    submit.set_defaults(command=cmd_submit)

    status = commands.add_parser("status", help="show the state of submitted jobs and their runs")
    status.add_argument("experiment", nargs="?", help="PAPER or PAPER/EXPERIMENT (default: all)")
    as_json(status)
    status.set_defaults(command=cmd_status)

    prepared = commands.add_parser(
        "run-prepared", help="execute prepared runs, one after another (used by job scripts)"
    )
    prepared.add_argument("runs", nargs="+", metavar="FOLDER=DIGEST", help="run prepared by `repro submit`")
    prepared.add_argument("--no-mlflow", action="store_true", help="do not mirror the run to MLflow")
    # simulated runs have no ranks to checkpoint
    prepared.set_defaults(command=cmd_run_prepared, statuses={signal.SIGTERM: PREEMPTED}, resumes=True)


def cmd_submit(args: argparse.Namespace) -> None:
    from repro.experiment import config
    from repro.launch.runner import check_results_folder
    from repro.launch.slurm import client, site
    from repro.launch.slurm.status import new_folder
    from repro.launch.slurm.submit import (
        array_scripts,
        choose_runs,
        describe_array,
        find_runs,
        flatten_packs,
        submit_runs,
        time_warning,
    )

    if args.site:
        os.environ["REPRO_SITE"] = str(args.site.resolve())
    names, missing = config.experiment_names(args.experiment, args.scale), None
    options = site.load_site()
    if not args.dry_run:
        client.need_program("sbatch")
        client.need_answer()
        check_results_folder()
    shown: list[dict[str, Any]] = []
    for name in names:
        try:
            runs, note = find_runs(name, args.overrides, args.scale, args.simulated, args.dry_run)
        except NotHere as error:
            if len(names) == 1:
                raise
            missing = missing or error
            runs, note = [], f"left out {name}: {error}"
        if note:
            print(note, file=sys.stderr)
        todo, finished, busy = choose_runs(runs)
        if finished or busy:
            print(f"{name}: {finished} of {len(runs)} runs are done, {busy} wait or run in Slurm", file=sys.stderr)
        if todo and args.dry_run:
            for needed, packs, text in array_scripts(todo, options, new_folder(name), args.mlflow):
                runs_of = {"experiment": name, "runs": [run.label for run in flatten_packs(packs)]}
                shown.append(runs_of | describe_array(needed, packs) | {"script": text})
        elif todo:
            shown.append(submit_runs(todo, options, args.mlflow))
            if not args.json:
                _submitted(name, shown[-1])
    if shown and (warning := time_warning(options)):
        print(warning, file=sys.stderr)
    if args.json:
        print(json.dumps(shown, indent=1))
    elif args.dry_run and shown:
        _scripts(shown)
    elif shown:
        print("next: repro status")
    else:
        print("nothing to submit")
    if missing:
        raise missing


def _submitted(name: str, submission: dict[str, Any]) -> None:
    """Print the jobs of a submission."""
    for array in submission["arrays"]:
        runs = f"{len(array['runs'])} runs of {array['ranks']} ranks"
        print(f"{name}: job {array['job']}: {runs}, messages by {array['messages']}")
    print(f"script and output: {submission['folder']}")


def _scripts(shown: list[dict[str, Any]]) -> None:
    """Print the first script and a table of all; they differ in resources and runs."""
    import pandas as pd

    print(shown[0]["script"])
    print(f"{len(shown)} script{'s' * (len(shown) > 1)}, the first of them above (--json has them all):")
    columns = ["experiment", "jobs", "runs", "ranks", "nodes", "gpus", "messages"]
    table = pd.DataFrame([each | {"runs": len(each["runs"])} for each in shown], columns=columns)
    print(table.to_string(index=False))


def cmd_status(args: argparse.Namespace) -> None:
    from repro.launch.slurm.status import status_lines, submission_status

    jobs = submission_status(args.experiment)
    print(json.dumps(jobs, indent=1) if args.json else "\n".join(status_lines(jobs)))


def cmd_run_prepared(args: argparse.Namespace) -> None:
    from repro.launch.runner import check_results_folder, run_unfinished
    from repro.launch.slurm.prepared import limit_cores, load_prepared, node_name

    check_results_folder()
    runs = load_prepared(args.runs)
    if any(run.simulated for run in runs):
        limit_cores()
    try:
        _, fault = run_unfinished(runs, track=not args.no_mlflow)
    except InputError as error:
        raise InputError(f"node {node_name()}: {error}") from None
    if fault:
        raise fault
