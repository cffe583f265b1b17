"""Where a run goes on: the newest checkpoint that every rank finds whole."""

from __future__ import annotations

from typing import Any

from repro.checkpoints import Checkpoints, Damaged, common
from repro.fabric.base import Fabric
from repro.runlog import say


def newest(fabric: Fabric, checkpoints: Checkpoints) -> tuple[int, dict[str, Any]] | None:
    """The checkpoint's iteration and this rank's state, or None where the run starts from the beginning.

    Every rank calls it. What is passed over costs the user a line, and is deleted: the run makes it again.
    """
    offered = checkpoints.available()
    offers = fabric.exchange(offered)
    earlier = any(offers)
    while (iteration := common(offers)) is not None:
        state, wrong = None, None
        try:
            state = checkpoints.load(iteration)
        except Damaged as error:
            wrong = str(error)
        found = [line for line in fabric.exchange(wrong) if line]
        if not found:
            checkpoints.discard(after=iteration)
            return iteration, state
        if fabric.rank == 0:
            for line in found:
                say("note", line=f"{line}; passing over the checkpoint of iteration {iteration}")
        offered = [older for older in offered if older < iteration]
        offers = fabric.exchange(offered)
    checkpoints.discard(after=0)
    if earlier and fabric.rank == 0:
        say("note", line="no checkpoint is whole on every rank: starting from the beginning")
    return None
