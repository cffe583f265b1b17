"""An allreduce in three steps for two threads: compress, reduce, decompress (Pipe-SGD Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from repro.core.errors import InputError
from repro.fabric.base import MAIN, Fabric
from repro.fabric.codecs import make_codec
from repro.fabric.collectives import DEFAULT_PIECES
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.auto import NATIVE

# algorithms with a codec inside their hops
RINGS: dict[str, Callable[..., list[torch.Tensor]]] = {
    "ring": collectives.ring_allreduce_encoded,
    "ring_half_duplex": partial(collectives.ring_allreduce_encoded, half_duplex=True),
    "ring_pipelined": collectives.ring_pipelined_encoded,
}


def check_codec(codec_name: str, algorithm: str) -> None:
    """InputError unless the codec and the algorithm exist and go together."""
    make_codec(codec_name)
    if algorithm not in ("auto", NATIVE):
        collectives.allreduce_algorithm(algorithm)
    if codec_name != "none" and algorithm not in RINGS:
        raise InputError(
            f"codec '{codec_name}' needs algorithm {' or '.join(map(repr, RINGS))}, not '{algorithm}': "
            "it works inside their hops"
        )


class CompressedAllreduce:
    """Sums gradient vectors (n,) over all ranks of a fabric; every rank gets the same bits.

    Each of the vector's `size` blocks is encoded by itself, with "ring_pipelined" each of the block's `pieces`. So
    `quantize8` and `ternary` have a range for each block, where the paper has one for the vector: after the first hop
    of a ring a rank has only a block.

    `compress` and the hops of `reduce` may run in two threads, so a codec that draws random numbers has a generator for
    each. The rank and `seed` determine both; concurrent allreduces, such as a gradient's buckets, need different seeds.
    """

    def __init__(
        self,
        fabric: Fabric,
        n: int,
        codec_name: str,
        algorithm: str,
        channel: int = MAIN,
        pieces: int = DEFAULT_PIECES,
        seed: int = 0,
        resource: str = "device",
    ):
        check_codec(codec_name, algorithm)
        if pieces < 1:
            raise InputError(f"pieces {pieces}: a block of the pipelined ring has at least 1")
        if algorithm == "auto":
            fabric.settle_auto()
        self.fabric, self.algorithm, self.channel, self.resource = fabric, algorithm, channel, resource
        stream = 2 * (seed * 1_000_003 + fabric.rank)
        self.codec, self.hop_codec = make_codec(codec_name, stream), make_codec(codec_name, stream + 1)
        # the rings work on blocks, the other algorithms on the whole vector
        if algorithm == "ring_pipelined":
            self.bounds = collectives.piece_bounds(n, fabric.size, pieces)
        else:
            self.bounds = collectives.chunk_bounds(n, fabric.size if algorithm in RINGS else 1)
        self.lengths = [end - start for start, end in self.bounds]
        costs, name = fabric.costs, self.codec.name
        self.compress_s = costs.seconds(f"encode/{name}", 4 * n)
        self.decompress_s = costs.seconds(f"decode/{name}", 4 * n)

    def compress(self, gradient: torch.Tensor) -> list[torch.Tensor]:
        """This rank's gradient as wire tensors of blocks or pieces; with codec `none` they are views of it."""
        with self.fabric.compute(self.compress_s, self.resource):
            return [self.codec.encode(gradient[start:end]) for start, end in self.bounds]

    def reduce(self, blocks: list[torch.Tensor]) -> list[torch.Tensor]:
        """The wire tensors of the sum over ranks. Blocks; all ranks call it in the same order."""
        if ring := RINGS.get(self.algorithm):
            return ring(self.fabric, blocks, self.lengths, self.hop_codec, self.channel)
        self.fabric.allreduce(blocks[0], channel=self.channel, algorithm=self.algorithm).wait()
        return blocks

    def decompress(self, blocks: list[torch.Tensor], out: torch.Tensor) -> torch.Tensor:
        """Decode the sum into `out` (n,); no copy if the wire tensors are views of `out`."""
        with self.fabric.compute(self.decompress_s, self.resource):
            for block, (start, end) in zip(blocks, self.bounds):
                self.codec.decode(block, out[start:end])
        return out

    def state_dict(self) -> dict[str, Any]:
        """The state of the codec's random generators, empty for codecs without; do not call it during a reduction."""
        streams = {"compress": self.codec.state_dict(), "reduce": self.hop_codec.state_dict()}
        return {name: state for name, state in streams.items() if state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`."""
        if state:
            self.codec.load_state_dict(state["compress"])
            self.hop_codec.load_state_dict(state["reduce"])
