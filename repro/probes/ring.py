"""Program `ring`: inside the ring allreduce, native and pipelined, with and without compression (Pipe-SGD 3.2, Fig. 3).

Every variant's transfers and hop work are recorded as intervals, from which Figure 3 (and 2 (c)) is drawn, and how much
of the work hides behind communication is computed. Beside that, what a heavy codec's work costs against the
communication that it saves, for gradients of the paper's sizes (the claim about TernGrad).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing import collective_forms
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Text
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Simulated
from repro.fabric.base import Fabric
from repro.fabric.codecs import codec as find_codec
from repro.fabric.collectives import compressed
from repro.fabric.real.gpus import pick_device
from repro.probes.shared.bare_ring import Moving
from repro.probes.shared.options import Bytes, needs_several
from repro.probes.shared.stopwatch import spread, synchronize
from repro.probes.shared.tracing import COMMUNICATE, TracingFabric
from repro.training import clock
from repro.training.clock import overlap, union

PIPELINED = "ring_pipelined"


class Variant(Model):
    """A ring to be looked at; null: the bytes and pieces of all."""

    part = "probe.variants"

    algorithm: Literal["ring", "ring_pipelined"] = "ring"
    codec: Text = "none"
    bytes: Bytes | None = None
    pieces: Count | None = None


class Options(Model):
    """Rings whose hops are looked at, and the overhead of a codec beside each benchmark's gradient."""

    bytes: Bytes  # of the variants' float32 vector
    pieces: Count  # of a block in the pipelined ring
    repeat: Count  # repetitions of the variants, taking turns
    variants: Annotated[dict[Text, Variant], Field(min_length=1)]
    benchmarks: dict[Text, Bytes]  # of its gradient
    overhead_codec: Text  # of the overheads, in a pipelined ring
    overhead_repeat: Count  # of each of them


def check(config: RunConfig) -> None:
    """InputError for codecs that cannot be used."""
    needs_several(config)
    for variant in config.probe.variants.values():
        compressed.check(variant.codec, variant.algorithm)
    if find_codec(config.probe.overhead_codec).lossless:
        raise InputError("probe.overhead_codec: must be a lossy codec, whose work is the overhead")


def variant_of(probe: Options, name: str) -> dict[str, Any]:
    """A variant with what it leaves out."""
    variant = probe.variants[name]
    return {
        "algorithm": variant.algorithm,
        "codec": variant.codec,
        "bytes": variant.bytes or probe.bytes,
        "pieces": variant.pieces or probe.pieces,
    }


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part."""
    probe = config.probe
    device = torch.device("meta") if config.simulated else pick_device(config.device, fabric.rank)
    variants = {name: Ring(fabric, variant_of(probe, name), device) for name in probe.variants}
    probes.start(fabric, probe.repeat + len(probe.benchmarks))
    alone = {name: Moving(fabric, ring.given | {"pieces": ring.pieces}, device) for name, ring in variants.items()}
    moved: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(probe.repeat + 1):
        for name, ring in variants.items():
            ring.turn(counts=turn > 0)  # the first touches fresh pages
            moved[name].append(alone[name].once())
        probes.progress(fabric, turn)
    network = config.testbed if config.testbed.kind == "simulated" else None
    rows = [{"name": name} | ring.result(network, median(moved[name][1:])) for name, ring in variants.items()]
    variants.clear()
    alone.clear()
    overheads = []
    for name, nbytes in probe.benchmarks.items():
        given = {"algorithm": PIPELINED, "codec": probe.overhead_codec, "bytes": nbytes, "pieces": probe.pieces}
        overheads.append({"benchmark": name} | overhead(fabric, given, device, probe.overhead_repeat))
        probes.progress(fabric, probe.repeat + len(overheads))
    result = {"variants": rows, "overheads": overheads}
    metrics = {f"seconds/{row['name']}": row["seconds"]["median"] for row in rows}
    for one in overheads:
        metrics[f"work_per_communication/{one['benchmark']}"] = one["per_uncompressed"]
    return probes.Finding(result, metrics, line(rows, overheads), parameters=probe.bytes // FLOAT32)


class Ring:
    """One way of summing a vector over the ranks, traced; what every rank did is gathered after each turn."""

    def __init__(self, fabric: Fabric, given: dict[str, Any], device: torch.device):
        self.given, self.device, self.n = given, device, given["bytes"] // FLOAT32
        self.pieces = given["pieces"] if given["algorithm"] == PIPELINED else 1
        self.work = "reduce" if find_codec(given["codec"]).lossless else "decompress+sum+compress"
        self.fabric = TracingFabric(fabric, {"host": self.work})
        traced: Any = self.fabric
        self.allreduce = compressed.CompressedAllreduce(
            traced, self.n, given["codec"], given["algorithm"], pieces=given["pieces"]
        )
        self.values, self.out = torch.empty(self.n, device=device), torch.empty(self.n, device=device)
        if device.type != "meta":
            self.values.normal_(generator=torch.Generator(device).manual_seed(1 + fabric.rank))
        self.turns: list[list[dict[str, Any]]] = []  # of each turn every rank's

    def turn(self, counts: bool) -> None:
        """One allreduce, all ranks starting together; compressing and decompressing around it are timed apart."""
        fabric = self.fabric
        self.out.copy_(self.values)  # without a codec the blocks are views of it
        fabric.exchange(None)
        began = fabric.now()
        blocks = self.allreduce.compress(self.out)
        synchronize(self.device)
        compress = fabric.now() - began
        fabric.exchange(None)
        fabric.barrier()
        fabric.take()
        began = fabric.now()
        blocks = self.allreduce.reduce(blocks)
        synchronize(self.device)
        seconds, intervals = fabric.now() - began, fabric.take()
        began = fabric.now()
        self.allreduce.decompress(blocks, self.out)
        synchronize(self.device)
        mine = {"seconds": seconds, "compress_s": compress, "decompress_s": fabric.now() - began}
        everyone = fabric.exchange(mine | {"intervals": intervals})
        if counts:
            self.turns.append(everyone)

    def result(self, network: Simulated | None, alone: float) -> dict[str, Any]:
        """The median turn: times are means over ranks, but `seconds` the slowest's. `network`: of a simulated testbed.

        work_s is that of the hops; the first compression and the last decompression lie outside the allreduce.
        In virtual time overlapped_s is where communication and work of a rank coincide. In real time its intervals tell
        only how long a rank waited; what it did not have to wait for, of the `alone` seconds that the same transfers
        take by themselves, was hidden behind the work (waiting for a late neighbour counts as not hidden).
        """
        lengths = [max(rank["seconds"] for rank in turn) for turn in self.turns]
        middle = sorted(range(len(lengths)), key=lengths.__getitem__)[len(lengths) // 2]
        typical = self.turns[middle]
        split = [self.split(rank["intervals"]) for rank in typical]
        communicated, worked, overlapped = (statistics.fmean(column) for column in zip(*split))
        if network is None:
            overlapped = min(worked, max(0.0, alone - communicated))
            communicated += overlapped
        zero = min((i.start for rank in typical for i in rank["intervals"]), default=0.0)
        return {
            **{name: self.given[name] for name in ("algorithm", "codec", "bytes")},
            "pieces": self.pieces,
            "seconds": spread(lengths) | {"median": lengths[middle]},
            "communication_s": communicated,
            "work_s": worked,
            "overlapped_s": overlapped,
            "moving_alone_s": alone,
            **{name: statistics.fmean(rank[name] for rank in typical) for name in ("compress_s", "decompress_s")},
            "closed_form_s": self.closed_form(network) if network else None,
            "trace": [
                {"rank": rank, "line": i.line, "name": i.name, "start": i.start - zero, "end": i.end - zero}
                for rank, said in enumerate(typical)
                for i in said["intervals"]
            ],
        }

    def split(self, intervals: list[clock.Interval]) -> tuple[float, float, float]:
        """Seconds of a rank's communication, of its work, and of both at once."""
        communicating = [(i.start, i.end) for i in intervals if i.name == COMMUNICATE]
        working = [(i.start, i.end) for i in intervals if i.name == self.work]
        return length(communicating), length(working), overlap(communicating, working)

    def closed_form(self, network: Simulated) -> float:
        """Of the allreduce, from the testbed's parameters."""
        place = (self.fabric.size, FLOAT32 * self.n, network.alpha_s, network.beta_s_per_byte, self.fabric.costs)
        used = find_codec(self.given["codec"])
        if self.given["algorithm"] == PIPELINED:
            return collective_forms.ring_pipelined_encoded(*place, used, self.given["pieces"])
        return collective_forms.ring_encoded(*place, used)


def length(spans: list[tuple[float, float]]) -> float:
    """Seconds that lie in some span."""
    return sum(end - start for start, end in union(spans))


def overhead(fabric: Fabric, given: dict[str, Any], device: torch.device, repeat: int) -> dict[str, Any]:
    """A codec's work in a whole allreduce on one rank (mean over ranks) against the communication alone.

    Work: the first compression, decompress, sum and compress in every hop, the last decompression. Communication: the
    same pieces sent round the same ring without any work between, in float32 and as the codec has them on the wire.
    """
    ring = Ring(fabric, given, device)
    for turn in range(repeat + 1):
        ring.turn(counts=turn > 0)
    of_turns = [
        statistics.fmean(rank["compress_s"] + ring.split(rank["intervals"])[1] + rank["decompress_s"] for rank in turn)
        for turn in ring.turns
    ]
    del ring
    work = median(of_turns)
    moved = {
        codec: Moving(fabric, given | {"codec": codec}, device).seconds(repeat) for codec in ("none", given["codec"])
    }
    return {
        "bytes": given["bytes"],
        "codec": given["codec"],
        "work_s": work,
        "communication_uncompressed_s": moved["none"],
        "communication_compressed_s": moved[given["codec"]],
        "per_uncompressed": work / moved["none"],
        "per_compressed": work / moved[given["codec"]],
    }


def line(rows: list[dict[str, Any]], overheads: list[dict[str, Any]]) -> str:
    times = ", ".join(f"{row['name']} {1e3 * row['seconds']['median']:.3g} ms" for row in rows)
    if not overheads:
        return times
    ratios = sorted(one["per_uncompressed"] for one in overheads)
    return f"{times}; {overheads[0]['codec']} work {ratios[0]:.2g} to {ratios[-1]:.2g} x the uncompressed communication"
