"""Random augmentation of training images, the same on every rank and after every resume.

An image's bits do not depend on its minibatch: there are no matrix products, whose order of summation depends on the
shape, and functions whose last bit differs between vectorised and scalar code are computed in float64. Also evaluation
on held-out training samples, to tune without the test set.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from repro.core.errors import InputError
from repro.data.augmentation import DEVIATION, Augmentation, validation_counts
from repro.data.base import Dataset, Samples, View, move_tensor

NUMBERS = 8  # random numbers of a sample: flip, down, right, area, aspect and three for colour
AREA, ASPECT = 0.08, math.log(4 / 3)
# principal components of ImageNet's colours (pixels from 0 to 1), from fb.resnet.torch; images are divided by DEVIATION
EIGENVALUES = (0.2175, 0.0188, 0.0045)
EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203))
COLOURS = (EIGENVECTORS, EIGENVALUES, DEVIATION)
BITS = 23  # of a random number, so that adding half a step is exact in float32


def augment_dataset(dataset: Dataset, augmentation: Augmentation | None) -> Dataset:
    """The data set with augmented training minibatches, whose images are cropped to its `input_shape`.

    InputError for crop=random if real images are stored no larger than that.
    """
    train = dataset.train
    if dataset.kind != "images" or not isinstance(train, Samples) or not len(train):
        return dataset
    sides = train.slice(0, 1)[0].shape[-2:]
    if augmentation is None and sides == dataset.input_shape[-2:]:
        return dataset
    augmentation = augmentation or Augmentation()
    if augmentation.crop == "random" and sides == dataset.input_shape[-2:] and not dataset.standin:
        raise InputError(
            f"dataset.crop=random: images are stored in {sides[1]}x{sides[0]} pixels, the size of the model's input; "
            "set a larger dataset.held"
        )
    return replace(dataset, train=Augmented(train, augmentation, dataset.input_shape[-2:]))


@dataclass(frozen=True)
class Augmented(View):
    """Images (n, C, H, W) cropped to (n, C, *size): at random in minibatches, else to the centre."""

    augmentation: Augmentation
    size: tuple[int, ...]

    @property
    def changes(self) -> dict[str, object]:
        return self.augmentation.model_dump(exclude_none=True)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = self.whole.select(rows)
        return self._middle(x), y

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = self.whole.slice(start, stop)
        return self._middle(x), y

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = self.whole.select(rows)
        numbers = move_tensor(uniform_numbers(f"augment/{epoch}", rows), x.device)  # rows stay on the host
        return augment_images(x, numbers, self.augmentation, self.size), y

    def _middle(self, x: torch.Tensor) -> torch.Tensor:
        top, left = ((held - side) // 2 for held, side in zip(x.shape[-2:], self.size))
        return x[..., top : top + self.size[0], left : left + self.size[1]]


def uniform_numbers(text: str, samples: torch.Tensor) -> torch.Tensor:
    """Random numbers (n, NUMBERS) float32 in (0, 1) that depend only on the text and each sample's row (n,).

    SplitMix64 (Steele, Lea, Flood 2014) computes any element of its stream directly, without a state.
    """
    start = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
    places = samples[:, None] * NUMBERS + torch.arange(1, NUMBERS + 1, device=samples.device)
    mixed = places * _signed(0x9E3779B97F4A7C15) + start  # modulo 2^64, as integers overflow
    mixed = (mixed ^ _shifted(mixed, 30)) * _signed(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ _shifted(mixed, 27)) * _signed(0x94D049BB133111EB)
    mixed = mixed ^ _shifted(mixed, 31)
    return (_shifted(mixed, 64 - BITS).to(torch.float32) + 0.5) / 2**BITS


def augment_images(
    x: torch.Tensor, numbers: torch.Tensor, augmentation: Augmentation, size: tuple[int, ...]
) -> torch.Tensor:
    """Normalised images (n, C, H, W), augmented by their random numbers (n, NUMBERS), as (n, C, *size)."""
    flip, down, right, area, aspect, *colour = numbers.unbind(1)
    flipped = (flip < 0.5) & bool(augmentation.flip)
    if pad := augmentation.pad:
        x = functional.pad(x, (pad,) * 4)
    if augmentation.crop == "area":
        x = _resized(x, size, flipped, down, right, area, aspect)
    else:
        still = augmentation.crop is None and not pad
        x = _window(x, size, flipped, *((torch.full_like(down, 0.5),) * 2 if still else (down, right)))
    if augmentation.colour:
        vectors, values, deviation = (move_tensor(torch.tensor(numbers), x.device) for numbers in COLOURS)
        parts = [vectors[:, i] * (augmentation.colour * values[i] / deviation) for i in range(3)]
        first, second, third = (part * _normal(number)[:, None] for part, number in zip(parts, colour))  # (n, 3)
        shift = first + second + third
        x = x + shift[:, :, None, None]
    return x


def _window(
    x: torch.Tensor, size: tuple[int, ...], flipped: torch.Tensor, down: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """A window of `size` of each image, placed by numbers in (0, 1) (0.5: the centre), mirrored where `flipped`."""
    n, channels, *sides = x.shape
    places = []
    for held, side, share in zip(sides, size, (down, right)):
        first = (share * (held - side + 1)).floor().to(torch.int64).clamp_(max=held - side)
        places.append(first[:, None] + torch.arange(side, device=x.device))
    rows, columns = places
    columns = torch.where(flipped[:, None], columns.flip(1), columns)
    image = torch.arange(n, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    return x[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _resized(
    x: torch.Tensor,
    size: tuple[int, ...],
    flipped: torch.Tensor,
    down: torch.Tensor,
    right: torch.Tensor,
    area: torch.Tensor,
    aspect: torch.Tensor,
) -> torch.Tensor:
    """A part of each image, resized to `size`; numbers in (0, 1) determine its area, aspect ratio and place."""
    height, width = x.shape[-2:]
    part = (AREA + (1 - AREA) * area) * height * width
    ratio = ((2 * aspect.double() - 1) * ASPECT).exp().to(aspect.dtype)  # width / height
    tall, wide = (part / ratio).sqrt().clamp(max=height) / height, (part * ratio).sqrt().clamp(max=width) / width
    # from -1 to 1 along each side of the image: the part's half size, and its middle
    halves = tall, torch.where(flipped, -wide, wide)
    middles = (2 * down - 1) * (1 - tall), (2 * right - 1) * (1 - wide)
    rows, columns = (
        middle[:, None] + half[:, None] * ((2 * torch.arange(side, device=x.device) + 1) / side - 1)
        for side, half, middle in zip(size, halves, middles)
    )
    shape = len(x), *size
    grid = torch.stack([columns[:, None, :].expand(shape), rows[:, :, None].expand(shape)], 3)
    return functional.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _normal(number: torch.Tensor) -> torch.Tensor:
    """The quantiles of the normal distribution at numbers in (0, 1)."""
    return (math.sqrt(2) * torch.erfinv(2 * number.double() - 1)).to(number.dtype)


def _signed(constant: int) -> int:
    return constant - 2**64 if constant >= 2**63 else constant


def _shifted(numbers: torch.Tensor, bits: int) -> torch.Tensor:
    """A logical right shift of int64."""
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)


def held_out(dataset: Dataset, samples: int | None) -> Dataset:
    """The data set with the last `samples` training samples as test set; None: unchanged."""
    from repro.data.base import Split

    if samples is None:
        return dataset
    whole = dataset.train
    if not isinstance(whole, Split):
        raise InputError(f"dataset.validation={samples}: {dataset.name} is not in memory as one tensor")
    start, _ = validation_counts(samples, len(whole))
    train, test = (
        replace(whole, x=whole.x[rows], y=whole.y[rows]) for rows in (slice(start), slice(start, len(whole)))
    )
    return replace(dataset, name=f"{dataset.name}-validation", train=train, test=test)
