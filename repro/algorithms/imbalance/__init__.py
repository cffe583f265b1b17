"""Injected load imbalance: seconds by which each worker's steps begin late. One file each; usable with every strategy.

A file `repro/algorithms/imbalance/NAME.py` with a class whose `name` is NAME is an injector
(`repro.algorithms.imbalance.base.Imbalance`). Others register theirs through the entry-point group `repro.imbalances`
(NAME = "module:Class").

    of(config, seed) -> Imbalance    what a run's configuration asks for under `imbalance`; None for `none`
    check(config)                    InputError for what no run could use
    checksum(config)                 of the file that the delays come from, where there is one
"""

from __future__ import annotations

from typing import Any

from repro.algorithms.imbalance.base import Imbalance
from repro.core import registry
from repro.core.errors import InputError
from repro.experiment.schema import RunConfig

NONE = "none"
REGISTRY = registry.PLUGINS["imbalance"]


def names() -> list[str]:
    return REGISTRY.names()


def module_of(name: str) -> str:
    """The module that holds an injector; InputError listing the names for an unknown one."""
    return REGISTRY.module_of(name)


def load(name: str) -> type[Imbalance]:
    """The injector class of that name."""
    return REGISTRY.load(name)


def defaults(name: str) -> dict[str, Any]:
    """An injector's options as its dataclass has them."""
    return registry.defaults(load(name).Options)


def of(config: RunConfig, seed: int | None = None) -> Imbalance | None:
    """The injector of a run; None where nothing is injected, so that a run then has nothing to call.

    seed: the run's, if `config` does not have it. InputError for options that do not go with its workers.
    """
    chosen = config.imbalance
    if chosen.name == NONE:
        return None
    return load(chosen.name)(chosen.options, config.workers, config.seed if seed is None else seed)


def check(config: RunConfig) -> None:
    """InputError for an injector or padding that no run could use; a delay must end before others give a rank up."""
    injector, limit = of(config), config.timeout_s
    if injector and injector.longest > limit:
        options = config.imbalance.plain_options()
        given = ", ".join(f"imbalance.{key}={value}" for key, value in options.items())
        named = f"imbalance={injector.name}{f' with {given}' if given else ''}"
        raise InputError(
            f"{named}: a delay of {injector.longest:g} s is longer "
            f"than timeout_s={limit:g}, after which the other ranks give up; must be 0 to {limit:g} s"
        )
    min_compute_s = config.min_compute_s
    if min_compute_s is not None and min_compute_s > limit:
        raise InputError(f"min_compute_s={min_compute_s}: must be 0 to timeout_s={limit:g} seconds")


def checksum(config: RunConfig) -> str | None:
    """The SHA-256 of the file that the delays come from; None where the configuration says all."""
    return load(config.imbalance.name).checksum(config.imbalance.options)
