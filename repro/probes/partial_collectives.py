"""Program `partial_collectives`: latency and active processes of solo and majority allreduce (eager-SGD, Figure 9)."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing import eager_forms
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
from repro.probes.shared.options import Bytes, Worlds, needs_worlds

ALLREDUCE = "allreduce"  # the fabric's own: MPI_Allreduce
SYNCHRONOUS = "recursive_doubling"  # what the partial ones do once they have started
NAMES = (ALLREDUCE, SYNCHRONOUS, SOLO, MAJORITY, f"{QUORUM} Q")
BY_NATIVE = f" by {NATIVE}"  # behind the name of a partial one, whose rounds are then the library's own allreduce


class Options(Model):
    """Each collective on vectors of each size, in each world; the paper does not say how far apart ranks come."""

    # allreduce (the fabric's own), recursive_doubling, solo, majority, "quorum Q", "solo by native"
    collectives: Annotated[list[Text], Field(min_length=1)]
    ranks: Worlds  # each of the first so many workers; the others wait
    bytes: Annotated[list[Bytes], Field(min_length=1)]
    step_s: NonNegative  # rank i comes i x step_s after the first
    calls: Count  # of each, after one that does not count


def check(config: RunConfig) -> None:
    """InputError for worlds that the workers do not make, and for a rank so late that others would give it up."""
    probe = config.probe
    needs_worlds(config)
    for name in probe.collectives:
        initiator(name, max(probe.ranks))
    if probe.step_s * (latest := max(probe.ranks) - 1) > config.timeout_s:
        raise InputError(
            f"probe.step_s={probe.step_s:g}: the last of {latest + 1} ranks would come {probe.step_s * latest:g} s "
            f"late, after timeout_s={config.timeout_s:g}; must be at most {config.timeout_s / latest:.3g}"
        )


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part. Where it has none it waits in `exchange`, which leaves its core to the others."""
    probe = config.probe
    device = torch.device("meta") if config.timing_only else pick_device(config.device, fabric.rank)
    worlds = {p: fabric if p == fabric.size else fabric.subgroup(range(p)) for p in sorted(set(probe.ranks))}
    places = [
        (p, nbytes, name)
        for p, nbytes, name in product(worlds, probe.bytes, probe.collectives)
        if (initiator(name, max(worlds))[1] or 1) <= p  # the world has as many ranks as the quorum
    ]
    probes.start(fabric, len(places))
    rows = []
    for done, (p, nbytes, name) in enumerate(places, 1):
        if group := worlds[p]:
            how = probe.step_s, probe.calls, device, config.seed
            rows.append(measure(group, name, nbytes, *how))
        fabric.exchange(None)
        probes.progress(fabric, done)
    for p, group in worlds.items():
        if group and p != fabric.size:
            group.close()
    found = {"rows": rows, "ratios": ratios(rows)}
    metrics = {f"latency_s/{row['collective']}/{row['ranks']}/{row['bytes']}": row["latency_s"]["mean"] for row in rows}
    metrics |= {f"nap/{row['collective']}/{row['ranks']}/{row['bytes']}": row["nap"] for row in rows}
    return probes.Finding(found, metrics, line(found["ratios"]))


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each world and partial collective: latency of the fabric's own allreduce over its own, mean over the sizes."""
    latency = {(row["ranks"], row["bytes"], row["collective"]): row["latency_s"]["mean"] for row in rows}
    found: dict[tuple[int, str], list[float]] = {}
    for (p, nbytes, name), seconds in latency.items():
        if name != ALLREDUCE and (p, nbytes, ALLREDUCE) in latency:
            found.setdefault((p, name), []).append(latency[p, nbytes, ALLREDUCE] / seconds)
    return [
        {"ranks": p, "collective": name, "mean": statistics.fmean(all_), "min": min(all_), "max": max(all_)}
        for (p, name), all_ in found.items()
    ]


def line(found: list[dict[str, Any]]) -> str:
    most = max((row["ranks"] for row in found), default=0)
    parts = [f"{row['collective']} {row['mean']:.3g} x" for row in found if row["ranks"] == most]
    return f"{most} ranks, latency of allreduce over: {', '.join(parts)}" if parts else ""


def initiator(name: str, ranks: int) -> tuple[str, int | None]:
    """(kind, quorum) of a collective's name, "quorum 8" for instance; InputError for one that does not exist."""
    name = name.removesuffix(BY_NATIVE)
    if name in (ALLREDUCE, SYNCHRONOUS, SOLO, MAJORITY):
        return name, None
    kind, _, number = str(name).partition(" ")
    if kind != QUORUM or not number.isdecimal():
        raise InputError(f"collective '{name}': must be {', '.join(NAMES[:-1])} or, Q a number, {NAMES[-1]}")
    activation.check(QUORUM, int(number), ranks)
    return QUORUM, int(number)


def measure(
    fabric: Fabric,
    name: str,
    nbytes: int,
    step_s: float,
    calls: int,
    device: torch.device,
    seed: int = 0,
) -> dict[str, Any]:
    """A row of Figure 9: the latency of a collective (mean over ranks and calls) and its active processes.

    Before each call all ranks meet and rank i sleeps i x step_s (line 4 of Figure 8). Its latency is then the time
    from its call to the result (lines 7 to 10). Who comes to a partial collective after its start contributes null
    (line 13). One more call comes first and is not counted. Every rank calls this and gets the same row.
    """
    kind, quorum = initiator(name, fabric.size)
    algorithm = NATIVE if name.endswith(BY_NATIVE) else SYNCHRONOUS
    vector = torch.ones(nbytes // FLOAT32, device=device)
    call, end, active = collective(fabric, kind, quorum, vector, seed, algorithm)
    seconds, before = [], 0
    for number in range(calls + 1):
        fabric.exchange(None)  # polls: who sleeps leaves the core to the others
        fabric.barrier()
        fabric.sleep(fabric.rank * step_s)
        began = fabric.now()
        call(number)
        seconds.append(fabric.now() - began)
        if number == 0:
            before = active()
    counted = sum(fabric.exchange(active() - before))
    end()
    by_call = [statistics.fmean(of_ranks) for of_ranks in zip(*fabric.exchange(seconds[1:]))]
    ranks = fabric.size
    # a synchronous collective has all of them, whatever it counts
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
        "waiting_form_s": eager_forms.mean_wait_s(form, ranks, step_s, quorum),
        "nap_form": eager_forms.active_processes(form, ranks, quorum),
    }


def collective(
    fabric: Fabric, kind: str, quorum: int | None, vector: torch.Tensor, seed: int, algorithm: str
) -> tuple[Callable[[int], Any], Callable[[], Any], Callable[[], int]]:
    """(call of a number, end, calls so far in which this rank was active); the vector is (n,)."""
    work = torch.empty_like(vector)
    if kind in (ALLREDUCE, SYNCHRONOUS):
        own = "native" if kind == ALLREDUCE else kind

        def synchronous(_: int) -> None:
            work.copy_(vector)
            fabric.allreduce(work, algorithm=own)

        return synchronous, lambda: None, lambda: 0
    send_buffer = Whole(fabric, vector.numel(), 2 * fabric.size, vector.device, algorithm, channel=BACKGROUND)
    partial = PartialAllreduce(fabric, [send_buffer], lambda start: Activation(fabric, kind, start, seed, quorum))

    def eager(number: int) -> None:
        partial.propose(number, vector, drop=True)
        partial.ended(number)
        partial.latest(work)

    return eager, partial.close, lambda: partial.counted["active"]
