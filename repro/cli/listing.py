"""`repro list`: papers, experiments, plugins and testbeds."""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import sys
import textwrap
from collections import Counter
from typing import Any

from repro.cli.options import as_json
from repro.core.errors import unknown
from repro.core.not_none import not_none
from repro.core.terminal import styled

EXPERIMENTS = "experiments"
NEXT = "next: repro list PAPER · repro list models · repro show EXPERIMENT · repro run EXPERIMENT"
LINES = 4  # maximum for the names of a kind in the overview


def add(commands: Any) -> None:
    listing = commands.add_parser("list", help="list experiments, strategies, models, data sets and testbeds")
    what = "a paper (its experiments in its order, with what each needs), or experiments, strategies, models, ..."
    listing.add_argument("what", nargs="?", help=what)
    listing.set_defaults(command=cmd_list)
    as_json(listing)


def cmd_list(args: argparse.Namespace) -> None:
    from repro.experiment import config, files

    kinds = {"strategies" if group == "strategy" else f"{group}s": group for group in files.GROUPS}
    papers = Counter(name.split("/")[0] for name in files.group_names("experiment"))
    if args.what in papers:
        list_paper(args.what, args.json)
        return
    experiments = config.experiment_names()
    if args.what in kinds:
        list_kind(kinds[args.what], args.json)
    elif args.what == EXPERIMENTS:
        show(config.titles(experiments), args.json)
    elif args.what:
        raise unknown("paper or kind", args.what, [*papers, EXPERIMENTS, *kinds])
    else:
        names = {kind: files.group_names(group) for kind, group in kinds.items()}
        if args.json:
            print(json.dumps({EXPERIMENTS: config.titles(experiments)} | names, indent=1))
        else:
            print(overview({EXPERIMENTS: [f"{paper} {count}" for paper, count in papers.items()]} | names))


def overview(rows: dict[str, list[str]]) -> str:
    """The names of each kind; of many names the first."""
    indent = max(map(len, rows)) + 2
    width = max(20, shutil.get_terminal_size().columns - indent - 1)
    lines: list[str] = []
    for kind, names in rows.items():
        wrapped = textwrap.wrap(", ".join(names), width, break_on_hyphens=False)
        if len(wrapped) > LINES:
            wrapped[LINES - 1 :] = [f"... {len(names)} in all: repro list {kind}"]
        heads = [styled(f"{kind:{indent}}", "bold", sys.stdout)] + [" " * indent] * (len(wrapped) - 1)
        lines += map("".join, zip(heads, wrapped))
    return "\n".join([*lines, "", NEXT])


def list_kind(group: str, as_json: bool) -> None:
    """Print the names of a kind, each with the first line of its module's docstring."""
    from repro.core.registry import PLUGINS
    from repro.experiment import files

    about = dict.fromkeys(files.group_names(group), "")
    if group in PLUGINS:
        about |= {name: first_line(PLUGINS[group].module_of(name)) for name in PLUGINS[group].names()}
    show(about, as_json)


def show(about: dict[str, str], as_json: bool) -> None:
    """Print names, each with a line about it."""
    if as_json:
        print(json.dumps(about, indent=1))
        return
    width = max(map(len, about), default=0)
    for name, line in about.items():
        print(f"{name:{width}}  {line}".rstrip())


def first_line(module: str) -> str:
    """The first line of a module's docstring, parsed without importing the module and PyTorch."""
    from repro.experiment.cache_key import source_file

    try:
        return (ast.get_docstring(ast.parse(not_none(source_file(module)).read_bytes())) or "").partition("\n")[0]
    except (AssertionError, OSError, SyntaxError, ValueError):
        return ""


def list_paper(paper: str, as_json: bool) -> None:
    """Print a paper's experiments in its order: what they show and need; a star marks those of headline claims."""
    from repro.experiment import config, papers

    known = {f"{paper}/{entry.experiment}": entry for entry in papers.entries(paper)}
    titles = config.titles(config.experiment_names(paper))
    if as_json:
        shown = [known[name].model_dump() if name in known else {"experiment": name.split("/")[-1]} for name in titles]
        print(json.dumps(shown, indent=1))
        return
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        entry = known.get(name)
        what = f"{entry.shows}: {entry.needs or 'no data'}" if entry else title
        print(f"{'*' if entry and entry.headline else ' '} {name:{width}}  {what}")
