"""Checkpoints: one file a rank, written aside and renamed; a run resumes from the last that every rank has."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch

from repro.errors import InputError

KEPT = 2  # generations: a kill while the newest is being written must leave the one before whole
# the same where ranks write by themselves: one may be an epoch of few minibatches or two ahead of another
KEPT_ALONE = 4


class Checkpoints:
    """The checkpoints of one rank in a cell's folder, by iteration."""

    def __init__(self, folder: Path, rank: int):
        self.folder, self.rank = folder / "checkpoints", rank
        self.folder.mkdir(parents=True, exist_ok=True)

    def _path(self, iteration: int) -> Path:
        return self.folder / f"iteration{iteration:09d}.rank{self.rank}.pt"

    def available(self) -> list[int]:
        """Iterations at which this rank has a whole checkpoint, in order."""
        pattern = re.compile(rf"iteration(\d+)\.rank{self.rank}\.pt")
        return sorted(int(match[1]) for path in self.folder.iterdir() if (match := pattern.fullmatch(path.name)))

    def save(self, iteration: int, state: dict[str, Any]) -> None:
        """Write aside, flush to disk, rename; OSError leaves nothing behind."""
        path = self._path(iteration)
        temporary = path.with_suffix(".tmp")
        try:
            with open(temporary, "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except (OSError, RuntimeError) as error:  # torch's writer reports a full disk as RuntimeError
            temporary.unlink(missing_ok=True)
            raise InputError(f"{path.parent}: cannot write a checkpoint ({error})") from None

    def load(self, iteration: int) -> dict[str, Any]:
        return torch.load(self._path(iteration), map_location="cpu", weights_only=False)

    def prune(self, kept: int = KEPT) -> None:
        """Delete all but the last generations; only called when every rank has written the newest, or with `kept` so
        many that those which all have are among them."""
        for iteration in self.available()[:-kept]:
            self._path(iteration).unlink(missing_ok=True)


def common(available: list[list[int]]) -> int | None:
    """The last iteration for which every rank has a checkpoint."""
    shared = set.intersection(*map(set, available)) if available else set()
    return max(shared) if shared else None
