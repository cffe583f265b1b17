"""The papers' own order: `paper_configs/papers/<paper>.yaml`, an entry an experiment, with what it shows and needs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from repro.core import config_folders, yaml_files
from repro.core.errors import InputError
from repro.core.fields import Model, Text, checked
from repro.core.warnings import warn

LAST = 1_000  # the place of an experiment that its paper's file does not name


class Entry(Model):
    """An experiment of a paper."""

    experiment: Text
    shows: Text  # figure or table
    headline: bool  # do claims that the paper is known for rest on it?
    data: list[Text]
    gpu: bool  # is scale `paper` meant for GPUs?

    @property
    def needs(self) -> str:
        """`cifar10, GPUs at paper`"""
        return ", ".join([*self.data, *(["GPUs at paper"] if self.gpu else [])])


def entries(paper: str) -> tuple[Entry, ...]:
    """The experiments of a paper in its order; none of one without a file. InputError for an entry of another form."""
    path = config_folders.find("papers", f"{paper}.yaml")
    return _entries(path, path.stat().st_mtime_ns) if path.is_file() else ()


@cache
def _entries(path: Path, modified_ns: int) -> tuple[Entry, ...]:
    found = yaml_files.read(path) or []
    if not isinstance(found, list):
        raise InputError(f"{path}: must be a list of experiments, each with {', '.join(Entry.model_fields)}")
    made = []
    for number, given in enumerate(found, start=1):
        try:
            made.append(checked(Entry, given))
        except InputError as error:
            raise InputError(f"{path}: entry {number}: {error}") from None
    return tuple(made)


def place(name: str) -> tuple[str, int, str]:
    """What experiments `paper/experiment` are sorted by: a paper's in its order, then those that it does not name.

    A paper's file that cannot be used costs a warning: it says the order, and no more, of what others want to run.
    """
    paper, _, experiment = name.partition("/")
    try:
        order = [entry.experiment for entry in entries(paper)]
    except InputError as error:
        warn(f"{error}; its experiments are in the order of their names")
        order = []
    return paper, order.index(experiment) if experiment in order else LAST, name
