"""Program `ring`: the hops of ring allreduces, pipelined or not, compressed or not (Pipe-SGD 3.2, Figure 3).

It records the transfers and the work of every variant as intervals, for Figures 3 and 2 (c), and computes how much of
the work communication hides. It also compares the work of a heavy codec with the communication that it saves, for
gradients of the paper's sizes (the claim about TernGrad).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
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
from repro.core.phases import COMMUNICATION
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Simulated
from repro.fabric.base import Fabric
from repro.fabric.codecs import make_codec as find_codec
from repro.fabric.collectives import compressed
from repro.fabric.real.gpus import pick_device
from repro.probes import ResultPart
from repro.probes.shared.bare_ring import BareRing
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.options import Bytes, needs_several
from repro.probes.shared.stopwatch import Spread, start_together, synchronize_device, time_spread
from repro.probes.shared.tracing import TracingFabric
from repro.training import clock
from repro.training.clock import overlap_seconds, union_spans

PIPELINED = "ring_pipelined"


class Variant(Model):
    """A ring allreduce; null: the bytes and pieces in `probe`."""

    part = "probe.variants"

    algorithm: Literal["ring", "ring_pipelined"] = "ring"
    codec: Text = "none"
    bytes: Bytes | None = None
    pieces: Count | None = None


class Options(Model):
    bytes: Bytes  # of the variants' float32 vector
    pieces: Count  # of a block in the pipelined ring
    repeat: Count  # turns of all variants
    variants: Annotated[dict[Text, Variant], Field(min_length=1)]
    benchmarks: dict[Text, Bytes]  # name -> bytes of its gradient
    overhead_codec: Text  # whose overhead is measured on each benchmark's gradient, in a pipelined ring
    overhead_repeat: Count


class Interval(ResultPart):
    """An activity of a rank (s, from the first interval's start)."""

    rank: int
    line: str
    name: str
    start: float
    end: float


class VariantTurn(ResultPart):
    """The median turn of a variant (s), means over ranks; seconds: of the slowest rank; moving_alone_s: its messages
    without any work."""

    name: str
    algorithm: str
    codec: str
    bytes: int
    pieces: int
    seconds: Spread
    communication_s: float
    work_s: float
    overlapped_s: float
    moving_alone_s: float
    compress_s: float
    decompress_s: float
    closed_form_s: float | None
    trace: list[Interval]


class Overhead(ResultPart):
    """A codec's work in an allreduce (s), the communication alone with and without compression, and the ratios."""

    benchmark: str
    bytes: int
    codec: str
    work_s: float
    communication_uncompressed_s: float
    communication_compressed_s: float
    per_uncompressed: float
    per_compressed: float


class Result(ResultPart):
    variants: list[VariantTurn]
    overheads: list[Overhead]


def check(config: RunConfig) -> None:
    needs_several(config)
    for variant in config.probe.variants.values():
        compressed.check_codec(variant.codec, variant.algorithm)
    if find_codec(config.probe.overhead_codec).lossless:
        raise InputError("probe.overhead_codec: must be a lossy codec, whose work is the overhead")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    device = torch.device("meta") if config.simulated else pick_device(config.device, fabric.rank)
    rings = {
        name: Ring(
            fabric,
            variant.algorithm,
            variant.codec,
            variant.bytes or probe.bytes,
            variant.pieces or probe.pieces,
            device,
        )
        for name, variant in probe.variants.items()
    }
    probes.announce_iterations(probe.repeat + len(probe.benchmarks), fabric.rank)
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    for name, ring in rings.items():
        calls[name, "traced"] = ring.take_turn
        calls[name, "bare"] = BareRing(fabric, ring.nbytes, ring.codec, ring.pieces, device).once
    turns = run_in_turns(calls, probe.repeat, after_turn=lambda turn: probes.report_progress(turn, fabric.rank))
    network = config.testbed if config.testbed.kind == "simulated" else None
    rows = [
        {"name": name} | ring.result(turns[name, "traced"], network, median(turns[name, "bare"]))
        for name, ring in rings.items()
    ]
    rings.clear()
    calls.clear()
    overheads = []
    for name, nbytes in probe.benchmarks.items():
        measured = codec_overhead(fabric, probe.overhead_codec, nbytes, probe.pieces, device, probe.overhead_repeat)
        overheads.append({"benchmark": name} | measured)
        probes.report_progress(probe.repeat + len(overheads), fabric.rank)
    result = {"variants": rows, "overheads": overheads}
    metrics = {f"seconds/{row['name']}": row["seconds"]["median"] for row in rows}
    for entry in overheads:
        metrics[f"work_per_communication/{entry['benchmark']}"] = entry["per_uncompressed"]
    return probes.Finding(result, metrics, summary_line(rows, overheads), parameters=probe.bytes // FLOAT32)


class Ring:
    """A traced allreduce; every turn gathers the intervals of all ranks. pieces: of a block, in the pipelined ring."""

    def __init__(self, fabric: Fabric, algorithm: str, codec: str, nbytes: int, pieces: int, device: torch.device):
        self.algorithm, self.codec, self.nbytes, self.device = algorithm, codec, nbytes, device
        self.n = nbytes // FLOAT32
        self.pieces = pieces if algorithm == PIPELINED else 1
        self.work = "reduce" if find_codec(codec).lossless else "decompress+sum+compress"
        self.fabric = TracingFabric(fabric, {"host": self.work})
        traced: Any = self.fabric
        self.allreduce = compressed.CompressedAllreduce(traced, self.n, codec, algorithm, pieces=pieces)
        self.values, self.out = torch.empty(self.n, device=device), torch.empty(self.n, device=device)
        if device.type != "meta":
            self.values.normal_(generator=torch.Generator(device).manual_seed(1 + fabric.rank))

    def take_turn(self) -> list[dict[str, Any]]:
        """One allreduce after a common start: each rank's seconds and intervals.

        The first compression and the last decompression are timed separately.
        """
        fabric: Any = self.fabric
        self.out.copy_(self.values)  # without a codec the blocks are views of it
        fabric.exchange(None)
        start = fabric.now()
        blocks = self.allreduce.compress(self.out)
        synchronize_device(self.device)
        compress_s = fabric.now() - start
        start_together(fabric)
        fabric.take()
        start = fabric.now()
        blocks = self.allreduce.reduce(blocks)
        synchronize_device(self.device)
        seconds, intervals = fabric.now() - start, fabric.take()
        start = fabric.now()
        self.allreduce.decompress(blocks, self.out)
        synchronize_device(self.device)
        mine = {"seconds": seconds, "compress_s": compress_s, "decompress_s": fabric.now() - start}
        ranks: list[dict[str, Any]] = fabric.exchange(mine | {"intervals": intervals})
        return ranks

    def result(self, turns: list[list[dict[str, Any]]], network: Simulated | None, bare_s: float) -> dict[str, Any]:
        """The median turn: means over ranks, but `seconds` of the slowest. network: the testbed, if it is simulated.

        work_s is the work of the hops, without the first compression and the last decompression. In virtual time
        overlapped_s is the time in which a rank both communicates and works. In real time the intervals only show how
        long a rank waited: the rest of `bare_s`, the seconds of the same transfers without work, was hidden (waiting
        for a late neighbour counts as not hidden).
        """
        lengths = [max(rank["seconds"] for rank in turn) for turn in turns]
        middle = sorted(range(len(lengths)), key=lengths.__getitem__)[len(lengths) // 2]
        ranks = turns[middle]
        split = [self.split(rank["intervals"]) for rank in ranks]
        communicated, worked, overlapped = (statistics.fmean(column) for column in zip(*split))
        if network is None:
            overlapped = min(worked, max(0.0, bare_s - communicated))
            communicated += overlapped
        zero = min((i.start for rank in ranks for i in rank["intervals"]), default=0.0)
        return {
            "algorithm": self.algorithm,
            "codec": self.codec,
            "bytes": self.nbytes,
            "pieces": self.pieces,
            "seconds": time_spread(lengths) | {"median": lengths[middle]},
            "communication_s": communicated,
            "work_s": worked,
            "overlapped_s": overlapped,
            "moving_alone_s": bare_s,
            **{name: statistics.fmean(rank[name] for rank in ranks) for name in ("compress_s", "decompress_s")},
            "closed_form_s": self.closed_form(network) if network else None,
            "trace": [
                {"rank": rank, "line": i.line, "name": i.name, "start": i.start - zero, "end": i.end - zero}
                for rank, measured in enumerate(ranks)
                for i in measured["intervals"]
            ],
        }

    def split(self, intervals: list[clock.Interval]) -> tuple[float, float, float]:
        """Seconds of a rank's communication, of its work, and of both at once."""
        communicating = [(i.start, i.end) for i in intervals if i.name == COMMUNICATION]
        working = [(i.start, i.end) for i in intervals if i.name == self.work]
        return covered_seconds(communicating), covered_seconds(working), overlap_seconds(communicating, working)

    def closed_form(self, network: Simulated) -> float:
        """Seconds of the allreduce, by the testbed's parameters."""
        costs, used = self.fabric.costs, find_codec(self.codec)
        setting = (self.fabric.size, FLOAT32 * self.n, network.alpha_s, network.beta_s_per_byte, costs, used)
        if self.algorithm == PIPELINED:
            return collective_forms.ring_pipelined_encoded(*setting, self.pieces)
        return collective_forms.ring_encoded(*setting)


def covered_seconds(spans: list[tuple[float, float]]) -> float:
    """Seconds covered by the spans."""
    return sum(end - start for start, end in union_spans(spans))


def codec_overhead(
    fabric: Fabric, codec: str, nbytes: int, pieces: int, device: torch.device, repeat: int
) -> dict[str, Any]:
    """A codec's work in a pipelined allreduce on one rank (mean over ranks), against the communication alone.

    Work: the first compression; decompress, sum and compress in every hop; the last decompression. Communication: the
    same pieces on the same ring without work, in float32 and in the codec's wire format.
    """
    ring = Ring(fabric, PIPELINED, codec, nbytes, pieces, device)
    works = [
        statistics.fmean(rank["compress_s"] + ring.split(rank["intervals"])[1] + rank["decompress_s"] for rank in turn)
        for turn in run_in_turns({"ring": ring.take_turn}, repeat)["ring"]
    ]
    del ring
    work = median(works)
    plain, encoded = (BareRing(fabric, nbytes, wire, pieces, device).seconds(repeat) for wire in ("none", codec))
    return {
        "bytes": nbytes,
        "codec": codec,
        "work_s": work,
        "communication_uncompressed_s": plain,
        "communication_compressed_s": encoded,
        "per_uncompressed": work / plain,
        "per_compressed": work / encoded,
    }


def summary_line(rows: list[dict[str, Any]], overheads: list[dict[str, Any]]) -> str:
    times = ", ".join(f"{row['name']} {1e3 * row['seconds']['median']:.3g} ms" for row in rows)
    if not overheads:
        return times
    ratios = sorted(entry["per_uncompressed"] for entry in overheads)
    return f"{times}; {overheads[0]['codec']} work {ratios[0]:.2g} to {ratios[-1]:.2g} x the uncompressed communication"
