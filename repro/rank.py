"""One rank's program: build the worker from a cell's configuration, train, and leave the summary behind.

Started by a launcher as `python -m mpi4py -m repro.rank CELL_FOLDER`, by torchrun, or once for all virtual ranks.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from repro import config as configs
from repro import data, models
from repro.checkpoints import Checkpoints, common
from repro.clock import Clock
from repro.data.base import Batches
from repro.errors import InputError, ReproError
from repro.events import EventLog
from repro.fabric.base import Fabric
from repro.part import Part
from repro.results import write_summary
from repro.runlog import RunLog, say
from repro.summary import summarise
from repro.timing.costs import Costs
from repro.timing.device import block_seconds
from repro.train import Plan, train
from repro.worker import Worker
from strategies import load
from strategies.base import Strategy

ERROR_MARK = "repro-error"


def run_rank(fabric: Fabric, config: dict[str, Any], folder: Path) -> None:
    """Everything that one rank does in a cell, from a started fabric to its close."""
    strategy_class = load(config["strategy"]["name"])
    strategy = strategy_class(strategy_class.parse({k: v for k, v in config["strategy"].items() if k != "name"}))
    check_ranks(fabric, strategy, config)
    dataset = data.load(config["dataset"]["name"], config["data"]["root"], config["dataset"]["standin"])
    worker = build_worker(fabric, config, dataset)
    checkpoints = Checkpoints(folder, fabric.rank)
    start = common(fabric.exchange(checkpoints.available()))
    events = EventLog(folder / "events.jsonl") if fabric.rank == 0 else None
    if events and start is None:
        events.append("run_start", key=config["key"], iteration=0)
    spare = models.build(config["model"]["name"], dataset.input_shape, dataset.classes, config["seed"])
    strategy.setup(worker)
    log = RunLog(worker, strategy, spare, dataset, checkpoints, events, config["trace_steps"])
    plan = Plan.of(config, worker.iterations_per_epoch)
    if fabric.rank == 0:
        say("start", iterations=plan.iterations, resumed=start or 0)
    if start:
        log.restore(start)
    with_faults(strategy, fabric.rank, resumed=start is not None)
    fabric.exchange(None)  # nobody's training clock starts before everybody is ready
    train(worker, strategy, plan, log, start or 0)
    strategy.close()
    if events:
        wall = dict(worker.clock.wall)
        events.append("run_end", iteration=plan.iterations, weights_sha256=log.final_digest, wall=wall)
        events.flush()
        write_summary(folder, summarise(folder, config, describe(worker, dataset, plan)))
    fabric.close()


def check_ranks(fabric: Fabric, strategy: Strategy, config: dict[str, Any]) -> None:
    """InputError where the ranks that were started, or their fabric, are not what the strategy needs."""
    needed = strategy.ranks(config["workers"])
    if fabric.size != needed:
        raise InputError(
            f"{strategy.name} with {config['workers']} workers needs {needed} ranks, but {fabric.size} were started"
        )
    if missing := strategy.requires - fabric.capabilities:
        raise InputError(f"{strategy.name} needs {', '.join(sorted(missing))}, which fabric {fabric.name} lacks")


def build_worker(fabric: Fabric, config: dict[str, Any], dataset: data.base.Dataset) -> Worker:
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

    def model() -> torch.nn.Sequential:
        return models.build(config["model"]["name"], dataset.input_shape, dataset.classes, config["seed"])

    blocks = None
    if testbed["kind"] == "simulated":
        blocks = block_seconds(model(), dataset.input_shape, local_batch, testbed["device"])
    part_device = device if arithmetic else torch.device("meta")
    synchronise = torch.cuda.synchronize if device.type == "cuda" and config["breakdown"] else None
    return Worker(
        workers=workers,
        fabric=fabric,
        clock=Clock(fabric, synchronise),
        part=Part(model(), config["optimizer"], part_device),
        batches=Batches(dataset.train, local_batch, config["seed"], iterations_per_epoch * workers, device=device),
        iterations_per_epoch=iterations_per_epoch,
        seed=config["seed"],
        blocks=blocks,
        arithmetic=arithmetic,
    )


def pick_device(config: dict[str, Any], rank: int) -> torch.device:
    """The GPU of this rank (ranks share GPUs in turn where there are fewer), or the CPU."""
    wanted = config["device"]
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device=cuda: torch {torch.__version__} sees no working GPU here; use device=cpu")
    if wanted == "cpu" or not torch.cuda.is_available() or config["testbed"]["kind"] == "simulated":
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK") or os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK") or rank)
    device = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def describe(worker: Worker, dataset: data.base.Dataset, plan: Plan) -> dict[str, Any]:
    """Facts for the summary that only a rank knows."""
    return {
        "fabric": worker.fabric.name,
        "ranks": worker.fabric.size,
        "iterations": plan.iterations,
        "iterations_per_epoch": worker.iterations_per_epoch,
        "model": {"name": None, "parameters": worker.part.size},
        "dataset": {
            "name": dataset.name,
            "standin": dataset.standin,
            "checksum": dataset.checksum,
            "train": len(dataset.train.y),
            "test": len(dataset.test.y),
        },
    }


def with_faults(strategy: Strategy, rank: int, resumed: bool) -> None:
    """For trying out what a fault does: REPRO_FAULT=kill:RANK:STEP or stop:RANK:STEP, in the first attempt only."""
    fault = os.environ.get("REPRO_FAULT")
    if not fault or resumed:
        return
    kind, who, when = fault.split(":")
    if int(who) != rank:
        return
    step, left = strategy.step, [int(when)]

    def faulty() -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        return step()

    strategy.step = faulty


def virtual_costs(testbed: dict[str, Any]) -> Costs:
    """The costs of a virtual testbed file."""
    per_byte = {"reduce": testbed["gamma_s_per_byte"], "update": testbed["update_s_per_byte"]}
    for kind in ("encode", "decode"):
        per_byte |= {f"{kind}/{codec}": cost for codec, cost in testbed[f"{kind}_s_per_byte"].items()}
    return Costs(True, per_byte, {"sync": testbed["sync_s"]})


def start_fabric(config: dict[str, Any]) -> Fabric:
    """The fabric of a rank that a launcher has started as a process."""
    if config["testbed"]["launcher"] == "mpirun":
        from repro.fabric.mpi import MpiFabric

        return MpiFabric(timeout_s=config["timeout_s"])
    from repro.fabric.torch_dist import TorchFabric

    own_gpus = config["device"] != "cpu" and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    backend = "nccl" if own_gpus and torch.cuda.is_available() else "gloo"
    return TorchFabric(backend, config["timeout_s"])


def main(folder: Path) -> None:
    config = configs.read_yaml(folder / "config.yaml")
    torch.set_num_threads(config["testbed"].get("threads_per_rank", 1))
    if config["testbed"]["launcher"] == "virtual":
        from repro.fabric import virtual

        testbed = config["testbed"]
        ranks = load(config["strategy"]["name"]).ranks(config["workers"])
        network = virtual.Network(testbed["alpha_s"], testbed["beta_s_per_byte"])
        virtual.run(ranks, lambda fabric: run_rank(fabric, config, folder), network, virtual_costs(testbed))
    else:
        run_rank(start_fabric(config), config, folder)


def guarded(run: Callable[[], None]) -> None:
    """Errors as one line for the parent, then an end that takes the other ranks along."""
    try:
        run()
    except ReproError as error:
        stop(error.status, str(error))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
            raise
        stop(InputError.status, f"{error.filename or 'results folder'}: {error.strerror}")


def stop(status: int, message: str) -> None:
    print(f"{ERROR_MARK}[{status}] {message}", file=sys.stderr, flush=True)
    if "mpi4py" in sys.modules and "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(status)
    os._exit(status)


if __name__ == "__main__":
    guarded(lambda: main(Path(sys.argv[1])))
