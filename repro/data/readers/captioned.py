"""Clips with captions, for networks that read a clip and then write its caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from repro.core.not_none import not_none
from repro.core.word_numbers import BOS, EOS, OWN, PAD, UNK
from repro.data.base import Samples, choose_rows, move_tensor
from repro.data.readers.msvd_clips import Clip, Source
from repro.data.readers.text import IGNORED


class Captioned(Samples):
    """A sample is a clip with one of its captions: x (n, steps, features + 1) float32, y (n * steps,) int64.

    Shorter clips are padded with zeros at the front, because the network writes its first word after the last step;
    frames beyond `steps` are dropped. The last value of a step is the number of a word: <bos>, the caption's words,
    then PAD. y has the words and <eos>, and IGNORED where x has PAD. Captions are truncated to steps - 1 words.

    rows     (index in `clips`, index of the caption) of each sample
    numbers  word -> number; other words are UNK
    source   of features; None on the meta device, where there are only shapes
    scored   an evaluation decodes captions for this number of clips (`repro.training.evaluation.meteor`)
    """

    task: ClassVar[str] = "text"
    kind: ClassVar[str] = "captioned clips"

    def __init__(
        self,
        clips: Sequence[Clip],
        rows: Sequence[tuple[int, int]],
        numbers: dict[str, int],
        source: Source | None,
        steps: int,
        features: int,
        scored: int = 0,
        device: torch.device | str = "cpu",
    ):
        self.clips, self.rows, self.numbers, self.source = clips, rows, numbers, source
        self.steps, self.features, self.scored = steps, features, min(scored, len(clips))
        self._device = torch.device("meta" if source is None else device)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def y(self) -> torch.Tensor:
        """The words to predict, caption after caption."""
        words = [self._words(*row)[1] for row in self.rows]
        return torch.from_numpy(np.concatenate(words)).to(self.device)

    def to(self, device: torch.device | str) -> Captioned:
        return self._with(self.rows, self.scored, device)

    def subset(self, samples: int, seed: int = 0) -> Captioned:
        """`samples` of the samples; their captions are not decoded."""
        return self._with([self.rows[row] for row in choose_rows(len(self), samples, seed).tolist()], 0, self._device)

    def _with(self, rows: Sequence[tuple[int, int]], scored: int, device: torch.device | str) -> Captioned:
        return Captioned(self.clips, rows, self.numbers, self.source, self.steps, self.features, scored, device)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._minibatch([self.rows[row] for row in (rows.tolist() if self.source else [0] * len(rows))])

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._minibatch(self.rows[start:stop])

    def frames(self, clips: Sequence[Clip]) -> torch.Tensor:
        """x (n, steps, features + 1) of clips without words."""
        x = torch.zeros(len(clips), self.steps, self.features + 1)
        for place, clip in enumerate(clips):
            features = torch.from_numpy(not_none(self.source)(clip, self.steps))
            x[place, self.steps - len(features) :, :-1] = features
        return move_tensor(x, self.device)

    def spelled(self, numbers: Sequence[int]) -> list[str]:
        """The words with these numbers up to <eos>; <unk> for unknown numbers."""
        words = list(self.numbers)
        sentence = list(numbers[: numbers.index(EOS)] if EOS in numbers else numbers)
        return [words[n - len(OWN)] if len(OWN) <= n < len(OWN) + len(words) else "<unk>" for n in sentence if n != PAD]

    def _minibatch(self, rows: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        shape = len(rows), self.steps
        if self.source is None:
            x = torch.empty(*shape, self.features + 1, device="meta")
            return x, torch.empty(shape[0] * shape[1], dtype=torch.int64, device="meta")
        inputs, labels = np.full(shape, PAD), np.full(shape, IGNORED)
        for place, row in enumerate(rows):
            words, targets = self._words(*row)
            inputs[place, : len(words)], labels[place, : len(targets)] = words, targets
        x = self.frames([self.clips[clip] for clip, _ in rows])
        x[..., -1] = move_tensor(torch.from_numpy(inputs), self.device)
        return x, move_tensor(torch.from_numpy(labels.reshape(-1)), self.device)

    def _words(self, clip: int, caption: int) -> tuple[np.ndarray, np.ndarray]:
        """The caption as the network's input and target, of equal length."""
        words = self.clips[clip].captions[caption][: self.steps - 1]
        numbers = [self.numbers.get(word, UNK) for word in words]
        return np.array([BOS, *numbers]), np.array([*numbers, EOS])
