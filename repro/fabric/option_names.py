"""The names of codecs and allreduces, for options that are checked before PyTorch is imported."""

from __future__ import annotations

from typing import Literal

CodecName = Literal["none", "truncate16", "quantize8", "ternary"]  # of `repro.fabric.codecs`
SparseCodecName = Literal["none", "truncate16", "quantize8"]  # for values of a message: they draw no random numbers
# of `repro.fabric.collectives.dense`; native: the library's own; auto: chosen on the fabric
AllreduceName = Literal[
    "ring", "ring_half_duplex", "ring_pipelined", "recursive_doubling", "tree", "server", "sharded_server", "native",
    "auto",
]  # fmt: skip
