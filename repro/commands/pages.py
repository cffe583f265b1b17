"""`repro report`: the pages, built from results alone."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from repro.commands.options import as_json


def add(commands: Any) -> None:
    report = commands.add_parser("report", help="build the report pages from results alone")
    report.add_argument("paper", nargs="?", help="one paper's page (default: all pages)")
    report.add_argument("--out", type=Path, help="folder (default: $REPRO_REPORTS, else pages/ of the results folder)")
    as_json(report)
    report.set_defaults(command=cmd_report)


def cmd_report(args: argparse.Namespace) -> None:
    from repro.reports.build import build

    written = build(args.paper, out=args.out, say=say)
    if args.json:
        print(json.dumps([str(path) for path in written]))
        return
    for path in written:
        if path.suffix == ".html":
            print(path)


def say(line: str) -> None:
    """A line on stderr at once: a page takes its time, and stdout may be somebody's --json."""
    print(line, file=sys.stderr, flush=True)
