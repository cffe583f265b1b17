"""The names of the codecs, for options that are checked before PyTorch is imported (`repro.fabric.codecs` has them)."""

from __future__ import annotations

from typing import Literal

CodecName = Literal["none", "truncate16", "quantize8", "ternary"]
SparseCodecName = Literal["none", "truncate16", "quantize8"]  # for values of a message: they draw no random numbers
