"""Injected load imbalance: delays of the workers' steps, for every strategy.

A file `repro/algorithms/imbalance/NAME.py` with a class whose `name` is NAME is an injector
(`repro.algorithms.imbalance.base.Imbalance`). Packages register theirs through the entry-point group `repro.imbalances`
(NAME = "module:Class").
"""

from __future__ import annotations

from repro.algorithms.imbalance.base import Imbalance
from repro.core import registry
from repro.core.errors import InputError
from repro.experiment.schema import RunConfig

NONE = "none"
REGISTRY = registry.PLUGINS["imbalance"]


def imbalance_names() -> list[str]:
    return REGISTRY.names()


def load_imbalance(name: str) -> type[Imbalance]:
    """The class of an injector."""
    return REGISTRY.load(name)


def imbalance_for(config: RunConfig, seed: int | None = None) -> Imbalance | None:
    """The injector of a run, None for `none`; InputError for options that do not fit the number of workers.

    seed: of the run, if not that of `config`.
    """
    choice = config.imbalance
    if choice.name == NONE:
        return None
    return load_imbalance(choice.name)(choice.options, config.workers, config.seed if seed is None else seed)


def check_imbalance(config: RunConfig) -> None:
    """InputError for unusable injectors or padding: a delay must be shorter than the other ranks' time limit."""
    injector, limit = imbalance_for(config), config.timeout_s
    if injector and injector.longest > limit:
        options = [f"imbalance.{key}={value}" for key, value in config.imbalance.plain_options().items()]
        raise InputError(
            f"imbalance={injector.name}{' with ' if options else ''}{', '.join(options)}: a delay of "
            f"{injector.longest:g} s is longer than timeout_s={limit:g}, after which the other ranks give up; must be "
            f"0 to {limit:g} s"
        )
    min_compute_s = config.min_compute_s
    if min_compute_s is not None and min_compute_s > limit:
        raise InputError(f"min_compute_s={min_compute_s}: must be 0 to timeout_s={limit:g} seconds")


def delays_checksum(config: RunConfig) -> str | None:
    """The SHA-256 of the file of delays; None if there is none."""
    return load_imbalance(config.imbalance.name).checksum(config.imbalance.options)
