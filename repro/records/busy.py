"""Whether a run was measured on a busy machine (docs/design.md, Validation and controls), or on one that its ranks
share."""

from __future__ import annotations

from collections.abc import Hashable

from repro.records.kinds import MEASURED, PADDED
from repro.records.record import HasRecord

MOST_TAKEN = 0.1  # of 2026-11-27: the share of the CPU time that others may take from a measured run's cores


SEVERAL_MACHINES = "srun"  # the launcher whose ranks are on several machines, of which a record describes one


def shared_by_ranks(run: HasRecord) -> str:
    """`4 ranks share 2 cores` or `2 ranks share a GPU` for a measured run, else ""; its threads count too."""
    hardware, testbed = run.record.hardware, run.identity.testbed
    if run.kind not in (MEASURED, PADDED):
        return ""
    if shared := hardware.more.get("gpu_shared_by"):
        return f"{shared} ranks share a GPU"
    if testbed.launcher == SEVERAL_MACHINES or hardware.more.get("gpu") or hardware.cores is None:
        return ""
    ranks = run.record.ranks or run.identity.workers
    if ranks * testbed.threads_per_rank <= hardware.cores:
        return ""
    threads = f" of {testbed.threads_per_rank} threads" if testbed.threads_per_rank > 1 else ""
    return f"{ranks} ranks{threads} share {hardware.cores} core{'' if hardware.cores == 1 else 's'}"


def taken_by_others(kind: Hashable, share: float | None) -> str:
    """`31 % taken by others` for a number that was measured on a busy machine, else "".

    kind: of number; the others have controls of their own, or no clock. share: `CpuTaken.share`; None or NaN: unknown.
    """
    busy = kind in (MEASURED, PADDED) and share is not None and share > MOST_TAKEN
    return f"{100 * share:.0f} % taken by others" if busy and share else ""


def on_busy_machine(kind: Hashable, share: float | None) -> str:
    """`on a busy machine (31 % taken by others)`, else ""."""
    taken = taken_by_others(kind, share)
    return taken and f"on a busy machine ({taken})"


def marked_kind(kind: Hashable, share: float | None) -> str:
    """`measured, on a busy machine (31 % taken by others)`; else the kind alone."""
    busy = on_busy_machine(kind, share)
    return f"{kind}, {busy}" if busy else str(kind)
