"""What a run needs of the place where its ranks are started."""

from __future__ import annotations

from dataclasses import dataclass

from repro.core.registry import PLUGINS, TRAIN, home
from repro.experiment import programs
from repro.experiment.schema import RunConfig


@dataclass(frozen=True)
class Needs:
    """
    ranks     how many there are
    workers   how many of them compute gradients, the first ones; the others are servers
    requires  the capabilities (`repro.fabric.base`) that it needs of the fabric
    gpu       whether its workers compute on GPUs where there are any
    """

    ranks: int
    workers: int
    requires: frozenset[str]
    gpu: bool


def needs(config: RunConfig) -> Needs:
    """What a run needs of its launcher; a probe's messages have tags."""
    requires = PLUGINS["strategy"].load(config.strategy.name).requires
    own = requires if config.program == TRAIN else requires | {"tags"}
    return Needs(programs.ranks(config), config.workers, own, config.wanted_device != "cpu")


def settled(config: RunConfig) -> RunConfig:
    """The configuration with its testbed as its launcher settles it for what the run needs."""
    testbed = home("launcher").of(config.testbed).settled(needs(config))
    return config if testbed is config.testbed else config.model_copy(update={"testbed": testbed})


def uses_gpu(config: RunConfig) -> bool:
    """Whether the ranks of a run compute on a GPU, here or where their launcher starts them."""
    return config.wanted_device != "cpu" and home("launcher").of(config.testbed).gpus()
