"""The end of a command whose run was asked to leave and goes on from its checkpoint (`repro.rank.preemption`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repro.core.errors import Diverged, FaultError

STATUS = 75  # of a command whose run goes on when it is started again (EX_TEMPFAIL of sysexits.h)
# what srun says of a rank that had the signal before it could listen
ENDED_EARLY = re.compile(r"srun: error: [^\n]*: tasks? [^\n]*: Terminated")


class Preempted(FaultError):
    """The run was asked to leave; the same command goes on from its checkpoint."""

    status = STATUS


def judged(error: FaultError, signalled: bool, lines: Iterable[str]) -> FaultError:
    """The parent's view of a fault: after the signal it is a preemption without a checkpoint of its own."""
    if isinstance(error, Preempted | Diverged) or not (signalled or any(map(ENDED_EARLY.search, lines))):
        return error
    return Preempted(f"asked to leave, and ended before a checkpoint: {error}")
