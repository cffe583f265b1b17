"""The files of checkpoints, without importing PyTorch (`repro.rank.checkpoints` reads and writes them).

In a run's folder `checkpoints/iteration000000100.rank0.pt` is the state of a rank, `iteration000000100.pt` those of all
ranks. Each has a manifest, `.json` in the place of `.pt`, written last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from repro.core.atomic import write_atomically

FOLDER = "checkpoints"
_NAME = re.compile(r"iteration(\d+)(?:\.rank(\d+))?\.(pt|json)")


def checkpoint_path(folder: Path, iteration: int, rank: int | None = None) -> Path:
    """The file of a rank in a folder of checkpoints; None: of all ranks."""
    of_rank = "" if rank is None else f".rank{rank}"
    return folder / f"iteration{iteration:09d}{of_rank}.pt"


def manifest_path(checkpoint: Path) -> Path:
    return checkpoint.with_suffix(".json")


def write_manifest(checkpoint: Path, iteration: int, rank: int | None, size: int, sha256: str) -> None:
    """Declare a checkpoint complete. size: in bytes."""
    manifest = {"iteration": iteration, "rank": rank, "bytes": size, "sha256": sha256}
    write_atomically(manifest_path(checkpoint), json.dumps(manifest) + "\n")


def list_checkpoints(folder: Path, suffix: str = ".pt") -> Iterator[tuple[int, int | None]]:
    """(iteration, rank) of each checkpoint in a folder; rank: None of all ranks. suffix: `.json` lists manifests."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix == suffix and (name := _NAME.fullmatch(path.name)):
            yield int(name[1]), None if name[2] is None else int(name[2])
