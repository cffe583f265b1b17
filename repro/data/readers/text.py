"""Text for language models: parallel streams of words that are read in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from repro.core.errors import InputError
from repro.data.base import AnySplit
from repro.data.minibatches import Minibatches, seeded_generator

EVALUATION_STREAMS = 10  # parallel streams of an evaluation
IGNORED = -100  # the label that cross-entropy ignores


@dataclass(frozen=True)
class Text(AnySplit):
    """Word numbers (N + 1,) int64; all but the first are predicted, each from the words before it.

    steps   words of a sequence, the length of backpropagation through time
    """

    task: ClassVar[str] = "text"
    kind: ClassVar[str] = "text"

    words: torch.Tensor
    steps: int

    def __len__(self) -> int:
        return len(self.words) - 1

    @property
    def y(self) -> torch.Tensor:
        """The words to predict (N,)."""
        return self.words[1:]

    def to(self, device: torch.device | str) -> Text:
        """This text on `device`; a text on "meta" has only a length and stays there."""
        return self if self.words.is_meta else Text(self.words.to(device), self.steps)

    def subset(self, samples: int, seed: int = 0) -> Text:
        """A part with `samples` words to predict (at most all), which starts at a random place, drawn from `seed`."""
        samples = min(samples, len(self))
        start = int(torch.randint(len(self) - samples + 1, (), generator=seeded_generator(f"subset/{seed}")))
        return Text(self.words[start : start + samples + 1], self.steps)

    def iterations(self, batch: int) -> int:
        """Iterations of an epoch with `batch` sequences each, from as many streams of equal length."""
        return len(self) // batch // self.steps

    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Streams:
        """Minibatches of `size` sequences for each worker; the seed is unused, because the order is fixed."""
        return Streams(self if device is None else self.to(device), size, workers)

    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The whole text once, as inputs (n, steps) and labels (n * steps,) of n streams.

        Padding after the last word has the label IGNORED.
        """
        n = min(EVALUATION_STREAMS, len(self))
        columns = -(-len(self) // n)
        missing = n * columns - len(self)
        x = torch.cat([self.words[:-1], self.words.new_zeros(missing)]).view(n, columns)
        y = torch.cat([self.y, self.words.new_full((missing,), IGNORED)]).view(n, columns)
        for start in range(first * self.steps, columns, step * self.steps):
            yield x[:, start : start + self.steps], y[:, start : start + self.steps].reshape(-1)


class Streams(Minibatches):
    """Random access to the minibatches of a text: `batches[minibatch_id] -> (x, y)`.

    The text is cut into size x workers streams of equal length (the rest is left out); worker r has the streams from
    r * size to (r + 1) * size - 1. Minibatch t * workers + r of an epoch is the t-th sequence of r's streams, so a
    worker's minibatches continue each other. An id means the same words on every rank and after every resume, and an
    iteration the same words for any number of workers.
    """

    def __init__(self, text: Text, size: int, workers: int = 1):
        iterations = text.iterations(size * workers)
        if iterations < 1:
            raise InputError(f"{size} x {workers} streams of {len(text)} words: shorter than {text.steps} words each")
        streams, self.steps = size * workers, text.steps
        length = len(text) // streams
        self.x = text.words[: streams * length].view(streams, length)
        self.y = text.words[1 : streams * length + 1].view(streams, length)
        self.size, self.workers, self.per_epoch = size, workers, iterations * workers

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x (size, steps) and the next words y (size * steps,); IndexError for ids below 0."""
        if minibatch_id < 0:
            raise IndexError(f"minibatch id {minibatch_id} is below 0")
        sequence, rank = divmod(minibatch_id % self.per_epoch, self.workers)
        rows = slice(rank * self.size, (rank + 1) * self.size)
        columns = slice(sequence * self.steps, (sequence + 1) * self.steps)
        return self.x[rows, columns].contiguous(), self.y[rows, columns].reshape(-1)

    def begins(self, minibatch_id: int) -> bool:
        """Whether the minibatch has the first sequences of its streams."""
        return minibatch_id % self.per_epoch < self.workers
