"""MNIST (LeCun, Cortes, Burges): 60,000 + 10,000 grey images of 28x28 in the four original IDX files.

Pixels are normalised to (x / 255 - 0.1307) / 0.3081, by the training set's mean and deviation, as usual; the Pipe-SGD
paper does not describe its preprocessing. The stand-in is scikit-learn's copy of the UCI digits: 1,797 grey images of
8x8 with 17 levels, (x / 16 - 0.3056) / 0.3763 by the same rule, 1,437 for training and 360 for testing.

Option: `images`: use the first n training images (null: all). A part of the data set is named `mnist-subset`.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from repro.core.errors import InputError
from repro.data import files
from repro.data.files import File, combined_checksum, limited_count

if TYPE_CHECKING:
    from repro.data.base import Dataset, Split

FILES = {
    "train-images-idx3-ubyte.gz": File(9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    "train-labels-idx1-ubyte.gz": File(28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    "t10k-images-idx3-ubyte.gz": File(1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    "t10k-labels-idx1-ubyte.gz": File(4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
}
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
STANDIN = "mnist-standin-digits"
OPTIONS = ("images", "validation")
TRAIN, TEST = 60000, 10000

MEAN, DEVIATION = 0.1307, 0.3081
DIGITS_MEAN, DIGITS_DEVIATION = 0.3056, 0.3763
DIGITS_TEST = 360


def find(root: str | None = None) -> Path | None:
    """The folder of the four files, verified; None if there is none."""
    return files.find_files("mnist", FILES, root)


def read(folder: Path, images: int | None = None) -> Dataset:
    """The real MNIST in a folder that `find` returned; InputError for a malformed file."""
    from repro.data.base import Dataset

    splits = []
    for part, count, used in (("train", TRAIN, limited_count("images", images, TRAIN)), ("t10k", TEST, TEST)):
        pixels = _expect(folder / f"{part}-images-idx3-ubyte.gz", (count, 28, 28))[:used]
        labels = _expect(folder / f"{part}-labels-idx1-ubyte.gz", (count,))[:used]
        splits.append(_split(pixels, labels, 255.0, MEAN, DEVIATION))
    name = "mnist" if len(splits[0]) == TRAIN else "mnist-subset"
    return Dataset(name, False, combined_checksum(FILES), *splits, classes=10, input_shape=(1, 28, 28))


def standin(images: int | None = None) -> Dataset:
    """scikit-learn's digits, images of shape (1, 8, 8); the split is the same on every machine."""
    from repro.data.base import Dataset

    pixels, labels = _digits()
    checksum = hashlib.sha256(pixels.tobytes() + labels.tobytes()).hexdigest()
    order = np.random.RandomState(0).permutation(len(labels))  # numpy guarantees this generator's stream
    train = order[DIGITS_TEST:]
    splits = [
        _split(pixels[rows], labels[rows], 16.0, DIGITS_MEAN, DIGITS_DEVIATION)
        for rows in (train[: limited_count("images", images, len(train))], order[:DIGITS_TEST])
    ]
    return Dataset(STANDIN, True, checksum, *splits, classes=10, input_shape=(1, 8, 8))


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits, (1797, 8, 8) and (1797,) uint8, from its file, because its import takes seconds."""
    package = importlib.util.find_spec("sklearn")
    folders = package.submodule_search_locations if package else None
    file = Path(folders[0]) / "datasets" / "data" / "digits.csv.gz" if folders else None
    if file and file.is_file():
        rows = np.loadtxt(file, dtype=np.uint8, delimiter=",")
        return rows[:, :-1].reshape(-1, 8, 8).copy(), rows[:, -1].copy()
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError(f"the stand-in of mnist needs scikit-learn ({error}): pip install scikit-learn") from None
    digits = load_digits()
    return digits.images.astype(np.uint8), digits.target.astype(np.uint8)


def shapes(images: int | None = None) -> tuple[tuple[int, int], int, tuple]:
    """((training images, test images), classes, shape of an image)."""
    return (limited_count("images", images, TRAIN), TEST), 10, (1, 28, 28)


def read_idx(path: Path) -> np.ndarray:
    """The uint8 array of a gzipped IDX file; InputError for a bad gzip stream or header, or a wrong length."""
    try:
        with gzip.open(path, "rb") as file:
            raw = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a readable gzip file ({error})") from None
    dimensions = raw[3] if len(raw) >= 4 else 0
    if raw[:3] != b"\0\0\x08" or not 1 <= dimensions <= 4 or len(raw) < 4 + 4 * dimensions:
        raise InputError(f"{path}: bad IDX header {raw[:4].hex() or '(empty)'}; expected 000008 and 01 to 04")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", dimensions, offset=4))
    body = np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions)
    if body.size != np.prod(shape, dtype=np.int64):
        raise InputError(f"{path}: IDX header says {shape}, but {body.size} bytes follow it")
    return body.reshape(shape)


def _expect(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    array = read_idx(path)
    if array.shape != shape:
        raise InputError(f"{path}: holds {array.shape}, expected {shape}")
    return array


def _split(images: np.ndarray, labels: np.ndarray, scale: float, mean: float, deviation: float) -> Split:
    """uint8 images (N, H, W) and labels (N,) -> x float32 (N, 1, H, W), y int64 (N,)."""
    import torch

    from repro.data.base import Split

    x = torch.from_numpy(images.copy()).unsqueeze(1).to(torch.float32)
    x.div_(scale).sub_(mean).div_(deviation)
    return Split(x, torch.from_numpy(labels.copy()).to(torch.int64))
