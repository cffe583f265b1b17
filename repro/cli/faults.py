"""`repro faults`: inject a seeded series of faults into real runs, and tabulate the losses."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from repro.cli.options import as_json, count
from repro.core.errors import InputError, unknown


def add(commands: Any) -> None:
    faults = commands.add_parser("faults", help="inject faults into real runs and verify recovery")
    faults.add_argument("--trials", type=count, help="number of trials (default: every fault on every strategy)")
    faults.add_argument("--seed", type=int, default=0, help="seed of the plan: order, targets and times of faults")
    faults.add_argument("--minutes", type=float, default=math.inf, help="start no trial after this many minutes")
    faults.add_argument("--strategy", action="append", help="test only this strategy (may be repeated)")
    faults.add_argument("--fault", action="append", help="inject only this fault (may be repeated)")
    as_json(faults)
    faults.set_defaults(command=cmd_faults)


def cmd_faults(args: argparse.Namespace) -> None:
    from repro import strategies
    from repro.core import safe_files
    from repro.core.paths import results_root
    from repro.testing.faults import series

    valid = {"strategy": strategies.names(), "fault": list(series.FAULTS)}
    for option, names in valid.items():
        if wrong := next((name for name in getattr(args, option) or () if name not in names), None):
            raise unknown(option, wrong, names)
    if not args.minutes > 0:
        raise InputError(f"--minutes {args.minutes:g}: must be above 0")
    folder = results_root() / "faults"
    safe_files.make_folder(folder)
    chosen = args.strategy or valid["strategy"], args.fault or valid["fault"]
    series.run(folder, *chosen, args.seed, args.trials, 60 * args.minutes)
    records = series.latest(series.read(folder))
    print(json.dumps(records, indent=1) if args.json else series.table(records))
    series.check(records)
