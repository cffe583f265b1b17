"""CAMEL: images in ten classes: NAME/train.npz and NAME/test.npz, each with x (N, 1, 8, 8) float32 and y (N,) int64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro.data import files

FILES: dict[str, Any] = {}  # name -> size and SHA-256 of standard public files, which are then checked and downloaded
MIRRORS = ()
MISSING = "put train.npz and test.npz"
OPTIONS = ("samples",)  # entries of the configuration besides name and standin
STANDIN = "NAME-standin-seeded"
CLASSES, SHAPE = 10, (1, 8, 8)


def find(root: str | None = None) -> Path | None:
    """The folder of both files; None if it does not exist."""
    folders = [place / "NAME" for place in files.search_places(root)]
    return next((folder for folder in folders if (folder / "train.npz").is_file()), None)


def read(folder: Path, samples: int | None = None) -> Any:
    """The data in the folder of `find`; samples: maximum number of training samples, None: all."""
    import hashlib

    import numpy as np
    import torch

    from repro.data.base import Dataset, Split

    splits, digest = [], hashlib.sha256()
    for part, most in (("train", samples), ("test", None)):
        path = folder / f"{part}.npz"
        digest.update(files.file_sha256(path).encode())
        with np.load(path) as arrays:
            x, y = (torch.from_numpy(arrays[name][:most]) for name in ("x", "y"))
        splits.append(Split(x.reshape(-1, *SHAPE), y))
    name = "NAME" if samples is None else "NAME-subset"
    return Dataset(name, False, digest.hexdigest(), *splits, classes=CLASSES, input_shape=SHAPE)


def standin(samples: int | None = None) -> Any:
    """Seeded images of the same shape, equal on every machine, for machines without the files."""
    from repro.data import synthetic_images

    return synthetic_images.synthetic_dataset(STANDIN, CLASSES, SHAPE, train=samples or 1000, test=200)


def shapes(samples: int | None = None) -> Any:
    """(Numbers of training and test samples), classes, shape of a sample: for timing without arithmetic."""
    return (samples or 5000, 1000), CLASSES, SHAPE
