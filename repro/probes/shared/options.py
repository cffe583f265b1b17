"""Types of probes' options, and checks of configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from repro import strategies
from repro.core.errors import InputError
from repro.core.fields import Text
from repro.experiment import plugins
from repro.experiment.plugins import Plugin
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Modelled
from repro.strategies.base import Strategy


def chosen(strategies_of: Mapping[str, Plugin]) -> dict[str, Strategy]:
    """Variant -> a new strategy with its options."""
    return {variant: strategies.load(one.name)(one.options) for variant, one in strategies_of.items()}


def most_ranks(config: RunConfig) -> int:
    """Of the probe's strategies the one that needs most."""
    given = config.probe.strategies.values()
    return max(strategies.load(one.name).ranks(one.options, config.workers) for one in given)


def needs_one(config: RunConfig, what: str) -> None:
    """InputError with more workers than the program uses."""
    if config.workers != 1:
        raise InputError(f"workers={config.workers}: program {config.program} {what}; must be 1")


def needs_real_time(config: RunConfig) -> None:
    """InputError where time is modelled, by simulation or emulation."""
    if isinstance(config.testbed, Modelled):
        raise InputError(f"program {config.program}: time on testbed {config.testbed.name} is modelled; testbed=here")


def needs_several(config: RunConfig, who: str = "who communicate") -> None:
    """InputError without somebody to talk to."""
    if config.workers < 2:
        raise InputError(f"workers={config.workers}: program {config.program} needs 2 or more, {who}")


def needs_worlds(config: RunConfig) -> None:
    """InputError for worlds of the first so many workers (`probe.ranks`) that the run does not have."""
    if wrong := [p for p in config.probe.ranks if p > config.workers]:
        raise InputError(f"probe.ranks={wrong}: must be 2 to workers={config.workers}")


def _different(given: list[int]) -> list[int]:
    if len(set(given)) < 2:
        raise ValueError("must be a list of at least 2 different numbers of bytes")
    return given


def _by_variant(given: Any) -> Any:
    """Each a plugin, or an InputError that names its variant."""
    if not isinstance(given, dict):
        return given
    return {one: plugins.choice("strategy", f"probe.strategies.{one}")(entries) for one, entries in given.items()}


Bytes = Annotated[int, Field(ge=4)]  # of float32 vectors
Worlds = Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1)]
Sizes = Annotated[list[Bytes], AfterValidator(_different)]  # that a network's alpha and beta are fitted to
Strategies = Annotated[dict[Text, plugins.Strategy], Field(min_length=1), BeforeValidator(_by_variant)]  # by variant
