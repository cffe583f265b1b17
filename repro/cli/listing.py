"""`repro list`: papers, experiments, plugins and testbeds."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from typing import Any

from repro.cli.options import as_json
from repro.core.terminal import style_text

NEXT = "next: repro list PAPER · repro list models · repro show EXPERIMENT · repro run EXPERIMENT"
LINES = 4  # maximum for the names of a kind in the overview


def add_commands(commands: Any) -> None:
    listing = commands.add_parser("list", help="list experiments, strategies, models, data sets and testbeds")
    what = "a paper (its experiments in its order, with what each needs), or experiments, strategies, models, ..."
    listing.add_argument("what", nargs="?", help=what)
    listing.set_defaults(command=cmd_list)
    as_json(listing)


def cmd_list(args: argparse.Namespace) -> None:
    from repro.experiment import config, files
    from repro.experiment.listed import EXPERIMENTS, KINDS, count_experiments, describe_kind

    papers = count_experiments(args.what)
    if args.what in papers:
        list_paper(args.what, args.json)
        return
    experiments = config.experiment_names()
    if args.what in KINDS:
        print_names(describe_kind(KINDS[args.what]), args.json)
    elif args.what == EXPERIMENTS:
        print_names(config.read_titles(experiments), args.json)
    else:
        names = {kind: files.group_names(group) for kind, group in KINDS.items()}
        if args.json:
            print(json.dumps({EXPERIMENTS: config.read_titles(experiments)} | names, indent=1))
        else:
            print(format_overview({EXPERIMENTS: [f"{paper} {count}" for paper, count in papers.items()]} | names))


def format_overview(rows: dict[str, list[str]]) -> str:
    """The names of each kind; of many names the first."""
    indent = max(map(len, rows)) + 2
    width = max(20, shutil.get_terminal_size().columns - indent - 1)
    lines: list[str] = []
    for kind, names in rows.items():
        wrapped = textwrap.wrap(", ".join(names), width, break_on_hyphens=False)
        if len(wrapped) > LINES:
            wrapped[LINES - 1 :] = [f"... {len(names)} in all: repro list {kind}"]
        heads = [style_text(f"{kind:{indent}}", "bold", sys.stdout)] + [" " * indent] * (len(wrapped) - 1)
        lines += map("".join, zip(heads, wrapped))
    return "\n".join([*lines, "", NEXT])


def print_names(about: dict[str, str], as_json: bool) -> None:
    """Print names, each with a line about it."""
    if as_json:
        print(json.dumps(about, indent=1))
        return
    width = max(map(len, about), default=0)
    for name, line in about.items():
        print(f"{name:{width}}  {line}".rstrip())


def list_paper(paper: str, as_json: bool) -> None:
    """Print a paper's experiments in its order: what they show and need; a star marks those of headline claims."""
    from repro.experiment.listed import describe_experiments

    experiments = describe_experiments(paper)
    if as_json:
        shown = [
            entry.model_dump() if entry else {"experiment": name.split("/")[-1]}
            for name, (_, entry) in experiments.items()
        ]
        print(json.dumps(shown, indent=1))
        return
    width = max(map(len, experiments), default=0)
    for name, (title, entry) in experiments.items():
        what = f"{entry.shows}: {entry.needs or 'no data'}" if entry else title
        print(f"{'*' if entry and entry.headline else ' '} {name:{width}}  {what}")
