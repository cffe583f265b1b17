"""Reads extracted features: a file <folder>/<name>.npy for each clip, with a vector for each frame."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repro.core.errors import InputError, some_of


def load_features(path: Path, expected: str = "features") -> np.ndarray:
    """The memory-mapped array (frames, features), float16 or float32; InputError for a file without such an array.

    expected: the required number of features; "features": any.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy file ({error})") from None
    fits = array.ndim == 2 and len(array) and expected in ("features", str(array.shape[1]))
    if not fits or array.dtype not in (np.float16, np.float32):
        raise InputError(f"{path}: holds {array.shape} {array.dtype}, expected (frames, {expected}) float16 or float32")
    return array


def features_checksum(folder: Path, names: Sequence[str], what: str, remedy: str = "") -> str:
    """The SHA-256 over the names and sizes of the files; InputError naming missing ones. what: "clips" or "videos"."""
    absent, lines = [], []
    for name in names:
        try:
            lines.append(f"{name} {(folder / f'{name}.npy').stat().st_size}\n")
        except OSError:
            absent.append(f"{name}.npy")
    if absent:
        raise InputError(f"{folder}: {len(absent)} of {len(names)} {what} have no features: {some_of(absent)}{remedy}")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
