"""Checkpoint files: one for each rank and saved iteration, or one for all ranks, each with a manifest.

Both are written to temporary files and renamed, the manifest last: a file without manifest is incomplete. Loading
verifies size and SHA-256, and accepts only tensors and plain values, so that no code from the file is run. A checkpoint
of another machine is one file for all ranks (`repro.rank.checkpoints`).

Replicas are mostly equal bit for bit, so each tensor is stored once: of ResNet-20 on four workers one copy of weights
and momentum, and four residuals. `repro.rank.checkpoints` loads it.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from repro.core import safe_files
from repro.core.errors import cannot_access
from repro.rank.checkpoint_files import FOLDER, checkpoint_path, list_checkpoints, manifest_path, write_manifest

# Saved iterations to keep. A kill while the newest is written must leave the previous one intact.
KEPT = 2
KEPT_ALONE = 4  # if ranks save independently: one rank may be one or two short epochs ahead of another


class Damaged(Exception):
    """A checkpoint is unusable; the message names the file and the reason."""


class Checkpoints:
    """The checkpoints of one rank in a run's folder, by iteration."""

    def __init__(self, folder: Path, rank: int):
        self.folder, self.rank = folder / FOLDER, rank
        safe_files.make_folder(self.folder)

    def _path(self, iteration: int) -> Path:
        return checkpoint_path(self.folder, iteration, self.rank)

    def available(self) -> list[int]:
        """The iterations for which this rank has a file, in order; only `load` verifies it."""
        return sorted({at for at, rank in list_checkpoints(self.folder) if rank in (None, self.rank)})

    def save(self, iteration: int, state: dict[str, Any]) -> None:
        """Write file and manifest to the disk. `state` consists of tensors, numbers, strings and plain containers.

        InputError if they cannot be written; both are removed then.
        """
        path = self._path(iteration)
        temporary = path.with_suffix(".tmp")
        try:
            with _HashingWriter(temporary) as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            write_manifest(path, iteration, self.rank, file.size, file.digest.hexdigest())
        except (OSError, RuntimeError) as error:
            for unfinished in (temporary, path, manifest_path(path)):
                with contextlib.suppress(OSError):
                    unfinished.unlink()
            reason = error if isinstance(error, OSError) else file.error
            if reason is None:
                raise
            raise cannot_access("write", path, reason) from None

    def load(self, iteration: int) -> dict[str, Any]:
        """The saved state; Damaged if the file does not match its manifest."""
        if self._path(iteration).exists():
            return load_verified(self._path(iteration), iteration, self.rank)
        joint = checkpoint_path(self.folder, iteration)
        ranks = load_verified(joint, iteration, None).get("ranks")
        try:
            return copy_state(ranks[self.rank])  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            raise Damaged(f"{joint}: has no state of rank {self.rank}") from None

    def discard(self, after: int) -> None:
        """Delete the checkpoints after iteration `after`, so that ranks never combine files of two attempts."""
        self._delete([iteration for iteration in self.available() if iteration > after])

    def prune(self, kept: int = KEPT) -> None:
        """Delete all but the last `kept` checkpoints, among which must be one that every rank has written."""
        self._delete(self.available()[:-kept])

    def _delete(self, iterations: list[int]) -> None:
        for iteration in iterations:
            for path in (self._path(iteration), checkpoint_path(self.folder, iteration)):
                path.unlink(missing_ok=True)
                manifest_path(path).unlink(missing_ok=True)


class _HashingWriter(io.BufferedWriter):
    """A file for torch.save, with size and SHA-256 of its content, and the OSError that torch reports as another."""

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


def load_verified(path: Path, iteration: int, rank: int | None) -> dict[str, Any]:
    """The content of a checkpoint file; rank: None if it holds all ranks. Damaged if it does not match its manifest."""
    manifest = manifest_path(path)
    try:
        expected = json.loads(safe_files.read_safely(manifest))
        size, sha256 = expected["bytes"], expected["sha256"]
        if (expected["iteration"], expected["rank"]) != (iteration, rank):
            raise ValueError("it belongs to another checkpoint")
    except FileNotFoundError:
        raise Damaged(f"{path}: is incomplete (it has no manifest)") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"{manifest}: is not a valid manifest ({error!r})") from None
    try:
        with safe_files.open_file(path) as file:
            if (actual := os.fstat(file.fileno()).st_size) != size:
                raise Damaged(f"{path}: has {actual} bytes, not {size}")
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                raise Damaged(f"{path}: was changed after it was written (its SHA-256 differs)")
            file.seek(0)
            state = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise Damaged(f"{path}: {error.strerror or error}") from None
    except Damaged:
        raise
    except Exception:  # file and manifest may come from somebody else, with any content
        raise Damaged(f"{path}: contains other objects than tensors and plain values") from None
    if not isinstance(state, dict):
        raise Damaged(f"{path}: is not the state of a rank")
    return state


def copy_state(value: Any) -> Any:
    """A state whose tensors have memory of their own; ranks of a joint file share those that are equal."""
    return map_tensors(value, torch.clone)


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The state with every tensor replaced by `change(tensor)`; its containers are copied."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        made = copy.copy(value)  # of the same type
        for name, entry in value.items():
            made[name] = map_tensors(entry, change)
        return made
    if isinstance(value, list | tuple):
        return type(value)([map_tensors(entry, change) for entry in value])
    return value


def last_common(available: list[list[int]]) -> int | None:
    """The last iteration for which every rank has a checkpoint; None if there is none."""
    shared = set.intersection(*map(set, available)) if available else set()
    return max(shared) if shared else None


def join_checkpoints(folder: Path, ranks: int, most_bytes: int) -> tuple[int, bytes]:
    """(iteration, file) of the newest checkpoint of the run in `folder` that can be verified for every rank.

    Damaged if it has none, or one of more than `most_bytes`.
    """
    if not (folder / FOLDER).is_dir():
        raise Damaged("it has no checkpoint")
    files = [Checkpoints(folder, rank) for rank in range(ranks)]
    available, problem = [each.available() for each in files], "it has no checkpoint of all ranks"
    while (iteration := last_common(available)) is not None:
        try:
            states = [each.load(iteration) for each in files]
            break
        except Damaged as error:
            problem = str(error)
        available = [[older for older in each if older < iteration] for each in available]
    else:
        raise Damaged(problem)
    stored: dict[tuple[torch.dtype, torch.Size, bytes], torch.Tensor] = {}

    def once(tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.detach().contiguous()
        digest = hashlib.sha256(plain.reshape(-1).view(torch.uint8).numpy().data).digest()
        return stored.setdefault((plain.dtype, plain.shape, digest), plain.clone())

    file = io.BytesIO()
    torch.save({"ranks": [map_tensors(state, once) for state in states]}, file)
    if (size := len(content := file.getvalue())) > most_bytes:
        raise Damaged(f"its checkpoint has {size / 2**20:.1f} MiB, of {most_bytes >> 20} that are packed")
    return iteration, content
