"""The time of a pipeline's flush: a recurrence over the passes of its schedule."""

from __future__ import annotations

from collections.abc import Sequence

from repro.algorithms.pipeline.passes import FORWARD, Op


def flush_s(
    passes: Sequence[Sequence[Op]],
    forward: Sequence[float],
    backward: Sequence[float],
    wires: Sequence[float],
    alpha: float,
) -> float:
    """Seconds from the start of a flush until its last pass ends, with one rank a stage.

    passes             each stage's passes in order (`pipeline.passes.Plan.ops`)
    forward, backward  seconds of each stage's passes
    wires              seconds of a message on the wire between a stage and the next: activations, or their gradients

    A pass starts when the stage's previous pass has ended and its input has arrived. A stage's network card sends one
    message after another. Exact on links that do so if the messages to a stage do not delay each other. On links that
    messages share, 1F1B takes up to a seventh longer where transfers take longer than passes, since activations and
    gradients leave at once.
    """
    stages = len(passes)
    last = stages - 1
    at, free, card = [0] * stages, [0.0] * stages, [0.0] * stages  # the next pass, and when thread and card are free
    arrived: dict[tuple[str, int, int], float] = {}  # (kind, stage, minibatch) -> when a pass's input is there
    waiting = list(range(stages))
    while waiting:
        for stage in waiting:
            pending, now = passes[stage], free[stage]
            while at[stage] < len(pending):
                kind, minibatch = pending[at[stage]]
                step, seconds = (1, forward[stage]) if kind == FORWARD else (-1, backward[stage])
                if 0 <= stage - step <= last:
                    if (when := arrived.get((kind, stage, minibatch))) is None:
                        break
                    now = max(now, when)
                now += seconds
                if 0 <= (to := stage + step) <= last:
                    card[stage] = max(card[stage], now) + wires[min(stage, to)]
                    arrived[kind, to, minibatch] = card[stage] + alpha
                at[stage] += 1
            free[stage] = now
        waiting = [stage for stage in waiting if at[stage] < len(passes[stage])]
    return max(free)
