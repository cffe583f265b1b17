"""Upper limits of sizes, beyond those of any paper, so that a typing error fails at once."""

from __future__ import annotations

from repro.core.errors import InputError

RUNS = 10_000  # of an experiment; the project's have a few hundred
COMBINATIONS = 100 * RUNS  # of a grid's values, of which `exclude` may leave few
RANKS = 1_024  # of a run, a schedule, a collective; machines of a partition. The papers have up to 128
BATCH = 2**24  # samples of a minibatch; the largest data set of a paper has 14 million
UNITS = 200_000  # of computation in a schedule, of all ranks together
THREADS = 1_024  # of torch in a process, which dies silently if it cannot start them
EPOCHS = 1_000_000
SEEDS = 2**32  # the highest seed, as torch and numpy take them
LAYERS = 1_000  # of a profile that `repro batches` plans: 20 s, and eight times as long for twice as many
STAGES = 2**27  # compared by a partitioner: a gigabyte for each of a few tables
STAGES_OF_GROUPS = 2**35  # compared within groups: half a minute
DEPTH = 64  # iterations in Pipe-SGD's pipeline, each with the memory of a gradient. The paper has 2
PIECES = 1_024  # of a block in a pipelined ring


def check_limit(name: str, value: int, most: int) -> None:
    """InputError for a size above its limit."""
    if value > most:
        raise InputError(f"{name}: {value:,}; must be {most:,} or less")
