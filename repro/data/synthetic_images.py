"""Synthetic stand-in images: classes that a network can learn, but not in one step.

Every class has two prototypes, smooth patterns of low frequency. An image is a prototype of its class with random
strength, shifted by up to a quarter of its sides, plus a weaker pattern that is independent of the class (one of 64,
shifted anywhere), plus pixel noise. Integer arithmetic makes the bytes the same on every machine (numpy guarantees
RandomState's stream, but not mathematical functions).
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from repro.core.errors import InputError
from repro.data.base import Dataset, Split

GRID = 4  # random values along a side of a pattern, with periodic interpolation between them
PROTOTYPES, DISTRACTORS = 2, 64
LARGEST = 8 * 2**30  # bytes of a stand-in; more indicates a wrong configuration


def synthetic_dataset(name: str, classes: int, shape: tuple[int, int, int], train: int, test: int) -> Dataset:
    """The stand-in `name`: `train` and `test` images (C, H, W) uint8, with nearly equal numbers for each class.

    Equal arguments give equal bytes. InputError for more than 8 GiB, or fewer images than classes.
    """
    size = (train + test) * shape[0] * shape[1] * shape[2]
    if size > LARGEST:
        raise InputError(
            f"{name}: {train} + {test} images of {'x'.join(map(str, shape))} would take "
            f"{size / 2**30:.0f} GiB; set dataset.images and dataset.test_images, or use the real data"
        )
    if train < classes:
        raise InputError(f"{name}: dataset.images={train} is fewer than the {classes} classes")
    patterns = _patterns(np.random.RandomState(0), PROTOTYPES * classes + DISTRACTORS, shape)
    digest, splits = hashlib.sha256(), []
    for seed, count in ((1, train), (2, test)):
        draw = np.random.RandomState(seed)
        labels = draw.permutation(np.arange(count) % classes)
        images = _images(draw, labels, patterns, classes)
        digest.update(images.tobytes() + labels.astype(np.uint8 if classes <= 256 else np.uint16).tobytes())
        scale = (torch.full((shape[0], 1, 1), value) for value in (128.0, 64.0))
        splits.append(Split(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)), *scale))
    return Dataset(name, True, digest.hexdigest(), *splits, classes=classes, input_shape=shape)


def _patterns(draw: np.random.RandomState, count: int, shape: tuple[int, int, int]) -> np.ndarray:
    """(count, C, 2 H, 2 W) int16 in -128 .. 127: each pattern tiled 2 x 2, so that a window of it is a cyclic shift."""
    channels, *sides = shape
    patterns = draw.randint(-128, 128, (count, channels, GRID, GRID)).astype(np.int64)
    for axis, side in zip((2, 3), sides):
        left, part = np.divmod(np.arange(side) * GRID, side)  # pixel i is part / side beyond grid point `left`
        weight = part.reshape([-1 if i == axis else 1 for i in range(4)])
        near, far = patterns.take(left, axis), patterns.take((left + 1) % GRID, axis)
        patterns = (near * (side - weight) + far * weight) // side
    return np.tile(patterns.astype(np.int16), (1, 1, 2, 2))


def _images(draw: np.random.RandomState, labels: np.ndarray, patterns: np.ndarray, classes: int) -> np.ndarray:
    """(N, C, H, W) uint8 for labels (N,)."""
    channels, height, width = patterns.shape[1], patterns.shape[2] // 2, patterns.shape[3] // 2
    count = len(labels)
    which = labels * PROTOTYPES + draw.randint(0, PROTOTYPES, count)
    other = classes * PROTOTYPES + draw.randint(0, DISTRACTORS, count)
    strength, weaker = draw.randint(80, 208, count), draw.randint(48, 144, count)  # in 256ths
    down, right = draw.randint(0, height // 4 + 1, count), draw.randint(0, width // 4 + 1, count)
    down_other, right_other = draw.randint(0, height, count), draw.randint(0, width, count)
    images = np.empty((count, channels, height, width), np.uint8)
    for i in range(count):
        first = patterns[which[i], :, down[i] : down[i] + height, right[i] : right[i] + width]
        second = patterns[other[i], :, down_other[i] : down_other[i] + height, right_other[i] : right_other[i] + width]
        noise = np.frombuffer(draw.bytes(first.size), np.int8).reshape(first.shape)
        mixed = (first * np.int32(strength[i]) + second * np.int32(weaker[i])) // 256 + noise // 2 + 128
        images[i] = mixed.clip(0, 255)
    return images
