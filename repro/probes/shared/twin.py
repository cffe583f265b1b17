"""Virtual twins of strategies: the same code on the virtual fabric, with costs measured on the real one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import largest_block
from repro.fabric.base import BACKGROUND
from repro.fabric.costs import Costs
from repro.fabric.sparse.gradients import Wire, merge_topk
from repro.fabric.sparse.selection import select_topk
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual.network import Network
from repro.probes.shared.computation import Alone, Compute, ComputeBenchmark
from repro.probes.shared.fabric_model import codec_work, make_summation
from repro.probes.shared.steps import observe_steps, summarise_steps
from repro.probes.shared.stopwatch import count_repetitions, slowest_seconds
from repro.probes.shared.synthetic import Sleep, Workload, synthetic_worker
from repro.strategies.base import Strategy, set_up
from repro.training.device_times import BlockSeconds
from repro.training.worker import Worker

BESIDE_STEPS = 5  # steps of computation that run beside communication


@dataclass(frozen=True)
class Measured:
    """One workload's computation on this machine without communication: a step's seconds, and costs a byte.

    interference: additional seconds of computation for each second in which another task communicates (a core that
    moves bytes for TCP computes nothing meanwhile).
    """

    workload: Workload
    compute: Compute
    costs: Costs
    interference: float

    def blocks(self, hidden_s: float = 0.0) -> BlockSeconds:
        """Seconds of each block, if `hidden_s` of each step's communication happen during computation.

        The first block includes what a step does outside the passes.
        """
        count, compute = self.workload.blocks, self.compute
        slower = 1 + self.interference * hidden_s / (compute.l_for + compute.backward)
        forward = [compute.forward / count * slower] * count
        forward[0] += (compute.data + compute.other) * slower
        return BlockSeconds(forward, [compute.backward / count * slower] * count)

    def as_result(self) -> dict[str, Any]:
        costs = dict(self.costs.seconds_per_byte)
        return self.compute.as_result() | {"seconds_per_byte": costs, "interference": self.interference}


def calibrate_twin(
    fabric: Any, workload: Workload, work: Any, codecs: list[str], selections: dict[str, float], turns: int
) -> Measured:
    """Measure a workload; every rank of `fabric` calls it at once and gets the same numbers.

    selections: method of selecting sparse gradients -> density.
    """
    computing = synthetic_worker(fabric, fabric.size, workload, work)
    bench = ComputeBenchmark(fabric, computing, [1])
    for _ in range(turns):
        bench.turn(1, 4)
    compute = bench.result()
    nbytes = 4 * computing.model_shard.size
    block, device = largest_block(fabric.size, nbytes), computing.model_shard.device
    works = {"reduce": (block, make_summation(fabric, block, device))}
    for name in codecs:
        compress, decompress = codec_work(fabric, nbytes, name, device)
        works[f"encode/{name}"] = (nbytes, compress)
        works[f"decode/{name}"] = (nbytes, decompress)
    for how, density in selections.items():
        k = round(density * computing.model_shard.size)
        works[f"select/{how}"] = (nbytes, selection_work(computing.model_shard.size, k, how, fabric.rank))
        works["merge"] = merge_work(computing.model_shard.size, k, fabric.rank)
    per_byte = {"update": compute.update / nbytes}
    for name, (size, call) in works.items():
        times = count_repetitions(fabric, call)
        seconds = [slowest_seconds(fabric, call, times) for _ in range(turns)]
        per_byte[name] = statistics.median(seconds) / times / size
    interference = statistics.median(_interference(fabric, computing, compute) for _ in range(turns))
    return Measured(workload, compute, Costs(True, per_byte, {}), interference)


def _interference(fabric: Any, computing: Worker, compute: Compute) -> float:
    """How much longer computation takes beside a task of allreduces than alone, a fraction; of the slowest rank."""
    vector = computing.model_shard.empty().zero_()

    def ring() -> Any:
        return fabric.allreduce(vector, channel=BACKGROUND, algorithm="ring")

    rings = 1 + math.ceil(BESIDE_STEPS * compute.total / slowest_seconds(fabric, ring))
    alone = Alone()
    set_up(alone, computing)
    fabric.exchange(None)
    start = fabric.now()
    task = fabric.spawn(lambda: [ring() for _ in range(rings)] and fabric.now(), "background")
    ends = [start]
    for _ in range(BESIDE_STEPS):
        alone.step()
        ends.append(fabric.now())
    until = task.join()
    beside = [end for end in ends if end <= until]  # without steps after the last ring, which nothing disturbs
    step_s = (beside[-1] - start) / (len(beside) - 1) if len(beside) > 1 else compute.total
    return max(0.0, max(fabric.exchange(step_s)) / compute.total - 1)


def simulate_twin(
    strategy: Strategy, workers: int, measured: Measured, network: Network, costs: Costs, warmup: int, steps: int
) -> dict[str, Any]:
    """`summarise` of the strategy's steps in virtual time; one process calls it.

    It simulates twice if there is interference: communication that the first run hides slows the second's computation.
    """

    def run(blocks: BlockSeconds) -> dict[str, Any]:
        def rank(fabric: virtual.VirtualFabric) -> list[dict[str, Any]]:
            twin = synthetic_worker(fabric, workers, measured.workload, Sleep(fabric), blocks)
            return observe_steps(fabric, type(strategy)(strategy.options), twin, warmup, steps)

        return summarise_steps([virtual.run(strategy.ranks(strategy.options, workers), rank, network, costs)[0]], steps)

    undisturbed = run(measured.blocks())
    hidden_s = undisturbed["communication"]["overlapped_s"]
    return run(measured.blocks(hidden_s)) if hidden_s and measured.interference else undisturbed


# --- a rank's own work on sparse gradients: selection, and merging two messages
def selection_work(elements: int, k: int, how: str, seed: int) -> Callable[[], Any]:
    """A step's work on CPU vectors (elements,): add the gradient to the residual, select, apply an update.

    Gradients are normal draws, others on each rank (`seed`), so that the residual is distributed as in training.
    """
    gradient = torch.randn(elements, generator=torch.Generator().manual_seed(seed))
    residual, update = torch.zeros(elements), torch.empty(elements)

    def work() -> None:
        residual.add_(gradient)
        mine = select_topk(residual, k, how)
        mine.clear(residual)
        update.zero_()
        mine.add_to(update)

    return work


def merge_work(elements: int, k: int, seed: int) -> tuple[int, Callable[[], Any]]:
    """(bytes of two messages, a call that unpacks one of them and merges it with the other)."""
    wire, draw = Wire(k), torch.Generator().manual_seed(seed)
    mine, other = (select_topk(torch.randn(elements, generator=draw), k) for _ in range(2))
    message = wire.pack(other)

    def work() -> None:
        _, rest = merge_topk(mine, wire.unpack(message), k)
        rest()

    return 2 * wire.bytes, work
