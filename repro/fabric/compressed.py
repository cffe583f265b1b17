"""An allreduce in three steps for two threads: compress, reduce, decompress (Pipe-SGD Algorithm 1)."""

from __future__ import annotations

import torch

from repro.errors import InputError
from repro.fabric import collectives
from repro.fabric.base import MAIN, Fabric
from repro.fabric.codecs import codec


def check(codec_name: str, algorithm: str) -> None:
    """InputError unless the codec and the algorithm exist and go together."""
    codec(codec_name)
    if algorithm != "auto":
        collectives.allreduce_algorithm(algorithm)
    if codec_name != "none" and algorithm != "ring":
        raise InputError(f"codec '{codec_name}' needs algorithm 'ring', not '{algorithm}': it works inside its hops")


class CompressedAllreduce:
    """Sums gradient vectors (n,) over all ranks of a fabric; every rank gets the same bits.

    The vector is cut into `size` blocks, each compressed by itself (so `quantize8` has a range a block, finer than the
    paper's one a vector: after the first hop of a ring a block is all there is to take the range from).
    """

    def __init__(self, fabric: Fabric, n: int, codec_name: str, algorithm: str, channel: int = MAIN):
        check(codec_name, algorithm)
        self.fabric, self.codec, self.algorithm, self.channel = fabric, codec(codec_name), algorithm, channel
        # only the ring works on blocks; the others take the vector whole
        self.bounds = collectives.bounds(n, fabric.size if algorithm == "ring" else 1)
        self.lengths = [end - start for start, end in self.bounds]
        costs, name = fabric.costs, self.codec.name
        self.compress_s = costs.seconds(f"encode/{name}", 4 * n)
        self.decompress_s = costs.seconds(f"decode/{name}", 4 * n)

    def compress(self, gradient: torch.Tensor) -> list[torch.Tensor]:
        """This rank's gradient as wire blocks; with codec `none` they are views of it."""
        with self.fabric.compute(self.compress_s):
            return [self.codec.encode(gradient[start:end]) for start, end in self.bounds]

    def reduce(self, blocks: list[torch.Tensor]) -> list[torch.Tensor]:
        """The wire blocks of the sum over ranks. Blocks; every rank calls it in the same order."""
        if self.algorithm == "ring":
            return collectives.ring_allreduce_encoded(self.fabric, blocks, self.lengths, self.codec, self.channel)
        self.fabric.allreduce(blocks[0], channel=self.channel, algorithm=self.algorithm).wait()
        return blocks

    def decompress(self, blocks: list[torch.Tensor], out: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, into `out` (n,); nothing moves if `out` is the vector whose views the blocks are."""
        with self.fabric.compute(self.decompress_s):
            for block, (start, end) in zip(blocks, self.bounds):
                self.codec.decode(block, out[start:end])
        return out
