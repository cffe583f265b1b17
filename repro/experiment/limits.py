"""The largest sizes that are taken: beyond any paper's. A slip of the hand that asks for more is answered at once."""

from __future__ import annotations

from repro.core.errors import InputError

RUNS = 10_000  # of an experiment; ours have some hundreds
RANKS = 1_024  # of a run, a schedule, a collective; machines of a partition. The papers have up to 128
UNITS = 200_000  # of computation in a schedule, of all ranks together
THREADS = 1_024  # of torch in a process, which ends without a word where it gets too few
EPOCHS = 1_000_000
SEEDS = 2**32  # the highest seed, as torch and numpy take them
STAGES = 2**27  # that a partitioner compares: a gigabyte a table, of which it has some
STAGES_OF_GROUPS = 2**35  # that it compares within groups: half a minute
PIECES = 1_024  # of a block in a pipelined ring


def check(what: str, value: int, most: int) -> None:
    """InputError naming the limit where a size is beyond it."""
    if value > most:
        raise InputError(f"{what}: {value:,}; must be {most:,} or less")
