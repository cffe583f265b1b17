"""The numbers of the special words, which data sets write and models read."""

from __future__ import annotations

PAD, BOS, EOS, UNK = OWN = range(4)
