"""The error of a preempted run, which resumes from its checkpoint (`repro.rank.preemption`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repro.core.errors import PREEMPTED, Diverged, FaultError

# srun's message about a rank that received the signal before its handler was installed
ENDED_EARLY = re.compile(r"srun: error: [^\n]*: tasks? [^\n]*: Terminated")


class Preempted(FaultError):
    """The run was preempted; the same command resumes it from its checkpoint."""

    status = PREEMPTED


def as_preemption(error: FaultError, signalled: bool, lines: Iterable[str]) -> FaultError:
    """The error as it is; if it followed the preemption signal, a preemption without a new checkpoint."""
    if isinstance(error, Preempted | Diverged) or not (signalled or any(map(ENDED_EARLY.search, lines))):
        return error
    return Preempted(f"preempted, and ended before a checkpoint: {error}")
