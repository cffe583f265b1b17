"""Sentence pairs, in minibatches of similar length."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from repro.data.base import move_tensor
from repro.data.readers.sequences import Sequences
from repro.data.readers.text import IGNORED
from repro.data.readers.tokens import BOS, EOS, PAD, Pair, pair_length


class Pairs(Sequences):
    """Sentence pairs: x (n, 2 L) int64, y (n L,) int64; see `repro.data.sets.multi30k`."""

    task: ClassVar[str] = "text"
    kind: ClassVar[str] = "sentence pairs"
    width = 2048  # values of a word in the largest activations

    def __init__(self, pairs: list[Pair], nominal: int, buckets: int, device: torch.device | str = "cpu"):
        self.pairs, self.nominal, self.buckets, self._device = pairs, nominal, buckets, torch.device(device)
        self.lengths = torch.tensor([pair_length(pair) for pair in pairs])

    @property
    def y(self) -> torch.Tensor:
        """The words to predict, pair after pair."""
        return torch.from_numpy(np.concatenate([np.append(target, EOS) for _, target in self.pairs])).to(self.device)

    @property
    def device(self) -> torch.device:
        return self._device

    def to(self, device: torch.device | str) -> Pairs:
        return self if self._device.type == "meta" else Pairs(self.pairs, self.nominal, self.buckets, device)

    def take(self, rows: torch.Tensor) -> Pairs:
        return Pairs([self.pairs[row] for row in rows.tolist()], self.nominal, self.buckets, self._device)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x and y of the given rows (n,), padded to the longest of them."""
        longest = int(self.lengths[rows].max())
        x = np.full((len(rows), 2, longest), PAD)
        y = np.full((len(rows), longest), IGNORED)
        for place, row in enumerate(rows.tolist()):
            source, target = self.pairs[row]
            x[place, 0, : len(source) + 1] = *source, EOS
            x[place, 1, : len(target) + 1] = BOS, *target
            y[place, : len(target) + 1] = *target, EOS
        inputs, labels = torch.from_numpy(x.reshape(len(rows), -1)), torch.from_numpy(y.reshape(-1))
        return move_tensor(inputs, self._device), move_tensor(labels, self._device)
