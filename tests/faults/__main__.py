"""`make faults`: inject a seeded series of faults into real runs, and tabulate the losses."""

from __future__ import annotations

import argparse
import json
import math
import sys

from repro import strategies
from repro.cli.main import run_reporting_errors
from repro.cli.options import Parser, as_json, parse_count
from repro.core import command_process, safe_files
from repro.core.errors import InputError, unknown_name
from repro.core.paths import FAULTS, results_root
from tests.faults import series


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog="python -m tests.faults", description="inject faults into real runs and verify recovery")
    parser.add_argument("--trials", type=parse_count, help="number of trials (default: every fault on every strategy)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the plan: order, targets and times of faults")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no trial after this many minutes")
    parser.add_argument("--strategy", action="append", help="test only this strategy (may be repeated)")
    parser.add_argument("--fault", action="append", help="inject only this fault (may be repeated)")
    as_json(parser)
    return parser.parse_args()


def inject_faults() -> None:
    args = parse_arguments()
    valid = {"strategy": strategies.strategy_names(), "fault": list(series.FAULTS)}
    for option, names in valid.items():
        if wrong := next((name for name in getattr(args, option) or () if name not in names), None):
            raise unknown_name(option, wrong, names)
    if not args.minutes > 0:
        raise InputError(f"--minutes {args.minutes:g}: must be above 0")
    folder = results_root() / FAULTS
    safe_files.make_folder(folder)
    chosen = args.strategy or valid["strategy"], args.fault or valid["fault"]
    command_process.start_guard()
    with command_process.signals_interrupt({}):
        series.run_series(folder, *chosen, args.seed, args.trials, 60 * args.minutes)
    records = series.latest_records(series.read_records(folder))
    print(json.dumps(records, indent=1) if args.json else series.outcome_tables(records))
    series.check_outcomes(records)


if __name__ == "__main__":
    sys.exit(run_reporting_errors(inject_faults))
