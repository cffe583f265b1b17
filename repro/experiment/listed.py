"""What there is: papers, their experiments, and the plugins and testbeds of each kind. Neither Hydra nor PyTorch is
imported."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from repro.core.errors import unknown_name
from repro.core.not_none import not_none
from repro.core.registry import PLUGINS
from repro.experiment import config, files, papers
from repro.experiment.cache_key import source_file

if TYPE_CHECKING:
    import pandas as pd

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


def describe_experiments(paper: str) -> dict[str, tuple[str, papers.Entry | None]]:
    """The experiments of a paper in its order, each with its title and its entry in the paper's file."""
    entries = {f"{paper}/{entry.experiment}": entry for entry in papers.entries(paper)}
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
