"""Decodes images from files or shards in a pool of threads: all at once, or each when a minibatch draws it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from PIL import Image

from repro.core.errors import InputError, some_of
from repro.data.base import Samples, Split, move_tensor
from repro.data.images import LARGE_PIXELS, Source, Unreadable, image_size, open_image
from repro.data.minibatches import AHEAD, PrefetchQueue, reader_threads

STRETCH = 8  # images of a thread's work item


class Decoder:
    """Decodes an image file to pixels (3, H, W), uint8 RGB.

    size     (height, width) of the result: the image's shorter side is resized bilinearly to size x 256 / 224, rounded,
             and the centre is cut out, as usual for evaluation on ImageNet; `repro.data.readers.augment` applies random
             augmentation later
    shorter  the length of that side, instead of size x 256 / 224
    exact    the image must have this size, and is not resized
    """

    def __init__(self, size: tuple[int, int], exact: bool, shorter: int | None = None):
        self.size, self.exact = size, exact
        self.shorter = shorter or round(max(size) * 256 / 224)

    def __call__(self, path: Source) -> np.ndarray:
        with open_image(path) as image:
            return np.asarray(self._cut(path, image)).transpose(2, 0, 1)

    def _cut(self, path: Source, image: Image.Image) -> Image.Image:
        height, width = self.size
        if self.exact:
            if image.size != (width, height):
                raise InputError(f"{path}: {image.width}x{image.height} pixels, expected {width}x{height}")
            return image
        scale = self.shorter / min(image.size)
        sides = [max(round(side * scale), least) for side, least in zip(image.size, (width, height))]
        if math.prod(sides) > LARGE_PIXELS:  # a thread each: a strip of 1 x 65,500 took gigabytes
            resized = f"{image.width}x{image.height}, resized to {sides[0]}x{sides[1]}"
            raise Unreadable(path, f"{resized}: more than {LARGE_PIXELS} pixels")
        image = image.resize(sides, Image.Resampling.BILINEAR)
        left, top = (image.width - width) // 2, (image.height - height) // 2
        return image.crop((left, top, left + width, top + height))


class LazySplit(Samples):
    """Like `Split`, for more images than memory can hold: a pool of threads decodes them when they are drawn.

    A minibatch with a file that cannot be decoded raises InputError.
    """

    y: torch.Tensor

    def __init__(
        self,
        paths: Sequence[Source],
        y: torch.Tensor,
        decoder: Decoder,
        mean: torch.Tensor,
        deviation: torch.Tensor,
        ahead: int | None = None,
    ):
        """y: labels (N,) int64 on the device of the samples; mean, deviation: as in `Split`; ahead: minibatches to
        decode in advance (None: AHEAD for a GPU, 0 for a CPU, whose cores are busy)."""
        self.paths, self.y, self.decoder = paths, y, decoder
        self.mean, self.deviation, self._ahead = mean, deviation, ahead
        self.prefetch = PrefetchQueue(self._start)

    @property
    def lookahead(self) -> int:
        return (AHEAD if self.y.device.type == "cuda" else 0) if self._ahead is None else self._ahead

    def ahead(self, rows: torch.Tensor) -> None:
        self.prefetch.start(tuple(rows.tolist()), self.lookahead)

    def settle(self) -> None:
        """Wait for all minibatches in progress."""
        for decoding in self.prefetch:
            decoding.images()

    def __len__(self) -> int:
        return len(self.paths)

    def to(self, device: torch.device | str) -> LazySplit:
        mean, deviation = self.mean.to(device), self.deviation.to(device)
        return LazySplit(self.paths, self.y.to(device), self.decoder, mean, deviation, self._ahead)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._decoded(rows.tolist()), self.y.index_select(0, move_tensor(rows, self.y.device))

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._decoded(range(start, min(stop, len(self)))), self.y[start:stop]

    def _decoded(self, rows: Iterable[int]) -> torch.Tensor:
        images = self.prefetch.take(tuple(rows)).images()
        split = Split(move_tensor(images, self.y.device), self.y, self.mean, self.deviation)
        return split.slice(0, len(images))[0]

    def _start(self, rows: Sequence[int]) -> Decoding:
        return Decoding([self.paths[row] for row in rows], self.decoder, self.y.device.type == "cuda")


class Decoding:
    """Images that the pool of threads is decoding. pinned: into pinned memory, for asynchronous copies to a GPU."""

    def __init__(self, paths: Sequence[Source], decoder: Decoder, pinned: bool = False):
        self._images = torch.empty(len(paths), 3, *decoder.size, dtype=torch.uint8, pin_memory=pinned)
        self._paths, pixels = paths, self._images.numpy()

        def one(row: int) -> None:
            pixels[row] = decoder(paths[row])

        self._futures = start_work(paths, one)

    def images(self) -> torch.Tensor:
        """Wait for the images (N, 3, H, W) uint8; InputError as in `finish_work`."""
        finish_work(self._paths, self._futures)
        return self._images


def decode_images(paths: Sequence[Source], decoder: Decoder) -> np.ndarray:
    """Images (N, 3, H, W) uint8; InputError as in `finish_work`."""
    return Decoding(paths, decoder).images().numpy()


def image_sizes(paths: Sequence[Source]) -> list[tuple[int, int]]:
    """(height, width) of each image, from its header; InputError as in `finish_work`."""
    result: list[tuple[int, int]] = [(0, 0)] * len(paths)

    def one(row: int) -> None:
        result[row] = image_size(paths[row])

    finish_work(paths, start_work(paths, one))
    return result


def start_work(paths: Sequence[Source], work: Callable[[int], Any]) -> list[Future[list[str]]]:
    """Start work(row) for each row of `paths` in the pool of threads; the futures return errors."""

    def stretch(rows: range) -> list[str]:
        errors = []
        for row in rows:
            try:
                work(row)
            except Unreadable as error:
                errors.append(str(error))
        return errors

    stretches = [range(start, min(start + STRETCH, len(paths))) for start in range(0, len(paths), STRETCH)]
    return [reader_threads().submit(stretch, rows) for rows in stretches]


def finish_work(paths: Sequence[Source], begun: Sequence[Future[list[str]]]) -> None:
    """Wait for work that `start_work` began; InputError with the number of unreadable files and the first names."""
    if failed := [line for future in begun for line in future.result()]:
        raise InputError(f"{len(failed)} of {len(paths)} images cannot be read: {some_of(failed, separator='; ')}")
