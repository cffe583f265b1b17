"""Measures iBatch's profile on a fabric: the startup time, and each layer's transfer and forward time."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from repro.algorithms.batching.decision import exact_s
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches, executed_s, exetime_s, meets_constraint
from repro.algorithms.parameter_server.client import Client
from repro.algorithms.pipeline import profiler as layer_times
from repro.fabric.base import Fabric
from repro.training.worker import Worker

REPEATS = 7  # repetitions of each pull in real time; in virtual time one is enough
MINIBATCHES, WARMUP = 5, 2  # of forward times
LEAST_S = 1e-9  # the least transfer time; 0 means a layer without parameters


def measure_profile(worker: Worker, client: Client | None, sizes: Sequence[int], servers: int) -> PullProfile:
    """The profile of a run, the same on all ranks; all ranks call this before training. Weights stay unchanged.

    startup_s   of a pull of one element from each server (the paper: the time of `getWeights` beyond `fetchBlockSync`)
    transfer_s  of each layer: a pull of it alone minus the startup time, at least 1 ns; all workers pull at once
    forward_s   of each layer: in virtual time the testbed's, else measured with minibatches of the model

    Each is the median of repetitions, then the mean over the workers.
    """
    repeats = 1 if worker.blocks else REPEATS
    startup, transfers = measure_pulls(worker.fabric, client, sizes, worker.workers, repeats)
    worker.clock.take()  # these pulls belong to no step
    return _profile(worker, sizes, servers, startup, transfers, _forward_s(worker), _hardware(worker), "measured")


def measure_pulls(
    fabric: Fabric, client: Client | None, sizes: Sequence[int], workers: int, repeats: int = REPEATS
) -> tuple[float, list[float]]:
    """(T_s, T_t of each layer) in seconds, as in `measure_profile`; all ranks call it before the first push."""

    def seconds(pull: Callable[[Client], None]) -> float:
        return _median(fabric, workers, repeats, client, pull)

    def transfer(layer: int) -> float:
        return max(seconds(lambda client: client.pull(layer, layer, 0)) - startup, LEAST_S)

    startup = seconds(lambda client: client.pull_nothing())
    return startup, [transfer(layer) if size else 0.0 for layer, size in enumerate(sizes)]


def of_sizes(worker: Worker, sizes: Sequence[int], servers: int) -> PullProfile:
    """A profile for decisions without times: a layer's transfer takes as many seconds as it has elements."""
    zeros = [0.0] * len(sizes)
    return _profile(worker, sizes, servers, 0.0, [float(size) for size in sizes], zeros, "", "sizes")


def describe_decision(profile: PullProfile, batches: Batches) -> dict[str, Any]:
    """A decision for the record of a run; times are None if the profile has none."""
    timed = profile.source != "sizes"
    return {
        "batches": [list(batch) for batch in batches],
        "layers": list(profile.layers),
        "parameters": list(profile.parameters),
        "profile": profile.as_dict() if timed else None,
        "exetime_s": exetime_s(profile, batches) if timed else None,
        "executed_s": executed_s(profile, batches) if timed else None,
        "exact_s": exact_s(profile) if timed else None,
        "meets_constraint": meets_constraint(profile, batches) if timed else None,
    }


def _median(fabric: Fabric, workers: int, repeats: int, client: Client | None, pull: Callable[[Client], None]) -> float:
    """Seconds of a pull that all workers start together: the median of repetitions, then the mean over the workers."""

    def timed(client: Client) -> float:
        began = fabric.now()
        pull(client)
        return fabric.now() - began

    seconds = []
    for _ in range(repeats):
        fabric.exchange(None)
        if client:  # in a task, as in training
            seconds.append(fabric.spawn(partial(timed, client), "pull").join())
    medians = fabric.exchange(statistics.median(seconds) if client else None)
    return statistics.fmean(medians[:workers])


def _forward_s(worker: Worker) -> list[float]:
    """Each block's forward time, averaged over the workers."""
    if worker.blocks:
        return list(worker.blocks.forward)
    times = None
    if not worker.is_server:
        state = torch.random.get_rng_state()
        model, device = copy.deepcopy(worker.model_shard.model), worker.model_shard.device
        layers = layer_times.measure_layers(model, worker.batches, worker.loss_function, device, MINIBATCHES, WARMUP)
        times = [layer.forward_s for layer in layers]
        torch.random.set_rng_state(state)
    return [statistics.fmean(column) for column in zip(*worker.fabric.exchange(times)[: worker.workers])]


def _profile(
    worker: Worker, sizes: Sequence[int], servers: int, startup: float, transfers: list[float], forward: list[float],
    hardware: str, source: str,
) -> PullProfile:  # fmt: skip
    layers = tuple(name for name, _ in worker.model_shard.model.named_children())
    return PullProfile(
        startup_s=startup,
        transfer_s=tuple(transfers),
        forward_s=tuple(forward),
        layers=layers,
        workers=worker.workers,
        servers=servers,
        parameters=tuple(sizes),
        batch=worker.batches.size,
        hardware=hardware,
        source=source,
    )


def _hardware(worker: Worker) -> str:
    if worker.blocks:
        return f"virtual time, {worker.fabric.size} ranks"
    hardware = layer_times.hardware_name(worker.model_shard.device)
    return f"{hardware}, {worker.fabric.size} ranks, fabric {worker.fabric.name}"
