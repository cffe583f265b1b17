"""`repro submit`: submits the unfinished runs of an experiment, as one job array per set of resources."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro import launch
from repro.core import safe_files
from repro.core.errors import PREEMPTED, InputError, NotHere
from repro.core.paths import PROJECT, results_root
from repro.experiment import config as configs
from repro.experiment import identify as identifying
from repro.experiment.expand import expand_runs
from repro.experiment.key import Keys
from repro.experiment.launched import launch_digest
from repro.experiment.override_keys import key_of, without_entries
from repro.experiment.run import Run
from repro.experiment.testbeds import testbed_of
from repro.launch.local import Mpirun, Torchrun, Virtual
from repro.launch.slurm import client, status
from repro.launch.slurm import site as sites
from repro.launch.slurm.prepared import prepare_folder
from repro.launch.slurm.resources import Pack, Resources, job_arrays
from repro.launch.srun import Srun
from repro.records import provenance
from repro.records.provenance import command

TEMPLATE = Path(__file__).with_name("job.sbatch.j2")


def _on_one_line(value: Any) -> Any:
    """The value; InputError if it has a control character, since a line break would start a line of sbatch or bash."""
    if not str(value).isprintable():
        raise InputError(f"job script: {str(value)!r} has a line break or another control character")
    return value


def _described(run: Run, root: Path) -> dict[str, str]:
    path = str(run.folder.relative_to(root))
    return {"path": path, "label": run.label, "launched": f"{path}={launch_digest(run)}"}


def render_script(
    packs: Sequence[Sequence[Run]], needed: Resources, site: sites.Site, folder: Path, mlflow: bool = False
) -> str:
    """The script of one array, whose task n executes the runs of pack n.

    folder: absolute path of the submission, for the tasks' output and the copy of the site file. InputError for a
    name, path, option or command with a control character.
    """
    import jinja2

    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=_on_one_line,
    )
    root, experiment = results_root(), packs[0][0].experiment
    options: dict[str, str | None] = {
        **dict([needed.gpus] if needed.gpus else []),
        "mem": site.mem,
        "mem-per-gpu": site.mem_per_gpu,
        "constraint": site.constraint,
        "partition": site.partition,
        "account": site.account,
        "qos": site.qos,
        "time": site.time,
    }
    return environment.from_string(
        TEMPLATE.read_text(encoding="utf-8")
    ).render(
        experiment=experiment,
        job_name=re.sub(r"[^\w.-]+", "-", f"repro-{experiment}"),  # some tools use it as a file name
        packs=[[_described(run, root) for run in pack] for pack in packs],
        runs=sum(map(len, packs)),
        needed=needed,
        options=[(name, value) for name, value in options.items() if value],
        site=site,
        site_file=sites.site_path(),
        site_copy=str(folder / "site.yaml"),
        site_digest=hashlib.sha256(_on_one_line(sites.site_path()).read_bytes()).hexdigest(),
        # Slurm expands percent signs in the name of the output
        output=shlex.quote(str(folder).replace("%", "%%") + "/%A_%a.log"),
        project=str(PROJECT),
        python=site.python or sys.executable,
        results=str(root),
        command=command(["repro", *sys.argv[1:]]),
        preempted=PREEMPTED,
        mlflow=mlflow,
        quote=shlex.quote,
    )


PORTABLE = (Mpirun, Torchrun, Srun)  # measured runs of these launchers can run on a cluster
TESTBED = "slurm"


def find_runs(
    experiment: str, overrides: Sequence[str], scale: str, simulated: bool = False, dry: bool = False
) -> tuple[list[Run], str | None]:
    """An experiment's measured runs on testbed slurm, with their keys, and a line about what was left out.

    The cluster replaces a testbed of this machine and keeps its overrides; simulated and shaped testbeds are left out.
    If the experiment has no testbed of this machine, it runs on the cluster if the user names testbed=slurm.
    simulated: include the runs of simulated testbeds; those of a named simulated testbed alone. dry: if data are
    missing here, use preliminary keys, and say so in the line.
    """
    named = [name for word in overrides if key_of(word) == "testbed" for name in word.partition("=")[2].split(",")]
    others = [word for word in overrides if key_of(word) != "testbed"]
    ours = [word for word in overrides if key_of(word).partition(".")[0] != "testbed"]
    testbeds = configs.compose_experiment(experiment, ours, scale).testbeds
    launchers = {
        name: launch.launcher_for(testbed_of(configs.compose(experiment, [f"testbed={name}"], scale)["testbed"]))
        for name in {*testbeds, *(named if simulated else ())}
    }
    virtual = [name for name in named or testbeds if simulated and isinstance(launchers[name], Virtual)]
    if wrong := [name for name in named if name not in (TESTBED, *virtual)]:
        raise InputError(
            f"testbed={wrong[-1]}: `repro submit` is for testbed={TESTBED} (with --simulated also for simulated ones), "
            "`repro run` for the others"
        )
    on_cluster = {name: changes for name, changes in testbeds.items() if isinstance(launchers[name], PORTABLE)}
    left_out = [name for name in testbeds if name not in (*on_cluster, *virtual)]
    note = f"{experiment}: left out testbed {', '.join(left_out)} (`repro run` does those)" if left_out else None
    conditions = on_cluster.get(TESTBED, next(iter(on_cluster.values()), None))
    if named and TESTBED not in named:
        conditions, note = None, None
    elif named and conditions is None:
        conditions, note = [], None
    runs: list[Run] = []
    if conditions is not None:
        changes = without_entries(conditions, others)
        runs += expand_runs(experiment, [f"testbed={TESTBED}", *others], scale, conditions=changes)
    elif note:
        note += f"; testbed={TESTBED} runs it on the cluster"
    if virtual:
        runs += expand_runs(experiment, [f"testbed={','.join(virtual)}", *others], scale)
    missing = identify_runs(runs, dry) if runs else None
    return runs, "; ".join(filter(None, (note, missing))) or None


def identify_runs(runs: Sequence[Run], dry: bool) -> str | None:
    """Give the runs their keys; returns a warning if a dry run uses preliminary ones because data are missing."""
    hardware = sites.load_site().hardware_class()
    try:
        identifying.identify_runs(runs, hardware)
        return None
    except NotHere as error:
        if not dry:
            raise
        reason = str(error)
    keys = Keys(hardware)
    for run in runs:
        try:
            keys.assign(run)
        except NotHere:
            keys.assign(run, checksum="not here")
    return f"warning: {reason}; the names of folders in the script are not those that runs will have"


def choose_runs(runs: Sequence[Run]) -> tuple[list[Run], int, int]:
    """The runs to submit, the number of finished ones, and the number of those in Slurm's queue."""
    unfinished = [run for run in runs if not run.finished]
    busy = busy_keys() if unfinished and shutil.which("squeue") else set()
    todo = [run for run in unfinished if run.key not in busy]
    return todo, len(runs) - len(unfinished), len(unfinished) - len(todo)


def busy_keys() -> set[str]:
    """The keys of runs in Slurm's queue that were submitted from this results folder."""
    submissions = list(status.read_submissions())
    tasks = client.queued_tasks() if submissions else {}
    return {
        run["key"]
        for _, submission in submissions
        for array in submission["arrays"]
        for run, task in status.array_tasks(array)
        if (array["job"], task) in tasks
    }


def array_scripts(
    runs: Sequence[Run], site: sites.Site, folder: Path, mlflow: bool
) -> list[tuple[Resources, list[Pack], str]]:
    """The resources of each array, the runs of each of its jobs, and its script."""
    return [
        (needed, packs, render_script(packs, needed, site, folder, mlflow)) for needed, packs in job_arrays(runs, site)
    ]


def flatten_packs(packs: Sequence[Pack]) -> list[Run]:
    return [run for pack in packs for run in pack]


def describe_array(needed: Resources, packs: Sequence[Pack]) -> dict[str, Any]:
    """A summary of an array for display: {jobs, ranks, nodes, gpus (sbatch's option), messages}."""
    sizes = {"jobs": len(packs), "ranks": needed.ranks, "nodes": needed.nodes}
    return sizes | {"gpus": "=".join(needed.gpus) or "none", "messages": needed.messages}


def time_warning(site: sites.Site) -> str | None:
    """A warning if the jobs have no time limit."""
    if site.time or any(re.match(r"--time\b|-t", word) for word in site.sbatch) or os.environ.get("SBATCH_TIMELIMIT"):
        return None
    return (
        f"warning: site file {sites.site_path()}: no time: the partition's default limit ends a job "
        "(`sinfo -o '%P %L'`), and the scheduler fits it in nowhere sooner; set time, for instance 04:00:00"
    )


def submit_runs(runs: Sequence[Run], site: sites.Site, mlflow: bool) -> dict[str, Any]:
    """Prepare the runs, write the scripts, submit them by sbatch; returns the record of the submission.

    InputError with Slurm's message if it refuses an array; arrays accepted before that stay recorded.
    """
    client.need_program("sbatch")
    if any(launch.launcher_for(run.config.testbed).fabric == "mpi" for run in runs):
        client.need_mpi(site.mpi)
    experiment = runs[0].experiment
    folder = status.new_folder(experiment)
    rendered = array_scripts(runs, site, folder, mlflow)
    safe_files.make_folder(folder, new=True)
    safe_files.write_safely(folder / "site.yaml", sites.site_path().read_bytes())
    submission: dict[str, Any] = {
        "experiment": experiment,
        "submitted_at": provenance.utc_now(),
        "command": provenance.command(["repro", *sys.argv[1:]]),
        "arrays": [],
    }
    for number, (needed, packs, text) in enumerate(rendered):
        path = folder / (f"job-{number}-{needed.ranks}ranks.sbatch" if len(rendered) > 1 else "job.sbatch")
        safe_files.write_safely(path, text.encode())
        new = [run for run in flatten_packs(packs) if prepare_folder(run)]
        try:
            job = client.submit_script(path)
        except InputError:
            for run in new:
                safe_files.remove_tree(run.folder)
            if not submission["arrays"]:
                safe_files.remove_tree(folder)
            raise
        submission["arrays"].append(
            {
                "job": job,
                "script": path.name,
                "ranks": needed.ranks,
                "nodes": needed.nodes,
                "partition": site.partition,
                "messages": needed.messages,
                "runs": [
                    {
                        "path": str(run.folder.relative_to(folder.parents[1])),
                        "label": run.label,
                        "key": run.key,
                        "metric": run.config.metric,
                        "task": task,
                    }
                    for task, pack in enumerate(packs)
                    for run in pack
                ],
            }
        )
        status.write_submission(folder, submission)
    return submission | {"folder": str(folder)}
