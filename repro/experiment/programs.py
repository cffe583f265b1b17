"""The program of a run's ranks: training, or a probe (a measurement without training to an accuracy)."""

from __future__ import annotations

from types import ModuleType

from repro.core.errors import InputError
from repro.core.registry import PLUGINS, PROBES, TRAIN
from repro.experiment.schema import RunConfig


def count_ranks(config: RunConfig) -> int:
    """The number of ranks of a run; InputError for an unknown program or strategy."""
    if config.program == TRAIN:
        return strategy_ranks(config)
    probe = PROBES.load(config.program)
    return probe.ranks(config) if hasattr(probe, "ranks") else config.workers


def strategy_ranks(config: RunConfig) -> int:
    """The number of ranks that a configuration's strategy needs; InputError for an unknown strategy."""
    return PLUGINS["strategy"].load(config.strategy.name).ranks(config.strategy.options, config.workers)


def runs_alone(probe: ModuleType) -> bool:
    """Whether a probe runs on one rank, as a plain function of its configuration (`run_alone`)."""
    return hasattr(probe, "run_alone")


def check_program(config: RunConfig) -> None:
    """InputError for invalid parameters of a probe."""
    if config.program == TRAIN:
        return
    probe = PROBES.load(config.program)
    if config.numerics.chosen and not getattr(probe, "NUMERICS", False):
        raise InputError(f"{config.numerics.chosen[0]}: program {config.program} only computes in fp32")
    if runs_alone(probe) and config.workers != 1:
        raise InputError(f"workers={config.workers}: program {config.program} runs on one rank; must be 1")
    if hasattr(probe, "check"):
        probe.check(config)
