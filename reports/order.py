"""What a page shows, in its paper's own order: that of `paper_configs/papers/<paper>.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.experiment.papers import entries


def shown(paper: str, files: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Experiment of the page -> what it is there; files: those of experiments that show several files' results."""
    of = {file: name for name, some in files.items() for file in some}
    found: dict[str, str] = {}
    for entry in entries(paper):
        found.setdefault(of.get(entry.experiment, entry.experiment), entry.shows)
    return found


def headline(paper: str, files: Sequence[str]) -> bool:
    """Whether claims that the paper is known for rest on one of these experiments."""
    return any(entry.headline for entry in entries(paper) if entry.experiment in files)
