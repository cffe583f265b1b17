"""The strategies. A file `strategies/NAME.py` with a class whose `name` is NAME is a strategy.

Other packages register theirs through the entry-point group `repro.strategies` (NAME = "module:Class"). Code that
several strategies use is in `strategies/shared/`.
"""

from __future__ import annotations

from torch import nn

from repro.core import registry
from repro.core.errors import InputError
from repro.experiment.schema import RunConfig
from repro.fabric import capabilities
from repro.models._blocks import ONE_BLOCK
from repro.strategies.base import RunFacts, Strategy
from repro.training.buckets import block_sizes
from repro.training.model_shard import carries_state

REGISTRY = registry.PLUGINS["strategy"]


def strategy_names() -> list[str]:
    return REGISTRY.names()


def load_strategy(name: str) -> type[Strategy]:
    """The strategy class of that name; InputError if the class has no attribute `name`."""
    strategy = REGISTRY.load(name)
    if not hasattr(strategy, "name"):
        raise InputError(f"strategy {name}: class {strategy.__qualname__} has no attribute 'name'; set name = \"...\"")
    return strategy


def check_strategy(config: RunConfig, fabric: str, gpu: bool) -> None:
    """InputError if a run's strategy needs another fabric than this one, or has options that the run cannot use.

    gpu: whether the run's ranks compute on GPUs.
    """
    strategy = load_strategy(config.strategy.name)
    capabilities.check_capabilities(
        strategy.name, strategy.requires, fabric, getattr(config.testbed, "backend", "auto")
    )
    strategy.check(config.strategy.options, RunFacts(config.workers, config.epochs, gpu))


def check_model(config: RunConfig, model: nn.Sequential) -> None:
    """InputError if a run's strategy or number of microbatches does not suit its model, built without weights."""
    if config.accumulate > 1 and carries_state(model):
        raise InputError(
            f"accumulate={config.accumulate}: model {config.model.name} carries its state from one minibatch to the "
            "next, which microbatches cannot; must be 1"
        )
    blocks = list(model.children())
    try:
        load_strategy(config.strategy.name).check_model(config.strategy.options, block_sizes(blocks))
    except InputError as error:
        if reason := getattr(blocks[0], ONE_BLOCK, None):
            raise InputError(f"{error}; model {config.model.name} is one block, because {reason}") from None
        raise
