"""Whether a run was measured on a busy machine (docs/design.md, Validation and controls)."""

from __future__ import annotations

from collections.abc import Hashable

from repro.records.kinds import MEASURED, PADDED

MOST_TAKEN = 0.1  # of 2026-11-27: the share of the CPU time that others may take from a measured run's cores


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
