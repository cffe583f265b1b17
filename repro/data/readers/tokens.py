"""Vocabularies, and pairs of sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from repro.core.word_numbers import OWN

if TYPE_CHECKING:
    import numpy as np

Pair = tuple["np.ndarray", "np.ndarray"]  # word numbers of a source and its target, without <bos> and <eos>


def build_vocabulary(words: Iterable[str], size: int, first: int = len(OWN)) -> dict[str, int]:
    """word -> number from `first` to size - 1, the most frequent word first, ties in alphabetical order."""
    counts = Counter(words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ranked[: size - first], first)}


def pair_length(pair: Pair) -> int:
    """The length of the pair's longer sentence, with <eos> or <bos>."""
    return 1 + max(map(len, pair))
