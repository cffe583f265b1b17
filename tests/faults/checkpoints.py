"""Lists the checkpoints of a run by their file names."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from repro.core.not_none import not_none

NAME = re.compile(r"iteration(\d+)\.rank(\d+)\.pt")


def checkpoints_below(folder: Path) -> list[Path]:
    """All complete checkpoints (those with a manifest) below a folder, the oldest first."""
    paths: list[Path] = []
    with contextlib.suppress(FileNotFoundError):  # a run that ends removes its folder
        paths.extend(p for p in folder.rglob("*.pt") if NAME.fullmatch(p.name) and p.with_suffix(".json").exists())
    return sorted(paths, key=lambda path: (iteration(path), rank(path)))


def checkpoints_of_rank(folder: Path, number: int) -> list[Path]:
    return [path for path in checkpoints_below(folder) if rank(path) == number]


def iteration(path: Path) -> int:
    return int(not_none(NAME.fullmatch(path.name))[1])


def rank(path: Path) -> int:
    return int(not_none(NAME.fullmatch(path.name))[2])
