"""Closed forms of the time of collectives and training steps, each with its source; the virtual fabric must agree.

Symbols in `collective_forms`, `sparse_forms` and `step_forms`:

    p       ranks that hold a vector (for a server: its clients, the server not counted)
    n       bytes of the float32 vector on one rank
    alpha   seconds of latency of a message
    beta    seconds a byte on the wire
    gamma   seconds to sum a byte of float32 data into another vector
    sync    S of Pipe-SGD equation (5), seconds of an allreduce

Results are seconds from the moment when all ranks call until the last rank is done, with no other traffic on the
network. Where p does not divide n, blocks differ by one element (`collectives.bounds`) and the largest block decides.

In `step_forms` l_up, l_comp, l_comm are the seconds of an iteration's update, computation (forward and backward) and
communication, and T is the number of iterations. Where a codec works on the computation thread (`codec_device`),
compression belongs to l_comp and decompression to l_up.
"""
