"""Steps of a strategy in the steady middle of short runs: seconds, phases and communication."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repro.core.phases import OVERLAPPED, PHASES, split_communication
from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.probes.shared.stopwatch import Spread
from repro.records.record import Communication
from repro.strategies.base import Strategy, set_up
from repro.training.worker import Worker


class Steps(ResultPart):
    """Steps of a strategy in the steady state; phases (s) are means over the workers."""

    steps: int
    observed_s: Spread
    phases: dict[str, float]
    communication: Communication


def run_iterations(strategy: Strategy, first: int, last: int) -> list[int]:
    """Run the iterations from `first` to `last` - 1, or as many as end without an incomplete update; this rank's
    minibatches."""
    workers = strategy.worker.workers
    steps = range(strategy.steps(first * workers), strategy.steps(last * workers))
    return [minibatch for _ in steps for minibatch in strategy.step().minibatches]


def make_subgroups(fabric: Fabric, sizes: Iterable[int]) -> dict[int, Fabric | None]:
    """Size -> a fabric over that many of the first ranks; None on the other ranks."""
    return {n: fabric if n == fabric.size else fabric.subgroup(range(n)) for n in sorted(set(sizes))}


def observe_steps(fabric: Fabric, strategy: Strategy, worker: Worker, warmup: int, steps: int) -> list[dict[str, Any]]:
    """{total, phases} in seconds, for each worker, of `steps` iterations of a fresh run after `warmup` others.

    Every rank of `fabric`, servers included, calls it. Pipelines are full at both ends of the `steps`, so that neither
    filling nor draining is timed. A pipeline whose updates take other numbers of minibatches than an iteration does not
    end with the iterations; its seconds are scaled to `steps` of them.
    """
    worker.iterations = warmup + steps + warmup  # strategies that know where a run ends do the last ones in `drain`
    set_up(strategy, worker)
    clock, marks, done = worker.clock, [], []
    fabric.exchange(None)
    clock.start()
    for start, until in ((0, warmup), (warmup, warmup + steps)):
        clock.take()
        done.append(run_iterations(strategy, start, until))
        with clock.paused():  # waits for the device
            marks.append(clock.train_s())
    before, counted = done
    scale = steps * worker.workers / (counted[-1] - before[-1]) if before and counted else 1.0
    phases = {name: seconds * scale for name, seconds in clock.take().items()}
    mine = {"server": worker.is_server, "total": (marks[1] - marks[0]) * scale, "phases": phases}
    strategy.drain()
    strategy.settle()
    strategy.close()
    return [rank for rank in fabric.exchange(mine) if not rank["server"]]


def summarise_steps(turns: Sequence[Sequence[Mapping[str, Any]]], steps: int) -> dict[str, Any]:
    """{steps, observed_s, phases, communication}: seconds a step, means over the workers; turns: of `observe_steps`.

    The phases are those of the turn with the median length, so that they sum to the median step.
    """
    lengths = [statistics.fmean(rank["total"] for rank in workers) / steps for workers in turns]
    middle = sorted(range(len(turns)), key=lengths.__getitem__)[len(turns) // 2]
    return {
        "steps": steps * len(turns),
        "observed_s": {"median": lengths[middle], "min": min(lengths), "max": max(lengths)},
        **summarise_phases([rank["phases"] for rank in turns[middle]], steps, lengths[middle]),
    }


def summarise_phases(taken: Sequence[Mapping[str, float]], steps: int, step_s: float) -> dict[str, dict[str, float]]:
    """{phases, communication}: seconds of a step of `step_s`, means over `taken`: of `Clock.take` after `steps`
    steps, for each worker (and turn). What no phase has is "other"."""
    phases = {name: statistics.fmean(seconds[name] for seconds in taken) / steps for name in (*PHASES, OVERLAPPED)}
    overlapped_s = phases.pop(OVERLAPPED)
    phases["other"] += max(0.0, step_s - sum(phases.values()))
    return {"phases": phases, "communication": split_communication(phases, overlapped_s)}
