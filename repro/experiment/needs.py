"""What a run needs: its program, ranks, fabric capabilities and GPUs; and whether the parts of its configuration fit
together."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from repro.core.errors import InputError, NotHere
from repro.core.registry import PLUGINS, PROBES, TRAIN, home_module
from repro.experiment import limits
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
    return Needs(count_ranks(config), config.workers, required, config.wanted_device != "cpu")


def resolve_testbed(config: RunConfig) -> RunConfig:
    """The configuration with automatic entries of its testbed replaced by the launcher."""
    testbed = home_module("launcher").launcher_for(config.testbed).resolved(needs_of(config))
    return config if testbed is config.testbed else config.model_copy(update={"testbed": testbed})


def uses_gpu(config: RunConfig) -> bool:
    """Whether the ranks of a run compute on a GPU of this machine, or of the machine where they are started."""
    return config.wanted_device != "cpu" and home_module("launcher").launcher_for(config.testbed).gpus()


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
    home_module("metric").check_metric(config.metric, config.dataset.name, config.targets)
    home_module("imbalance").check_imbalance(config)
    home_module("strategy").check_strategy(config, launcher.fabric, gpu)
    needed, configured = count_ranks(config), testbed.ranks
    if configured not in (None, needed):
        servers = needed - config.workers
        raise InputError(
            f"testbed.ranks={configured}: {config.strategy.name} needs {needed} ranks "
            f"({config.workers} workers and {servers} server{'s' * (servers != 1)}); null: as many as needed"
        )
    limits.check_limit("ranks", needed, limits.RANKS)
    launcher.check(needed)
    check_program(config)
    dataset = config.dataset.name
    home_module("dataset").check_options(dataset, config.dataset.options, config.data.root)
    home_module("model").check_options(config.model.name, config.model.options)
    home_module("model").check_takes(config.model.name, home_module("dataset").input_kind(dataset), dataset)
    return needed
