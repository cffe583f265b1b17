"""A run's requirements on its launcher: ranks, fabric capabilities, GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from repro.core.registry import PLUGINS, TRAIN, home_module
from repro.experiment import programs
from repro.experiment.schema import RunConfig


@dataclass(frozen=True)
class Needs:
    """
    ranks     their number
    workers   number of the first ranks that compute gradients; the others are servers
    requires  capabilities that the fabric must have (`repro.fabric.base`)
    gpu       whether the workers compute on GPUs if there are any
    """

    ranks: int
    workers: int
    requires: frozenset[str]
    gpu: bool


def needs_of(config: RunConfig) -> Needs:
    """The requirements of a run; probes send messages with tags."""
    requires = PLUGINS["strategy"].load(config.strategy.name).requires
    required = requires if config.program == TRAIN else requires | {"tags"}
    return Needs(programs.count_ranks(config), config.workers, required, config.wanted_device != "cpu")


def settle_testbed(config: RunConfig) -> RunConfig:
    """The configuration with automatic entries of its testbed settled by the launcher."""
    testbed = home_module("launcher").launcher_for(config.testbed).settled(needs_of(config))
    return config if testbed is config.testbed else config.model_copy(update={"testbed": testbed})


def uses_gpu(config: RunConfig) -> bool:
    """Whether the ranks of a run compute on a GPU of this machine, or of the machine where they are started."""
    return config.wanted_device != "cpu" and home_module("launcher").launcher_for(config.testbed).gpus()
