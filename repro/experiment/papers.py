"""The papers' own order: `paper_configs/papers/<paper>.yaml`, an entry an experiment, with what it shows and needs."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from repro.common import yaml_files
from repro.common.errors import InputError
from repro.common.paths import CONFIGS

LAST = 1_000  # the place of an experiment that its paper's file does not name


class Entry(NamedTuple):
    """An experiment of a paper."""

    experiment: str
    shows: str  # figure or table
    headline: bool  # do claims that the paper is known for rest on it?
    data: list[str]
    gpu: bool  # is scale `paper` meant for GPUs?

    @property
    def needs(self) -> str:
        """`cifar10, GPUs at paper`"""
        return ", ".join([*self.data, *(["GPUs at paper"] if self.gpu else [])])


@cache
def entries(paper: str) -> tuple[Entry, ...]:
    """The experiments of a paper in its order; none of one without a file."""
    path = CONFIGS / "papers" / f"{paper}.yaml"
    found: list[dict[str, Any]] = yaml_files.read(path) if path.is_file() else []
    try:
        return tuple(Entry(**entry) for entry in found)
    except TypeError as error:
        raise InputError(f"{path}: {error}; must be entries with {', '.join(Entry._fields)}") from None


def place(name: str) -> tuple[str, int, str]:
    """What experiments `paper/experiment` are sorted by: a paper's in its order, then those that it does not name."""
    paper, _, experiment = name.partition("/")
    order = [entry.experiment for entry in entries(paper)]
    return paper, order.index(experiment) if experiment in order else LAST, name
