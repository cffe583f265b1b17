"""Closed forms of what communication and training steps cost, each with its source; the virtual fabric must agree.

Symbols, everywhere in `collective_forms`, `sparse_forms` and `step_forms`:

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
