"""Closed forms of what communication and training steps cost, each with its source; the virtual fabric must agree.

Symbols, everywhere in `collective_forms`, `sparse_forms` and `step_forms`, whose names are all here:

    p       ranks that hold a vector (for a server: its clients, the server not counted)
    n       bytes of the float32 vector on one rank
    alpha   seconds a message needs besides its bytes
    beta    seconds a byte on the wire
    gamma   seconds a byte of float32 data summed into another vector
    sync    S of Pipe-SGD equation (5), seconds an allreduce

All results are seconds, from the moment when all ranks call until the last rank is done, one collective alone on the
network. Where p does not divide n, blocks differ by one element (`collectives.bounds`) and the largest decides: it
travels the whole ring without a pause, and no hop takes longer than its.

Steps of training are in `step_forms`: l_up, l_comp, l_comm are seconds of update, computation (forward and backward)
and communication of one iteration, T the number of iterations. Where a codec works on the computation thread
(`codec_device`), compression counts to l_comp and decompression to l_up.
"""

from repro.algorithms.timing.collective_forms import (
    FLOAT32,
    PIECES,
    allgather,
    broadcast,
    codec_device,
    collective,
    hop_work,
    largest_block,
    piece_stages,
    pull,
    push,
    recursive_doubling,
    reduce,
    reduce_scatter,
    ring,
    ring_encoded,
    ring_pipelined,
    ring_pipelined_encoded,
    ring_pipelined_even,
    rounds,
    server,
    sharded_server,
    tree,
)
from repro.algorithms.timing.shared_forms import all_pull, on_host, one_pulls
from repro.algorithms.timing.sparse_forms import (
    ELEMENT,
    dense,
    gtopk_rounds,
    gtopk_tree,
    sparse_collective,
    topk_doubling,
    topk_ring,
)
from repro.algorithms.timing.step_forms import (
    pipe_ideal,
    pipe_limited,
    pipe_segmented,
    pipe_segmented_limited,
    pipe_segmented_total,
    pipe_sequential,
    pipe_total,
    scaling_efficiency,
    segment_allreduces,
    server_step,
    server_step_incast,
    server_total,
    sync_total,
)

__all__ = [
    "ELEMENT",
    "FLOAT32",
    "PIECES",
    "all_pull",
    "allgather",
    "broadcast",
    "codec_device",
    "collective",
    "dense",
    "gtopk_rounds",
    "gtopk_tree",
    "hop_work",
    "largest_block",
    "on_host",
    "one_pulls",
    "piece_stages",
    "pipe_ideal",
    "pipe_limited",
    "pipe_segmented",
    "pipe_segmented_limited",
    "pipe_segmented_total",
    "pipe_sequential",
    "pipe_total",
    "pull",
    "push",
    "recursive_doubling",
    "reduce",
    "reduce_scatter",
    "ring",
    "ring_encoded",
    "ring_pipelined",
    "ring_pipelined_encoded",
    "ring_pipelined_even",
    "rounds",
    "scaling_efficiency",
    "segment_allreduces",
    "server",
    "server_step",
    "server_step_incast",
    "server_total",
    "sharded_server",
    "sparse_collective",
    "sync_total",
    "topk_doubling",
    "topk_ring",
    "tree",
]
