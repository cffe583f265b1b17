"""`repro report`: the pages, rebuilt from results alone."""

from __future__ import annotations

import argparse
import json
from typing import Any

from repro.commands.options import as_json


def add(commands: Any) -> None:
    report = commands.add_parser("report", help="rebuild the report pages from results/ alone")
    report.add_argument("paper", nargs="?", help="one paper (default: all pages)")
    as_json(report)
    report.set_defaults(command=cmd_report)


def cmd_report(args: argparse.Namespace) -> None:
    from reports.build import build

    written = build(args.paper)
    if args.json:
        print(json.dumps([str(path) for path in written]))
        return
    for path in written:
        if path.suffix == ".html":
            print(path)
