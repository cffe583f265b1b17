"""`make bench`: run the benchmarks of the harness and judge their goals; writes results/bench/."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from repro.cli.benchmarks import run_again
from repro.cli.main import run_reporting_errors
from repro.cli.options import Parser, as_json
from repro.core import command_process, config_folders
from repro.core.atomic import write_atomically
from repro.core.errors import NotHere, unknown_name
from repro.core.fields import check_fields
from repro.core.paths import results_root
from repro.experiment.config import experiment_names
from repro.records.run_columns import scalar_entries
from tests.bench import commands, first_step, goals, gtopk_exchange, selection, simulator, solo_floor

FOLDER = Path(__file__).parent
FUNCTIONS = {
    "commands": commands,
    "first-step": first_step,
    "gtopk": gtopk_exchange,
    "selection": selection,
    "simulator": simulator,
    "solo-floor": solo_floor,
}


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog="python -m tests.bench", description="run the harness's benchmarks and judge their goals")
    parser.add_argument("--only", metavar="BENCHMARK", help="run one benchmark; an unknown name lists them")
    parser.add_argument("--scale", default="full", choices=["quick", "full"], help="quick (does it run), or full")
    as_json(parser)
    return parser.parse_args()


def run_benchmarks() -> None:
    """Run them; each writes its records or rows before the next begins, and its goals."""
    args = parse_arguments()
    command_process.start_guard()
    with config_folders.using_folders([FOLDER]), command_process.signals_interrupt({}):
        experiments = [name.partition("/")[2] for name in experiment_names("bench", args.scale)]
        names = sorted([*experiments, *FUNCTIONS])
        if args.only is not None and args.only not in names:
            raise unknown_name("benchmark", args.only, names)
        judged = {name: judge_benchmark(name, args.scale) for name in names if args.only in (None, name)}
    if args.json:
        print(json.dumps(judged, indent=1))
        return
    for name, judgements in judged.items():
        print(f"{name}\n{goals.text(judgements) or '  no goal is judged on this machine'}")
    print(f"records and goals: {results_root() / 'bench'}")


def judge_benchmark(name: str, scale: str) -> list[dict[str, Any]]:
    """Run a benchmark; its goals, as `goals.judge`."""
    if name in FUNCTIONS:
        rows = FUNCTIONS[name].measure_rows(scale)
        write(name, "rows", rows)
        table = pd.DataFrame([dict(scalar_entries(row)) for row in rows]).assign(seed=0)
        judgements = [
            judgement
            for goal in FUNCTIONS[name].GOALS
            for judgement in goals.judge(check_fields(goals.Goal, goal, "goals"), table)
        ]
    else:
        judgements = judge_experiment(f"bench/{name}", scale)
    write(name, "goals", judgements)
    return judgements


def judge_experiment(name: str, scale: str) -> list[dict[str, Any]]:
    """Run an experiment; its goals, also on a machine that cannot run it."""
    try:
        return goals.judge_experiment(name, run_again(name, [], scale))
    except NotHere as error:
        return goals.judge_not_here(name, str(error))


def write(name: str, what: str, content: Any) -> None:
    path = results_root() / "bench" / name / f"{what}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(run_reporting_errors(run_benchmarks))
