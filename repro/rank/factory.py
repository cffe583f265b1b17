"""From a cell's configuration to what its ranks work with: the worker, its device, the virtual testbed's costs."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import Any

import torch

from repro import imbalance, models
from repro.common.errors import InputError
from repro.data.base import Dataset
from repro.fabric.base import LIBRARIES, Fabric
from repro.fabric.device import pick_device
from repro.fabric.network import Network
from repro.strategies.base import Strategy
from repro.timing.costs import Costs
from repro.timing.device import BlockSeconds, block_seconds
from repro.training import losses
from repro.training.clock import Clock
from repro.training.cuda_timer import DeviceTimes
from repro.training.model_shard import ModelShard
from repro.training.stops import TrainingPlan
from repro.training.worker import Worker

# entries of a virtual testbed: seconds, and mappings of a codec or a way to select to seconds a byte
SECONDS = (
    *("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "update_s_per_byte", "merge_s_per_byte"),
    *("sync_s", "startup_s", "local_alpha_s", "local_beta_s_per_byte"),
)
SECONDS_OF_EACH = ("encode_s_per_byte", "decode_s_per_byte", "select_s_per_byte")
LAUNCHERS = {"mpi": "mpirun", "torch": "torchrun"}  # fabric -> a launcher that starts it on any machine


def check_ranks(fabric: Fabric, strategy: Strategy, config: dict[str, Any]) -> None:
    """InputError where the ranks that were started, or their fabric, are not what the strategy needs."""
    needed = strategy.ranks(strategy.options, config["workers"])
    if fabric.size != needed:
        raise InputError(
            f"{strategy.name} with {config['workers']} workers needs {needed} ranks, but {fabric.size} were started"
        )
    if missing := strategy.requires - fabric.capabilities:
        raise lacking(strategy, missing, fabric.name)


def check_fabric(strategy: type[Strategy], fabric: str) -> None:
    """InputError where a strategy needs another fabric than the one of that name; before ranks start."""
    if missing := {library for library in strategy.requires & LIBRARIES.keys() if LIBRARIES[library] != fabric}:
        raise lacking(strategy, missing, fabric)


def lacking(strategy: Strategy | type[Strategy], missing: Set[str], fabric: str) -> InputError:
    """What to say of a fabric that lacks capabilities which a strategy needs, with where they are."""
    where = [LAUNCHERS[LIBRARIES[library]] for library in sorted(missing & LIBRARIES.keys())]
    hint = f"; {' and '.join(where)} has it: testbed=here testbed.launcher={where[0]}" if where else ""
    return InputError(f"{strategy.name} needs {', '.join(sorted(missing))}, which fabric {fabric} lacks{hint}")


@lru_cache(maxsize=8)
def modelled_seconds(
    model: str,
    input_shape: tuple[int, ...],
    classes: int,
    batch: int,
    device: tuple[tuple[str, Any], ...],
    options: tuple[tuple[str, Any], ...] = (),
) -> BlockSeconds:
    """`block_seconds` of a model by name; virtual ranks share it: counting takes longer than many of their steps."""
    built = models.build(model, input_shape, classes, 0, "meta", **dict(options))
    return block_seconds(built, input_shape, batch, dict(device))


def build_worker(fabric: Fabric, config: dict[str, Any], dataset: Dataset) -> Worker:
    """The worker of this rank: the same initial weights on every rank, drawn from the seed."""
    device = pick_device(config, fabric.rank)
    testbed, workers = config["testbed"], config["workers"]
    arithmetic = testbed.get("arithmetic", "real") == "real"
    local_batch, accumulate = config["batch"] // workers, config["accumulate"]
    check_accumulate(local_batch, accumulate)
    iterations_per_epoch = dataset.iterations(config["batch"])

    blocks = None
    if testbed["kind"] == "simulated":
        shape = (config["model"]["name"], tuple(dataset.input_shape), dataset.classes)
        options = tuple(models.options(config).items())
        blocks = modelled_seconds(*shape, local_batch, tuple(testbed["device"].items()), options)
    part_device = device if arithmetic else torch.device("meta")
    # without arithmetic nobody reads the weights
    model = models.of(config, dataset, "cpu" if arithmetic else "meta")

    def synchronise() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    # a breakdown waits for the device at every phase, so the host's clock is as good
    times = DeviceTimes() if device.type == "cuda" and not config["breakdown"] else None
    return Worker(
        workers=workers,
        fabric=fabric,
        clock=Clock(fabric, synchronise, config["breakdown"], times),
        model_shard=ModelShard(model, config["optimizer"], part_device, iterations_per_epoch),
        batches=dataset.train.minibatches(local_batch, workers, config["seed"], device),
        iterations_per_epoch=iterations_per_epoch,
        seed=config["seed"],
        blocks=blocks,
        arithmetic=arithmetic,
        accumulate=accumulate,
        loss_function=losses.of(dataset.task),
        imbalance=imbalance.of(config),
        min_compute_s=config.get("min_compute_s"),
        iterations=TrainingPlan.of(config, iterations_per_epoch).iterations,
    )


def check_accumulate(local_batch: int, accumulate: Any) -> None:
    """InputError unless a worker's minibatch can be cut into so many equal parts."""
    whole = isinstance(accumulate, int) and not isinstance(accumulate, bool)
    if not whole or accumulate < 1 or local_batch % accumulate:
        allowed = ", ".join(str(n) for n in range(1, local_batch + 1) if local_batch % n == 0)
        raise InputError(
            f"accumulate={accumulate}: a worker's minibatch of {local_batch} must be cut into equal parts: {allowed}"
        )


def virtual_costs(testbed: dict[str, Any]) -> Costs:
    """The costs of a virtual testbed file."""
    per_byte = {"reduce": testbed["gamma_s_per_byte"], "update": testbed["update_s_per_byte"]}
    for kind in ("encode", "decode"):
        per_byte |= {f"{kind}/{codec}": cost for codec, cost in testbed[f"{kind}_s_per_byte"].items()}
    # of sparse gradients: selecting, by bytes of the whole gradient, and merging two messages, by the bytes of both
    per_byte |= {f"select/{how}": cost for how, cost in testbed.get("select_s_per_byte", {}).items()}
    per_byte["merge"] = testbed.get("merge_s_per_byte", 0.0)
    # of a pull of parameters, before its messages: finding the servers, opening connections (iBatch's T_s)
    return Costs(True, per_byte, {"sync": testbed["sync_s"], "startup": testbed.get("startup_s", 0.0)})


def virtual_network(testbed: dict[str, Any]) -> Network:
    """The network of a virtual testbed file."""
    return Network(
        testbed["alpha_s"],
        testbed["beta_s_per_byte"],
        quantum=testbed.get("quantum_bytes"),
        short=testbed.get("short_bytes") or 0,
        hosts=testbed.get("hosts"),
        local_alpha=testbed.get("local_alpha_s", 0.0),
        local_beta=testbed.get("local_beta_s_per_byte", 0.0),
    )


def check_virtual(testbed: dict[str, Any]) -> None:
    """InputError where a virtual testbed's entries about its network, or what its work costs, cannot be."""
    for name in ("hosts", "quantum_bytes", "short_bytes"):
        value = testbed.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise InputError(f"testbed.{name}={value}: must be a whole number, 1 or more, or null")
    if (arithmetic := testbed.get("arithmetic", "real")) not in ("real", "none"):
        raise InputError(f"testbed.arithmetic={arithmetic}: must be real or none")
    seconds = {name: testbed.get(name, 0.0) for name in SECONDS}
    for name in SECONDS_OF_EACH:
        if not isinstance(each := testbed.get(name, {}), dict):
            raise InputError(f"testbed.{name}={each}: must be entries, each with its seconds a byte")
        seconds |= {f"{name}.{entry}": value for entry, value in each.items()}
    for name, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise InputError(f"testbed.{name}={value}: must be a number, 0 or more")
