"""Ranks of tests are forked from one process that has imported PyTorch, as those of a command are."""

import functools

from repro.launch.local import environment
from repro.launch.pool import Pool


@functools.cache
def pool() -> Pool:
    """This process's own; it ends with this process."""
    return Pool(environment(threads=1))
