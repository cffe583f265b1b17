"""Types of probe options, and checks of configurations that several probes need."""

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


def create_strategies(choices: Mapping[str, Plugin]) -> dict[str, Strategy]:
    """Variant -> a new strategy with its options."""
    return {variant: strategies.load_strategy(choice.name)(choice.options) for variant, choice in choices.items()}


def most_ranks(config: RunConfig) -> int:
    """The ranks of the strategy in `probe.strategies` that needs most; during the others the rest of them wait."""
    choices = config.probe.strategies.values()
    return max(strategies.load_strategy(choice.name).ranks(choice.options, config.workers) for choice in choices)


def needs_one(config: RunConfig, reason: str) -> None:
    if config.workers != 1:
        raise InputError(f"workers={config.workers}: program {config.program} {reason}; must be 1")


def needs_several(config: RunConfig, reason: str = "which communicate") -> None:
    if config.workers < 2:
        raise InputError(f"workers={config.workers}: program {config.program} needs 2 or more, {reason}")


def needs_real_time(config: RunConfig) -> None:
    """InputError on a simulated or emulated testbed."""
    if isinstance(config.testbed, Modelled):
        raise InputError(f"program {config.program}: time on testbed {config.testbed.name} is modelled; testbed=here")


def needs_ranks(config: RunConfig) -> None:
    """InputError for entries of `probe.ranks` that exceed the workers."""
    if wrong := [p for p in config.probe.ranks if p > config.workers]:
        raise InputError(f"probe.ranks={wrong}: must be 2 to workers={config.workers}")


def _two_different(sizes: list[int]) -> list[int]:
    if len(set(sizes)) < 2:
        raise ValueError("must be a list of at least 2 different numbers of bytes")
    return sizes


def _by_variant(entries: Any) -> Any:
    """Variant -> plugin; InputError that names the variant."""
    if not isinstance(entries, dict):
        return entries
    return {
        variant: plugins.plugin_maker("strategy", f"probe.strategies.{variant}")(options)
        for variant, options in entries.items()
    }


Bytes = Annotated[int, Field(ge=4)]  # of float32 vectors
Worlds = Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1)]
Sizes = Annotated[list[Bytes], AfterValidator(_two_different)]  # a network's alpha and beta are fitted to them
Strategies = Annotated[dict[Text, plugins.Strategy], Field(min_length=1), BeforeValidator(_by_variant)]  # by variant
