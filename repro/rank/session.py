"""Training on one rank, from a started fabric to the run's record."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import torch

from repro import data, models
from repro.core.errors import FaultError, InputError
from repro.core.paths import EVENTS_FILE
from repro.core.processes import print_event
from repro.data.base import Dataset
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.rank import meters
from repro.rank.checkpointer import Checkpointer, log_gap, resume_run
from repro.rank.checkpoints import Checkpoints
from repro.rank.evaluator import Evaluator
from repro.rank.factory import build_worker, check_ranks
from repro.rank.loop import train_to_end
from repro.rank.meters import core_meter_for
from repro.rank.preemption import Notice
from repro.rank.step_log import StepLog
from repro.rank.summary import summarise_training
from repro.records import provenance, store
from repro.records.events import EventLog, read_events
from repro.strategies import load_strategy
from repro.strategies.base import Strategy, set_up
from repro.training.evaluation.evaluate import weights_digest
from repro.training.stops import TrainingPlan
from repro.training.worker import Worker


def run_rank(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """Train on one rank, from a started fabric to its close; rank 0 writes the record."""
    strategy = load_strategy(config.strategy.name)(config.strategy.options)
    check_ranks(fabric, strategy, config)
    dataset = data.dataset_for(config)
    worker = build_worker(fabric, config, dataset)
    plan = TrainingPlan.of(config, worker.iterations_per_epoch)
    events = EventLog(folder / EVENTS_FILE) if fabric.rank == 0 else None
    spare = models.model_for(config, dataset, "cpu" if worker.arithmetic else "meta")  # for evaluations
    set_up(strategy, worker)
    log = StepLog(worker, strategy, events, config.trace_steps)
    evaluator = Evaluator(worker, strategy, spare, dataset, events, config.eval_train)
    checkpointer = Checkpointer(log, Checkpoints(folder, fabric.rank))
    start = resume_run(checkpointer, plan)
    if events and start is None:
        if events.path.stat().st_size:  # the events of an attempt without usable checkpoint do not count
            events.append("resume", iteration=-1)
        events.append("run_start", key=config.key, iteration=0, iterations=plan.iterations)
    if events:
        by = provenance.attempt(config.key, config.provenance, config.hardware)
        events.append("attempt", iteration=start or 0, **by)
    if fabric.rank == 0:
        print_event("start", iterations=plan.iterations, resumed=start or 0)
    with_faults(strategy, fabric.rank, resumed=start is not None)
    notice = Notice(folder, worker, strategy)
    fabric.exchange(None)  # no training clock starts before all ranks are ready
    log.core_meter = core_meter_for(config)  # not earlier: what ranks need to get ready would count as others'
    ended = train_to_end(plan, log, evaluator, checkpointer, start or 0, notice)
    pipeline, per_rank = strategy.describe(), fabric.exchange(strategy.describe_rank())
    observed = fabric.exchange(fabric.observed(worker.clock.train_s()))
    if ended == plan.iterations:
        check_replicas(worker, strategy)
    strategy.close()
    if events and ended < plan.iterations:
        events.append("preempted", iteration=ended)
        events.flush()
        print_event("preempted", iteration=ended)
    elif events:
        wall = dict(worker.clock.wall)
        events.append("run_end", iteration=plan.iterations, weights_sha256=evaluator.digest, wall=wall)
        events.flush()
        steps = strategy.steps(plan.iterations * worker.workers)
        if missing := log_gap(read_events(events.path), plan, plan.iterations, steps):
            raise FaultError(f"{events.path} {missing}: it is too incomplete for a record")
        facts = describe_run(worker, dataset, plan)
        facts |= {"pipeline": pipeline, "per_rank": per_rank if any(per_rank) else []}
        if fabric.auto:
            facts["allreduce"] = fabric.auto.facts()
        if any(observed):
            facts["observed"] = observed
        store.write(folder, summarise_training(folder, config, facts))
    fabric.close()


def describe_run(worker: Worker, dataset: Dataset, plan: TrainingPlan) -> dict[str, Any]:
    """Facts for the record that only a rank knows."""
    return {
        "fabric": worker.fabric.name,
        "ranks": worker.fabric.size,
        "iterations": plan.iterations,
        "free_arithmetic": worker.clock.compress_s == 0,
        "iterations_per_epoch": worker.iterations_per_epoch,
        "parameters": worker.parameters,
        "memory": {"of": meters.memory_kind(worker.model_shard.device)},
        "dataset": dataset.facts() | ({"augmentation": changes} if (changes := dataset.train.changes) else {}),
    }


def check_replicas(worker: Worker, strategy: Strategy) -> None:
    """InputError naming the first worker whose weights differ from an earlier one's, if the strategy declares that all
    are the same. All ranks call it. Not compared are servers, ranks with a part of the model, buffers (the running
    statistics of a batch norm), which are each rank's own, and ranks on other processors, which may round otherwise."""
    if not (strategy.identical_replicas and worker.arithmetic):
        return
    shard, mine, weights = worker.model_shard, None, strategy.eval_weights()  # servers may send theirs for it
    if not worker.is_server and shard.size == worker.parameters:
        mine = (
            processor_name(shard.device),
            weights_digest({name: weights[name] for name, _ in shard.model.named_parameters()}),
        )
    first: dict[str, tuple[int, str]] = {}  # processor -> its first rank, with its digest
    for rank, of_rank in enumerate(worker.fabric.exchange(mine)):
        if of_rank is None:
            continue
        other, expected = first.setdefault(of_rank[0], (rank, of_rank[1]))
        if of_rank[1] != expected:
            raise InputError(
                f"strategy {strategy.name}: rank {rank} ends with other weights than rank {other}; if it should, "
                "declare identical_replicas = False in the strategy's class"
            )


def processor_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else provenance.cpu_name()


def with_faults(strategy: Strategy, rank: int, resumed: bool) -> None:
    """Inject the fault REPRO_FAULT=kill:RANK:STEP or stop:RANK:STEP, in the first attempt only."""
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

    vars(strategy)["step"] = faulty
