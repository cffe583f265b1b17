"""`repro faults`: a seeded series of faults on real runs, and a table of what they cost."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from repro.cli.options import as_json
from repro.core.errors import InputError, unknown


def add(commands: Any) -> None:
    faults = commands.add_parser("faults", help="strike real runs with seeded faults: is anything lost?")
    faults.add_argument("--trials", type=int, help="how many (default: a whole round, every fault and strategy)")
    faults.add_argument("--seed", type=int, default=0, help="of the plan and of every moment and choice in it")
    faults.add_argument("--minutes", type=float, default=math.inf, help="start no trial after so many minutes")
    faults.add_argument("--strategy", action="append", help="these alone (may be repeated)")
    faults.add_argument("--fault", action="append", help="these alone, by their names in the table (may be repeated)")
    as_json(faults)
    faults.set_defaults(command=cmd_faults)


def cmd_faults(args: argparse.Namespace) -> None:
    from repro import strategies
    from repro.core import no_links
    from repro.core.paths import results_root
    from repro.testing.faults import series

    for what, given, valid in (
        ("strategy", args.strategy, strategies.names()),
        ("fault", args.fault, list(series.FAULTS)),
    ):
        for name in given or ():
            if name not in valid:
                raise unknown(what, name, valid)
    if (args.trials is not None and args.trials < 1) or not args.minutes > 0:
        raise InputError("--trials must be 1 or more, --minutes above 0")
    folder = results_root() / "faults"
    no_links.make_folder(folder)
    chosen = args.strategy or strategies.names(), args.fault or list(series.FAULTS)
    series.run(folder, *chosen, args.seed, args.trials, 60 * args.minutes)
    records = series.latest(series.read(folder))
    print(json.dumps(records, indent=1) if args.json else series.table(records))
    series.check(records)
