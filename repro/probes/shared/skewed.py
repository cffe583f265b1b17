"""The microbenchmark of eager-SGD's Figure 8: collectives that all ranks enter one after the other."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

from repro.algorithms.timing import eager_forms
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError
from repro.fabric.base import BACKGROUND, Fabric
from repro.fabric.collectives import activation
from repro.fabric.collectives.activation import MAJORITY, QUORUM, SOLO, Activation
from repro.fabric.collectives.partial import PartialAllreduce
from repro.fabric.collectives.send_buffer import Whole

ALLREDUCE = "allreduce"  # the fabric's own: MPI_Allreduce
SYNCHRONOUS = "recursive_doubling"  # what the partial ones do once they have started
NAMES = (ALLREDUCE, SYNCHRONOUS, SOLO, MAJORITY, f"{QUORUM} Q")


def initiator(name: str, ranks: int) -> tuple[str, int | None]:
    """(kind, quorum) of a collective's name, "quorum 8" for instance; InputError for one that does not exist."""
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
    algorithm: str = SYNCHRONOUS,
) -> dict[str, Any]:
    """A row of Figure 9: the latency of a collective (mean over ranks and calls) and its active processes.

    Before each call all ranks meet and rank i sleeps i x step_s (line 4 of Figure 8). Its latency is then the time
    from its call to the result (lines 7 to 10). Who comes to a partial collective after its start contributes null
    (line 13). One more call comes first and is not counted. Every rank calls this and gets the same row.
    algorithm: of the rounds of a partial collective.
    """
    kind, quorum = initiator(name, fabric.size)
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
    partial = PartialAllreduce(fabric, send_buffer, lambda start: Activation(fabric, kind, start, seed, quorum))

    def eager(number: int) -> None:
        partial.propose(number, vector, drop=True)
        partial.ended(number)
        partial.latest(work)

    return eager, partial.close, lambda: partial.counted["active"]
