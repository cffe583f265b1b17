"""The experiments of a paper in its order, with figure and needs: `paper_configs/papers/<paper>.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from repro.core import config_folders, user_files
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Model, Text, checked_entries
from repro.core.terminal import warn
from repro.experiment.files import in_files

LAST = 1_000  # position of an experiment that its paper's file does not name


class Entry(Model):
    """An experiment of a paper."""

    experiment: Text
    shows: Text  # figure or table
    headline: bool  # whether headline claims rest on it
    data: list[Text]
    gpu: bool  # whether scale `paper` needs GPUs

    @property
    def needs(self) -> str:
        """`cifar10, GPUs at paper`"""
        return ", ".join([*self.data, *(["GPUs at paper"] if self.gpu else [])])


def read_entries(paper: str) -> tuple[Entry, ...]:
    """The experiments of a paper in its order; () for a paper without a file. InputError for an invalid entry."""
    path = config_folders.find_config("papers", f"{paper}.yaml")
    return _entries(path, path.stat().st_mtime_ns) if path.is_file() else ()


@cache
def _entries(path: Path, modified_ns: int) -> tuple[Entry, ...]:
    entries = tuple(checked_entries(Entry, user_files.read_yaml(path) or [], path))
    paper = f"{path.stem}/"
    names = [name.removeprefix(paper) for name in in_files("experiment") if name.startswith(paper)]
    for number, entry in enumerate(entries, start=1):
        if entry.experiment not in names:
            raise InputError(f"{path}: entry {number}: {unknown_name('experiment', entry.experiment, names)}")
    return entries


def experiment_order(name: str) -> tuple[str, int, str]:
    """The sort key of an experiment `paper/experiment`: in the paper's order, then those that its file does not name.

    An unusable file costs a warning, because it only affects the order.
    """
    paper, _, experiment = name.partition("/")
    try:
        order = [entry.experiment for entry in read_entries(paper)]
    except InputError as error:
        warn(f"{error}; its experiments are sorted by name")
        order = []
    return paper, order.index(experiment) if experiment in order else LAST, name
