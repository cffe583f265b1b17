"""Program `partial_collectives`: latency and active processes of partial allreduces (eager-SGD, Figure 9)."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing import partial_forms
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError
from repro.core.fields import Count, Model, NonNegative, Text
from repro.experiment.schema import RunConfig
from repro.fabric.base import BACKGROUND, Fabric
from repro.fabric.collectives import activation
from repro.fabric.collectives.activation import MAJORITY, QUORUM, SOLO, Activation
from repro.fabric.collectives.auto import NATIVE
from repro.fabric.collectives.partial import PartialAllreduce
from repro.fabric.collectives.send_buffer import Whole
from repro.fabric.real.gpus import pick_device
from repro.probes import ResultPart
from repro.probes.shared.driver import measure_settings
from repro.probes.shared.options import Bytes, Worlds, needs_ranks
from repro.probes.shared.stopwatch import start_together

ALLREDUCE = "allreduce"  # the fabric's own: MPI_Allreduce
SYNCHRONOUS = "recursive_doubling"  # the algorithm of a partial allreduce once it has started
NAMES = (ALLREDUCE, SYNCHRONOUS, SOLO, MAJORITY, f"{QUORUM} Q")
BY_NATIVE = f" by {NATIVE}"  # suffix of a partial allreduce whose rounds use the library's allreduce


class Options(Model):
    """Each collective is called on vectors of each size, on each number of ranks."""

    # allreduce (the fabric's own), recursive_doubling, solo, majority, "quorum Q", "solo by native"
    collectives: Annotated[list[Text], Field(min_length=1)]
    ranks: Worlds  # the first ranks of the run; the others wait
    bytes: Annotated[list[Bytes], Field(min_length=1)]
    step_s: NonNegative  # rank i calls i x step_s after rank 0; the paper does not print it
    calls: Count  # after an uncounted one
    call_s: NonNegative = 0.0  # that the library works in each call of a partial collective, besides its messages


class Latency(ResultPart):
    """Statistics over calls of the mean over ranks (s)."""

    mean: float
    min: float
    max: float


class CollectiveCall(ResultPart):
    """nap: mean number of active processes of a call; waiting_form_s, nap_form: closed forms from the skew alone."""

    collective: str
    ranks: int
    bytes: int
    step_s: float
    skew_s: float
    calls: int
    latency_s: Latency
    nap: float
    waiting_form_s: float
    nap_form: float


class Ratio(ResultPart):
    """Latency of the fabric's own allreduce divided by that of a collective; statistics over the sizes."""

    ranks: int
    collective: str
    mean: float
    min: float
    max: float


class Result(ResultPart):
    rows: list[CollectiveCall]
    ratios: list[Ratio]


def check(config: RunConfig) -> None:
    """InputError also for a rank so late that the others would run into their timeout."""
    probe = config.probe
    needs_ranks(config)
    for name in probe.collectives:
        parse_initiator(name, max(probe.ranks))
    if probe.step_s * (latest := max(probe.ranks) - 1) > config.timeout_s:
        raise InputError(
            f"probe.step_s={probe.step_s:g}: the last of {latest + 1} ranks would come {probe.step_s * latest:g} s "
            f"late, after timeout_s={config.timeout_s:g}; must be at most {config.timeout_s / latest:.3g}"
        )


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    device = torch.device("meta") if config.timing_only else pick_device(config.device, fabric.rank)
    worlds = sorted({*probe.ranks})
    settings = [
        (p, nbytes, name)
        for p, nbytes, name in product(worlds, probe.bytes, probe.collectives)
        if (parse_initiator(name, max(worlds))[1] or 1) <= p  # as many ranks as the quorum
    ]

    def rows_of(group: Fabric, nbytes: int, name: str) -> list[dict[str, Any]]:
        return [measure_collective(group, name, nbytes, probe.step_s, probe.calls, device, config.seed, probe.call_s)]

    probes.announce_iterations(len(settings), fabric.rank)
    rows = measure_settings(fabric, settings, rows_of)
    result = {"rows": rows, "ratios": latency_ratios(rows)}
    metrics = {f"latency_s/{row['collective']}/{row['ranks']}/{row['bytes']}": row["latency_s"]["mean"] for row in rows}
    metrics |= {f"nap/{row['collective']}/{row['ranks']}/{row['bytes']}": row["nap"] for row in rows}
    return probes.Finding(result, metrics, summary_line(result["ratios"]))


def latency_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Latency of the fabric's own allreduce over that of each collective: mean and range over the sizes."""
    latency = {(row["ranks"], row["bytes"], row["collective"]): row["latency_s"]["mean"] for row in rows}
    by_collective: dict[tuple[int, str], list[float]] = {}
    for (p, nbytes, name), seconds in latency.items():
        if name != ALLREDUCE and (p, nbytes, ALLREDUCE) in latency:
            by_collective.setdefault((p, name), []).append(latency[p, nbytes, ALLREDUCE] / seconds)
    return [
        {"ranks": p, "collective": name, "mean": statistics.fmean(each), "min": min(each), "max": max(each)}
        for (p, name), each in by_collective.items()
    ]


def summary_line(rows: list[dict[str, Any]]) -> str:
    most = max((row["ranks"] for row in rows), default=0)
    parts = [f"{row['collective']} {row['mean']:.3g} x" for row in rows if row["ranks"] == most]
    return f"{most} ranks, latency of allreduce over: {', '.join(parts)}" if parts else ""


def parse_initiator(name: str, ranks: int) -> tuple[str, int | None]:
    """(kind, quorum) of a collective's name, as "quorum 8"; InputError for an unknown name."""
    name = name.removesuffix(BY_NATIVE)
    if name in (ALLREDUCE, SYNCHRONOUS, SOLO, MAJORITY):
        return name, None
    kind, _, number = name.partition(" ")
    if kind != QUORUM or not number.isdecimal():
        raise InputError(f"collective '{name}': must be {', '.join(NAMES[:-1])} or, with a number Q, {NAMES[-1]}")
    activation.check_activation(QUORUM, int(number), ranks)
    return QUORUM, int(number)


def measure_collective(
    fabric: Fabric,
    name: str,
    nbytes: int,
    step_s: float,
    calls: int,
    device: torch.device,
    seed: int = 0,
    call_s: float = 0.0,
) -> dict[str, Any]:
    """A row of Figure 9: the latency of a collective (mean over ranks and calls) and its active processes.

    Before each call all ranks start together and rank i sleeps i x step_s (line 4 of Figure 8). Its latency is the time
    from its call to the result (lines 7 to 10). A rank that calls after the start of a partial collective contributes
    null (line 13). An uncounted call comes first. Every rank calls this function and gets the same row.
    """
    kind, quorum = parse_initiator(name, fabric.size)
    algorithm = NATIVE if name.endswith(BY_NATIVE) else SYNCHRONOUS
    vector = torch.ones(nbytes // FLOAT32, device=device)
    call, end, active = make_collective(fabric, kind, quorum, vector, seed, algorithm)
    works = call_s if kind in (SOLO, MAJORITY, QUORUM) else 0.0
    seconds, before = [], 0
    for number in range(calls + 1):
        start_together(fabric)
        fabric.sleep(fabric.rank * step_s)
        start = fabric.now()
        call(number)
        if works:
            fabric.sleep(works)
        seconds.append(fabric.now() - start)
        if number == 0:
            before = active()
    counted = sum(fabric.exchange(active() - before))
    end()
    by_call = [statistics.fmean(of_ranks) for of_ranks in zip(*fabric.exchange(seconds[1:]))]
    ranks = fabric.size
    # all processes of a synchronous collective are active
    nap = counted / calls if kind in (SOLO, MAJORITY, QUORUM) else float(ranks)
    form = ALLREDUCE if kind == SYNCHRONOUS else kind
    return {
        "collective": name,
        "ranks": ranks,
        "bytes": nbytes,
        "step_s": step_s,
        "skew_s": (ranks - 1) * step_s,
        "calls": calls,
        "latency_s": {"mean": statistics.fmean(by_call), "min": min(by_call), "max": max(by_call)},
        "nap": nap,
        "waiting_form_s": partial_forms.mean_wait_s(form, ranks, step_s, quorum),
        "nap_form": partial_forms.active_processes(form, ranks, quorum),
    }


def make_collective(
    fabric: Fabric, kind: str, quorum: int | None, vector: torch.Tensor, seed: int, algorithm: str
) -> tuple[Callable[[int], Any], Callable[[], Any], Callable[[], int]]:
    """(call(number), end(), active() -> calls so far in which this rank was active); the vector is (n,)."""
    work = torch.empty_like(vector)
    if kind in (ALLREDUCE, SYNCHRONOUS):
        allreduce = "native" if kind == ALLREDUCE else kind

        def synchronous(_: int) -> None:
            work.copy_(vector)
            fabric.allreduce(work, algorithm=allreduce)

        return synchronous, lambda: None, lambda: 0
    send_buffer = Whole(fabric, vector.numel(), 2 * fabric.size, vector.device, algorithm, channel=BACKGROUND)
    partial = PartialAllreduce(fabric, [send_buffer], lambda start: Activation(fabric, kind, start, seed, quorum))

    def eager(number: int) -> None:
        partial.propose(number, vector, drop=True)
        partial.ended(number)
        partial.latest(work)

    return eager, partial.close, lambda: partial.counted["active"]
