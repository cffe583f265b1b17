"""Checkpoints: one file a rank and generation, and beside it a manifest of what the file must hold.

Both are written aside and renamed, the manifest last: without one a file was not finished. What is loaded has the size
and the SHA-256 that its manifest says, and holds tensors and plain values only: nothing that it says is run.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import torch

from repro.core import safe_files
from repro.core.atomic import write_atomically
from repro.core.errors import cannot

KEPT = 2  # generations: a kill while the newest is being written must leave the one before whole
# the same where ranks write by themselves: one may be an epoch of few minibatches or two ahead of another
KEPT_ALONE = 4


class Damaged(Exception):
    """A checkpoint that cannot be resumed: its message names the file and what is wrong."""


class Checkpoints:
    """The checkpoints of one rank in a run's folder, by iteration."""

    def __init__(self, folder: Path, rank: int):
        self.folder, self.rank = folder / "checkpoints", rank
        safe_files.make_folder(self.folder)

    def _path(self, iteration: int) -> Path:
        return self.folder / f"iteration{iteration:09d}.rank{self.rank}.pt"

    def _manifest(self, iteration: int) -> Path:
        return self._path(iteration).with_suffix(".json")

    def available(self) -> list[int]:
        """Iterations of which this rank has a file, in order; only `load` says whether it is whole."""
        pattern = re.compile(rf"iteration(\d+)\.rank{self.rank}\.pt")
        return sorted(int(match[1]) for path in self.folder.iterdir() if (match := pattern.fullmatch(path.name)))

    def save(self, iteration: int, state: dict[str, Any]) -> None:
        """Bring file and manifest to the disk. `state`: of tensors, numbers, strings and plain containers of them.

        InputError where the place cannot be written; nothing of the generation is left then.
        """
        path, manifest = self._path(iteration), self._manifest(iteration)
        temporary = path.with_suffix(".tmp")
        try:
            with _Written(temporary) as written:
                torch.save(state, written)
                written.flush()
                os.fsync(written.fileno())
            os.replace(temporary, path)
            holds = {"bytes": written.size, "sha256": written.digest.hexdigest()}
            write_atomically(manifest, json.dumps({"iteration": iteration, "rank": self.rank, **holds}) + "\n")
        except (OSError, RuntimeError) as error:
            for unfinished in (temporary, path, manifest):
                with contextlib.suppress(OSError):
                    unfinished.unlink()
            reason = error if isinstance(error, OSError) else written.error
            if reason is None:
                raise
            raise cannot("write", path, reason) from None

    def load(self, iteration: int) -> dict[str, Any]:
        """The state that `save` was given; Damaged where the file does not hold what its manifest says."""
        path, manifest = self._path(iteration), self._manifest(iteration)
        try:
            stated = json.loads(safe_files.read(manifest))
            size, sha256 = stated["bytes"], stated["sha256"]
            if (stated["iteration"], stated["rank"]) != (iteration, self.rank):
                raise ValueError("of another checkpoint")
        except FileNotFoundError:
            raise Damaged(f"{path}: was not finished (it has no manifest)") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise Damaged(f"{manifest}: not its manifest ({error!r})") from None
        try:
            with safe_files.open_file(path) as file:
                if (actual := os.fstat(file.fileno()).st_size) != size:
                    raise Damaged(f"{path}: has {actual} bytes, not {size}")
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    raise Damaged(f"{path}: is not what was written (its SHA-256 is another)")
                file.seek(0)
                return torch.load(file, map_location="cpu", weights_only=True)
        except OSError as error:
            raise Damaged(f"{path}: {error.strerror or error}") from None
        except Damaged:
            raise
        except Exception:  # somebody else's file and manifest: there is nothing that it could not be
            raise Damaged(f"{path}: holds other things than tensors and plain values") from None

    def discard(self, after: int) -> None:
        """Delete the generations behind iteration `after`, which the run makes again: the ranks' files of two attempts
        must not be taken for one generation."""
        self._delete([iteration for iteration in self.available() if iteration > after])

    def prune(self, kept: int = KEPT) -> None:
        """Delete all but the last generations; only called when every rank has written the newest, or with `kept` so
        many that those which all have are among them."""
        self._delete(self.available()[:-kept])

    def _delete(self, iterations: list[int]) -> None:
        for iteration in iterations:
            self._path(iteration).unlink(missing_ok=True)
            self._manifest(iteration).unlink(missing_ok=True)


class _Written(io.BufferedWriter):
    """A file for torch to write: what has gone into it, and the error that torch reports as an assertion of its own."""

    def __init__(self, path: Path):
        super().__init__(io.FileIO(path, "w", opener=lambda _, flags: safe_files.open_descriptor(path, flags)))
        self.size, self.digest = 0, hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            written = super().write(data)
        except OSError as error:
            self.error = error
            raise
        self.digest.update(data)
        self.size += written
        return written


def common(available: list[list[int]]) -> int | None:
    """The last iteration for which every rank has a checkpoint."""
    shared = set.intersection(*map(set, available)) if available else set()
    return max(shared) if shared else None
