"""A strategy's steps as they are: seconds, phases and communication in the steady middle of short runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repro.core.phases import PHASES
from repro.fabric.base import Fabric
from repro.strategies.base import Strategy
from repro.training.worker import Worker


def advance(strategy: Strategy, first: int, last: int) -> None:
    """Iterations first to last - 1."""
    workers = strategy.worker.workers
    for _ in range(strategy.steps(first * workers), strategy.steps(last * workers)):
        strategy.step()


def groups(fabric: Fabric, strategies: Iterable[Strategy], workers: int) -> dict[int, Fabric | None]:
    """Ranks that some strategy needs, or the workers -> a fabric over the first so many of them."""
    needs = {workers} | {strategy.ranks(strategy.options, workers) for strategy in strategies}
    return {n: fabric if n == fabric.size else fabric.subgroup(range(n)) for n in sorted(needs)}


def observe(fabric: Fabric, strategy: Strategy, worker: Worker, warmup: int, steps: int) -> list[dict[str, Any]]:
    """What each worker did in a stretch of `steps` iterations of a fresh run, after `warmup` that do not count.

    {total, phases}, seconds. Every rank of `fabric`, servers included, calls it. The pipeline is full at both ends of
    the stretch, so neither its fill nor its drain is in the numbers.
    """
    worker.iterations = warmup + steps + warmup  # the last of them in `drain`, of strategies that know where a run ends
    strategy.setup(worker)
    clock, marks = worker.clock, []
    fabric.exchange(None)
    clock.start()
    for start, until in ((0, warmup), (warmup, warmup + steps)):
        clock.take()
        advance(strategy, start, until)
        with clock.paused():  # waits for the device
            marks.append(clock.train_s())
    mine = {"server": worker.is_server, "total": marks[1] - marks[0], "phases": clock.take()}
    strategy.drain()
    strategy.settle()
    strategy.close()
    return [rank for rank in fabric.exchange(mine) if not rank["server"]]


def summarise(turns: Sequence[Sequence[Mapping[str, Any]]], steps: int) -> dict[str, Any]:
    """{steps, observed_s {median, min, max}, phases, communication}: seconds a step, means over the workers.

    The median turn's phases, so that they sum to the median step.
    """
    lengths = [statistics.fmean(rank["total"] for rank in workers) / steps for workers in turns]
    middle = sorted(range(len(turns)), key=lengths.__getitem__)[len(turns) // 2]
    phases = {
        name: statistics.fmean(rank["phases"][name] for rank in turns[middle]) / steps
        for name in (*PHASES, "overlapped")
    }
    hidden = phases.pop("overlapped")
    phases["other"] += max(0.0, lengths[middle] - sum(phases.values()))
    exposed = phases["communicate"]
    return {
        "steps": steps * len(turns),
        "observed_s": {"median": lengths[middle], "min": min(lengths), "max": max(lengths)},
        "phases": phases,
        "communication": {"total_s": exposed + hidden, "exposed_s": exposed, "overlapped_s": hidden},
    }
