"""One rank of the benchmark of parameter servers; rank 0 prints `@{...}` for each job of a JSON argument.

{"launcher", "rounds": how often the list is gone through, "jobs": [{"way", "bytes", "calls"}]}
    -> seconds an iteration of the slowest rank, a mean over the calls
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from repro.algorithms.parameter_server.client import Client
from repro.algorithms.parameter_server.server import Server
from repro.algorithms.parameter_server.shard import Shard
from repro.algorithms.parameter_server.shards import Shards
from repro.bench.rank_program import main
from repro.experiment.optimizer import Optimizer
from repro.fabric.base import Fabric
from repro.rank.main import guarded
from repro.training.clock import Clock

SGD: dict[str, Any] = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.0}
LAYERS = 4


def run_job(fabric: Fabric, job: dict[str, Any], turn: int) -> list[float]:
    """Seconds of an iteration, on the slowest rank."""
    n, calls = job["bytes"] // 4, job["calls"]
    weights, gradient = torch.zeros(n), torch.ones(n)
    if job["way"] == "allreduce":
        weights.requires_grad_()
        optimizer = torch.optim.SGD([weights], **SGD)

        def iteration(number: int) -> None:
            fabric.allreduce(gradient)
            weights.grad = gradient.div_(fabric.size)
            optimizer.step()

        return [_timed(fabric, iteration, calls)]
    shards = Shards.of([n // LAYERS] * LAYERS, fabric.size)
    clock = Clock(fabric)
    server = Server(
        fabric, clock, Shard(weights, shards, fabric.rank, Optimizer(**SGD), 1), fabric.size, "bsp", 0, 0.0, True
    )
    client = Client(fabric, clock, shards, list(range(fabric.size)), weights, server, None)
    batches = [(0, LAYERS - 1)] if job["way"] == "one pull" else [(layer, layer) for layer in range(LAYERS)]

    def exchange(number: int) -> None:
        for first, last in batches:
            client.pull(first, last, number)
        client.push(0, LAYERS - 1, gradient)
        client.sent()

    seconds = _timed(fabric, exchange, calls)
    server.settled(calls + 1).wait()
    client.leave()
    server.close()
    return [seconds]


def _timed(fabric: Fabric, iteration: Any, calls: int) -> float:
    """A mean over `calls` iterations, after one that does not count."""
    iteration(0)
    fabric.exchange(None)
    began = fabric.now()
    for number in range(1, calls + 1):
        iteration(number)
    return max(fabric.exchange((fabric.now() - began) / calls))


def simulate(nodes: int, strategy_name: str, iterations: int = 2) -> dict[str, float]:
    """CPU seconds of set-up and iterations of VGG19-22K on that many virtual nodes of paper/ibatch, no arithmetic."""
    import torch._dynamo  # noqa: F401  # shapes need it; what a run's process is forked from has it

    from repro.data import of
    from repro.experiment import programs
    from repro.experiment.expand import expand
    from repro.fabric.virtual import fabric as virtual
    from repro.rank.factory import build_worker, virtual_costs, virtual_network
    from repro.strategies import load

    overrides = [f"workers={nodes}", f"batch={4 * nodes}", f"dataset.images={8 * nodes}", f"strategy={strategy_name}"]
    (run, *_) = expand("ibatch/fig5-vgg19-22k", [*overrides, "grid=null"])
    config, dataset = run.config, of(run.config)
    marks: list[tuple[float, float, int]] = []  # CPU seconds, virtual seconds, messages

    def mark(fabric: virtual.VirtualFabric) -> None:
        fabric.exchange(None)
        if fabric.rank == 0:
            marks.append((time.process_time(), fabric.now(), fabric.world.links.messages))

    def rank(fabric: virtual.VirtualFabric) -> None:
        strategy = load(strategy_name)(config.strategy.options)
        worker = build_worker(fabric, config, dataset)
        strategy.setup(worker)
        mark(fabric)
        worker.clock.start()
        for _ in range(iterations):
            strategy.step()
        strategy.drain()
        mark(fabric)
        strategy.close()

    testbed = config.testbed
    assert testbed.kind == "simulated"
    began = time.process_time()
    virtual.run(programs.ranks(config), rank, virtual_network(testbed), virtual_costs(testbed))
    (ready, start_s, _), (over, end_s, messages) = marks
    return {
        "messages": messages,
        "setup_cpu_s": ready - began,
        "cpu_s": over - began,
        "iteration_s": (end_s - start_s) / iterations,
    }


if __name__ == "__main__":
    guarded(lambda: main(json.loads(sys.argv[1]), run_job))
