"""From a cell's configuration to what its ranks work with: the worker, its device, the virtual testbed's costs."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import Any

import torch

from repro import models
from repro.clock import Clock
from repro.data.base import Batches, Dataset
from repro.device_times import DeviceTimes
from repro.errors import InputError
from repro.fabric.base import LIBRARIES, Fabric
from repro.part import Part
from repro.places import local_rank
from repro.timing.costs import Costs
from repro.timing.device import BlockSeconds, block_seconds
from repro.worker import Worker
from strategies.base import Strategy

LAUNCHERS = {"mpi": "mpirun", "torch": "torchrun"}  # fabric -> a launcher that starts it on any machine


def check_ranks(fabric: Fabric, strategy: Strategy, config: dict[str, Any]) -> None:
    """InputError where the ranks that were started, or their fabric, are not what the strategy needs."""
    needed = strategy.ranks(config["workers"])
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
    model: str, input_shape: tuple[int, ...], classes: int, batch: int, device: tuple[tuple[str, Any], ...]
) -> BlockSeconds:
    """`block_seconds` of a model by name; virtual ranks share it: counting takes longer than many of their steps."""
    return block_seconds(models.build(model, input_shape, classes, 0, "meta"), input_shape, batch, dict(device))


def build_worker(fabric: Fabric, config: dict[str, Any], dataset: Dataset) -> Worker:
    """The worker of this rank: the same initial weights on every rank, drawn from the seed."""
    device = pick_device(config, fabric.rank)
    testbed, workers = config["testbed"], config["workers"]
    arithmetic = testbed.get("arithmetic", "real") == "real"
    local_batch = config["batch"] // workers
    iterations_per_epoch = len(dataset.train.y) // config["batch"]
    if iterations_per_epoch == 0:
        raise InputError(
            f"batch={config['batch']}: more than the {len(dataset.train.y)} training samples of {dataset.name}"
        )

    blocks = None
    if testbed["kind"] == "simulated":
        shape = (config["model"]["name"], tuple(dataset.input_shape), dataset.classes)
        blocks = modelled_seconds(*shape, local_batch, tuple(testbed["device"].items()))
    part_device = device if arithmetic else torch.device("meta")
    model = models.build(
        config["model"]["name"],
        dataset.input_shape,
        dataset.classes,
        config["seed"],
        "cpu" if arithmetic else "meta",  # without arithmetic nobody reads the weights
    )

    def synchronise() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    # a breakdown waits for the device at every phase, so the host's clock is as good
    times = DeviceTimes() if device.type == "cuda" and not config["breakdown"] else None
    return Worker(
        workers=workers,
        fabric=fabric,
        clock=Clock(fabric, synchronise, config["breakdown"], times),
        part=Part(model, config["optimizer"], part_device, iterations_per_epoch),
        batches=Batches(dataset.train, local_batch, config["seed"], iterations_per_epoch * workers, device=device),
        iterations_per_epoch=iterations_per_epoch,
        seed=config["seed"],
        blocks=blocks,
        arithmetic=arithmetic,
    )


def pick_device(config: dict[str, Any], rank: int) -> torch.device:
    """The GPU of this rank (ranks share GPUs in turn where there are fewer), or the CPU."""
    wanted = config["device"]
    if config["testbed"]["kind"] == "simulated":
        return torch.device("cpu")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device=cuda: torch {torch.__version__} sees no working GPU here; use device=cpu")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", local_rank(otherwise=rank) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def virtual_costs(testbed: dict[str, Any]) -> Costs:
    """The costs of a virtual testbed file."""
    per_byte = {"reduce": testbed["gamma_s_per_byte"], "update": testbed["update_s_per_byte"]}
    for kind in ("encode", "decode"):
        per_byte |= {f"{kind}/{codec}": cost for codec, cost in testbed[f"{kind}_s_per_byte"].items()}
    return Costs(True, per_byte, {"sync": testbed["sync_s"]})
