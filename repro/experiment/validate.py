"""Checks that the parts of a configuration fit together, before anything starts."""

from __future__ import annotations

from repro.core.errors import InputError, NotHere
from repro.core.registry import home_module
from repro.experiment import limits, programs
from repro.experiment.needs import uses_gpu
from repro.experiment.schema import RunConfig


def check_config(config: RunConfig) -> int:
    """The number of ranks that a configuration needs; InputError if its parts do not fit together."""
    testbed, launcher, gpu = config.testbed, home_module("launcher").launcher_for(config.testbed), uses_gpu(config)
    if config.wanted_device == "cuda" and not gpu:
        raise InputError(f"device=cuda: {launcher.no_gpus}")
    if (chosen := config.numerics.gpus_alone) and not gpu:
        raise NotHere(f"{chosen}: requires a GPU, and device={config.device} has none here; leave it out")
    if config.numerics.channels_last and (takes := home_module("model").input_kind(config.model.name)) not in (
        "images",
        home_module("model").ANYTHING,
    ):
        name = config.model.name
        raise InputError(f"numerics.channels_last=true: requires image input, and model {name} takes {takes}")
    home_module("metric").check_metric(config.metric, config.dataset.name)
    home_module("imbalance").check_imbalance(config)
    home_module("strategy").check_strategy(config, launcher.fabric, gpu)
    needed, configured = programs.count_ranks(config), testbed.ranks
    if configured not in (None, needed):
        servers = needed - config.workers
        raise InputError(
            f"testbed.ranks={configured}: {config.strategy.name} needs {needed} ranks "
            f"({config.workers} workers and {servers} server{'s' * (servers != 1)}); null: as many as needed"
        )
    limits.check_limit("ranks", needed, limits.RANKS)
    launcher.check(needed)
    programs.check_program(config)
    dataset = config.dataset.name
    home_module("model").check_takes(config.model.name, home_module("dataset").input_kind(dataset), dataset)
    return needed
