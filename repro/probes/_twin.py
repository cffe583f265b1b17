"""A strategy's virtual twin: the same code on the virtual fabric, with costs that were measured beforehand."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from repro.fabric import virtual
from repro.fabric.links import Network
from repro.probes._common import slowest
from repro.probes._compute import Compute, ComputeBenchmark
from repro.probes._fabric_model import codec_work, repeats, summation
from repro.probes._observe import observe, summarise
from repro.probes._synthetic import Sleep, Workload, worker
from repro.timing.closed_forms import largest_block
from repro.timing.costs import Costs
from repro.timing.device import BlockSeconds
from strategies.base import Strategy


@dataclass(frozen=True)
class Measured:
    """What one workload's computation takes on this machine, without communication: compute of a step, costs a byte."""

    workload: Workload
    compute: Compute
    costs: Costs

    @property
    def blocks(self) -> BlockSeconds:
        """Seconds of each block: what stands outside the passes is put into the first, gradients' copies into all."""
        count, compute = self.workload.blocks, self.compute
        forward = [compute.forward / count] * count
        forward[0] += compute.data + compute.other
        return BlockSeconds(forward, [compute.backward / count] * count)

    def as_result(self) -> dict[str, Any]:
        return self.compute.as_result() | {"seconds_per_byte": dict(self.costs.seconds_per_byte)}


def calibrate(fabric: Any, workload: Workload, work: Any, codecs: list[str], turns: int) -> Measured:
    """Every rank of `fabric` calls it at once and gets the same numbers."""
    computing = worker(fabric, fabric.size, workload, work)
    bench = ComputeBenchmark(fabric, computing, [1])
    for _ in range(turns):
        bench.turn(1, 4)
    compute = bench.result()
    nbytes = 4 * computing.part.size
    block, device = largest_block(fabric.size, nbytes), computing.part.device
    works = {"reduce": (block, summation(fabric, block, device))}
    for name in codecs:
        compress, decompress = codec_work(fabric, nbytes, name, device)
        works[f"encode/{name}"] = (nbytes, compress)
        works[f"decode/{name}"] = (nbytes, decompress)
    per_byte = {"update": compute.update / nbytes}
    for name, (size, call) in works.items():
        times = repeats(fabric, call)
        taken = [slowest(fabric, lambda call=call, times=times: [call() for _ in range(times)]) for _ in range(turns)]
        per_byte[name] = statistics.median(taken) / times / size
    return Measured(workload, compute, Costs(True, per_byte, {}))


def simulate(
    strategy: Strategy, workers: int, measured: Measured, network: Network, costs: Costs, warmup: int, steps: int
) -> dict[str, Any]:
    """`summarise` of the strategy's steps in virtual time; one process calls it."""
    options = strategy.options

    def rank(fabric: virtual.VirtualFabric) -> list[dict[str, Any]]:
        twin = worker(fabric, workers, measured.workload, Sleep(fabric), measured.blocks)
        return observe(fabric, type(strategy)(options), twin, warmup, steps)

    found = virtual.run(type(strategy).ranks(workers), rank, network, costs)
    return summarise([found[0]], steps)
