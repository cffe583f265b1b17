"""`repro list`: papers, experiments, plugins and testbeds. Imports neither Hydra nor PyTorch."""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repro.cli.options import as_json
from repro.core.errors import unknown_name
from repro.core.not_none import not_none
from repro.core.registry import PLUGINS
from repro.core.terminal import style_text
from repro.experiment import files
from repro.experiment.code_digest import source_file

if TYPE_CHECKING:
    import pandas as pd

    from repro.experiment.papers import Entry

NEXT = "next: repro list PAPER · repro list models · repro show EXPERIMENT · repro run EXPERIMENT"
LINES = 4  # maximum for the names of a kind in the overview


def add_commands(commands: Any) -> None:
    listing = commands.add_parser("list", help="list experiments, strategies, models, data sets and testbeds")
    what = "a paper (its experiments in its order, with what each needs), or experiments, strategies, models, ..."
    listing.add_argument("what", nargs="?", help=what)
    listing.set_defaults(command=cmd_list)
    as_json(listing)


def cmd_list(args: argparse.Namespace) -> None:
    papers = count_experiments(args.what)
    if args.what in papers:
        list_paper(args.what, args.json)
    elif args.what in KINDS:
        print_names(describe_kind(KINDS[args.what]), args.json)
    elif args.what == EXPERIMENTS:
        print_names(describe_all(), args.json)
    else:
        names = {kind: files.group_names(group) for kind, group in KINDS.items()}
        if args.json:
            print(json.dumps({EXPERIMENTS: describe_all()} | names, indent=1))
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


EXPERIMENTS = "experiments"
KINDS = {"strategies" if group == "strategy" else f"{group}s": group for group in files.GROUPS}


def list_names(what: str | None = None) -> pd.DataFrame:
    """The experiments of all papers, or of one, or the strategies, models, datasets, testbeds or imbalances.

    Columns: `name`; `about`, a line; of experiments also `headline` (whether headline claims rest on it) and `needs`
    (data, GPUs). InputError for another name.
    """
    import pandas as pd

    if what in KINDS:
        return pd.DataFrame(describe_kind(KINDS[what]).items(), columns=["name", "about"])
    known = count_experiments(what)
    rows = []
    for paper in [what] if what and what in known else known:
        entries = describe_experiments(paper)
        rows += [
            {
                "name": name,
                "about": entry.shows if entry else title,
                "headline": bool(entry and entry.headline),
                "needs": entry.needs if entry else "",
            }
            for name, (title, entry) in entries.items()
        ]
    return pd.DataFrame(rows, columns=["name", "about", "headline", "needs"])


def count_experiments(what: str | None = None) -> Mapping[str, int]:
    """Paper -> the number of its experiments. InputError if `what` is none of what can be listed."""
    papers = Counter(name.split("/")[0] for name in files.group_names("experiment"))
    if what not in (None, EXPERIMENTS, *papers, *KINDS):
        raise unknown_name("paper or kind", str(what), [*papers, EXPERIMENTS, *KINDS])
    return papers


def describe_all() -> dict[str, str]:
    """Every experiment with its title."""
    from repro.experiment import config

    return config.read_titles(config.experiment_names())


def describe_experiments(paper: str) -> dict[str, tuple[str, Entry | None]]:
    """The experiments of a paper in its order, each with its title and its entry in the paper's file."""
    from repro.experiment import config, papers

    entries = {f"{paper}/{entry.experiment}": entry for entry in papers.read_entries(paper)}
    return {
        name: (title, entries.get(name)) for name, title in config.read_titles(config.experiment_names(paper)).items()
    }


def describe_kind(group: str) -> dict[str, str]:
    """The names of a group of files, each with the first line of its module's docstring."""
    about = dict.fromkeys(files.group_names(group), "")
    if group in PLUGINS:
        about |= {name: _first_line(PLUGINS[group].module_of(name)) for name in PLUGINS[group].names()}
    return about


def _first_line(module: str) -> str:
    """The first line of a module's docstring, parsed without importing the module and PyTorch."""
    try:
        return (ast.get_docstring(ast.parse(not_none(source_file(module)).read_bytes())) or "").partition("\n")[0]
    except (AssertionError, OSError, SyntaxError, ValueError):
        return ""
