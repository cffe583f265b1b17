"""Which rank holds which stage, a sequence of consecutive blocks of the model."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from repro.core.errors import InputError

EVEN = "even"
AUTOMATIC = ("auto", "straight", EVEN)  # the partitioner chooses: any, without replicas, or as many of each stage


class StageBlocks(NamedTuple):
    """A stage: the blocks from `first` to `last`, inclusive, and its number of replicas."""

    first: int
    last: int
    replicas: int


class Place(NamedTuple):
    """A rank's stage, and the number of its replica."""

    stage: int
    replica: int


@dataclass(frozen=True)
class Layout:
    """The stages in order.

    Ranks 0, 1, ... are the replicas of the first stage, followed by those of the second, and so on.
    """

    stages: tuple[StageBlocks, ...]

    @property
    def ranks(self) -> int:
        return sum(stage.replicas for stage in self.stages)

    @property
    def config(self) -> str:
        """The replicas of each stage in the paper's notation, such as "2-1-1" (section 5, Table 1)."""
        return "-".join(str(stage.replicas) for stage in self.stages)

    @property
    def cuts(self) -> list[int]:
        """The first block of every stage but the first."""
        return [stage.first for stage in self.stages[1:]]

    @property
    def noam(self) -> int:
        """NUM_OPT_ACTIVE_MINIBATCHES (section 3.2), of each replica of the input stage: docs/errata.md, PD-3."""
        return math.ceil(self.ranks / self.stages[0].replicas)

    def first_rank(self, stage: int) -> int:
        return sum(stage_before.replicas for stage_before in self.stages[:stage])

    def place(self, rank: int) -> Place:
        firsts = [0, *accumulate(stage.replicas for stage in self.stages)]
        stage = bisect_right(firsts, rank) - 1
        return Place(stage, rank - firsts[stage])

    def rank_of(self, stage: int, minibatch: int) -> int:
        """The rank of both passes of a minibatch: round-robin (section 3.3), modulo the replicas (errata.md, PD-4)."""
        return self.first_rank(stage) + minibatch % self.stages[stage].replicas

    def replicas_of(self, stage: int) -> list[int]:
        """The ranks that hold a stage."""
        return list(range(self.first_rank(stage), self.first_rank(stage + 1)))


def make_layout(config: str, cuts: Sequence[int], blocks: int) -> Layout:
    """The layout of a configuration like "2-1-1" whose stages start at block 0 and at the `cuts`.

    InputError if the cuts do not fit the configuration and a model of `blocks` blocks.
    """
    replicas = parse_config(config)
    if len(replicas) > blocks:
        raise InputError(f"strategy.config={config}: {len(replicas)} stages, but the model has {blocks} blocks")
    if len(cuts) != len(replicas) - 1:
        raise InputError(
            f"strategy.cuts={list(cuts)}: config {config} has {len(replicas)} stages and so {len(replicas) - 1} cuts, "
            "the first block of each stage but the first"
        )
    whole = all(isinstance(cut, int) and not isinstance(cut, bool) for cut in cuts)
    firsts = [0, *cuts, blocks]
    if not whole or any(after <= before for before, after in pairwise(firsts)):
        raise InputError(
            f"strategy.cuts={list(cuts)}: must be increasing block numbers, from 1 to {blocks - 1} (the model has "
            f"{blocks} blocks)"
        )
    return Layout(tuple(StageBlocks(a, b - 1, m) for a, b, m in zip(firsts, firsts[1:], replicas)))


def parse_config(config: str) -> list[int]:
    """The replicas of each stage in "2-1-1"; InputError for anything else."""
    try:
        replicas = [int(part) for part in str(config).split("-")]
    except ValueError:
        replicas = []
    if not replicas or min(replicas) < 1:
        names = ", ".join(AUTOMATIC)
        raise InputError(f"strategy.config={config}: must be {names} or the replicas of each stage, as in 2-1-1")
    return replicas
