"""The ring allreduce whose communication and reduction overlap (Pipe-SGD section 3.2, Figure 3)."""

from __future__ import annotations

from collections import deque

import torch

from repro.fabric.base import MAIN, DoneWork, Fabric, Work
from repro.fabric.codecs import Codec, NoCodec
from repro.fabric.collectives import DEFAULT_PIECES
from repro.fabric.collectives.blocks import TAG, piece_bounds, reduce_cost, spend_sync
from repro.fabric.meta_tensors import empty_like


def ring_pipelined_encoded(
    fabric: Fabric, pieces: list[torch.Tensor], lengths: list[int], codec: Codec, channel: int = MAIN
) -> list[torch.Tensor]:
    """The ring with its two stages overlapped (Pipe-SGD section 3.2, Figure 3); without codec the bits equal `ring`'s.

    pieces: this rank's gradient as wire tensors, block after block, with the same number of pieces in each of the
    `size` blocks (`piece_bounds`), piece i of `lengths[i]` elements. While one piece is decoded, summed and encoded,
    the next is on the wire. A piece is forwarded as soon as it is summed, in the second half as soon as it arrives. The
    codec encodes each piece on its own. Empty pieces cause no message. Returns the wire tensors of the sum, the same on
    every rank.
    """
    p, me = fabric.size, fabric.rank
    spend_sync(fabric)
    if p == 1:
        return pieces
    pieces, width = list(pieces), len(pieces) // p
    steps, half = 2 * (p - 1) * width, (p - 1) * width  # a step handles one piece of a hop; the first half sums
    # one buffer for each piece, reused in all hops of the first half
    buffers = [empty_like(max(pieces[j::width], key=len)) for j in range(width)]
    receives: deque[tuple[torch.Tensor, Work]] = deque()
    sends: list[Work] = []

    def block(hop: int) -> int:
        """The first piece of the block that is sent in this hop and was received in the previous one."""
        return (me - hop) % p * width

    def send(step: int) -> None:
        hop, j = divmod(step, width)
        index = block(hop) + j
        full = lengths[index] > 0
        sends.append(fabric.isend(pieces[index], (me + 1) % p, TAG + hop, channel) if full else DoneWork())

    def post(step: int) -> None:
        hop, j = divmod(step, width)
        index = block(hop + 1) + j
        if not lengths[index]:
            return
        if step < half:
            buffer = buffers[j][: len(pieces[index])]
        elif codec.lossless:  # in place, after the piece there has been sent
            sends[step - half].wait()
            buffer = pieces[index]
        else:
            buffer = empty_like(pieces[index])
        receives.append((buffer, fabric.irecv(buffer, (me - 1) % p, TAG + hop, channel)))

    for step in range(width):
        with fabric.batch(channel):
            post(step)
            send(step)
    for step in range(steps):
        hop, j = divmod(step, width)
        index = block(hop + 1) + j
        if lengths[index]:
            buffer, receive = receives.popleft()
            receive.wait()
            if step < half:
                with fabric.compute(reduce_cost(fabric, lengths[index], codec), "host"):
                    pieces[index] = codec.add(pieces[index], buffer, lengths[index])
            else:
                pieces[index] = buffer
        if step + width < steps:
            with fabric.batch(channel):
                send(step + width)
                post(step + width)
    for work in sends:
        work.wait()
    return pieces


def ring_pipelined(fabric: Fabric, vector: torch.Tensor, channel: int = MAIN, pieces: int = DEFAULT_PIECES) -> None:
    """Sum in place, `pieces` to a block: 2 (p-1)/p n beta + alpha where communication hides the rest
    (`repro.algorithms.timing.collective_forms` has all cases)."""
    flat = vector.view(-1)
    cut = piece_bounds(flat.numel(), fabric.size, pieces)
    lengths = [end - start for start, end in cut]
    ring_pipelined_encoded(fabric, [flat[start:end] for start, end in cut], lengths, NoCodec(), channel)
