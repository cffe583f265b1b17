"""Word numbers of our own, and pairs of sentences as such numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

PAD, BOS, EOS, UNK = OWN = range(4)

Pair = tuple["np.ndarray", "np.ndarray"]  # word numbers of a source and its target, without <bos> and <eos>


def length(pair: Pair) -> int:
    """Places that a pair takes: the longer sentence with <eos>, or <bos>."""
    return 1 + max(map(len, pair))
