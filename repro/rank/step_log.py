"""Measures each rank's steps; at every stop of a run rank 0 writes those of all ranks into the event log."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from repro.core.errors import Diverged, FaultError, InputError
from repro.core.phases import OVERLAPPED
from repro.core.processes import print_event
from repro.rank import meters
from repro.rank.divergence import NonFinite, divergence_error, find_nonfinite, first_tensor
from repro.rank.meters import CoreMeter, CoreTimes, cpu_taken
from repro.records.events import EventLog
from repro.strategies.base import StepReport, Strategy, describe_method
from repro.training.clock import Interval
from repro.training.cuda_timer import Mark
from repro.training.first_updates import describe_undivided
from repro.training.worker import Worker

SIGN_OF_LIFE_S = 5.0  # interval of messages to the parent, which ends ranks that are silent for long


@dataclass(frozen=True)
class RankSteps:
    """The message of one rank to the others at a stop.

    since_s, phases, bytes, loss (mean over its steps; None without any), trace   since the last stop
    train_s, staleness (rounds -> gradients), counters, peak_bytes   since the run began
    first_updates   ratios of the run's first updates, which are large if sums were not divided
    nonfinite   values that are not finite
    peak_bytes  of memory; None if ranks share a process
    cores       since the last stop; None if they are not measured
    """

    iteration: int
    server: bool
    train_s: float
    since_s: float
    phases: dict[str, float]
    bytes: int
    loss: float | None
    trace: list[Interval]
    staleness: dict[int, int]
    counters: dict[str, float]
    first_updates: dict[str, list[float]]
    nonfinite: NonFinite | None
    peak_bytes: int | None
    cores: CoreTimes | None


class StepLog:
    """One per rank; only rank 0 has `events`. The training clock is paused in all methods but `step`.

    iteration, train_s, loss   of the last stop; loss: on rank 0
    core_meter   None: the CPU time that others take is not measured
    unlogged   whether the run resumed from a checkpoint that was written before the stop at its iteration
    """

    def __init__(self, worker: Worker, strategy: Strategy, events: EventLog | None, trace_steps: int):
        self.worker, self.strategy, self.events, self.trace_steps = worker, strategy, events, trace_steps
        self.staleness: Counter[int] = Counter()
        self.losses: list[torch.Tensor] = []
        self.unread: list[
            tuple[float | Mark, float | Mark]
        ] = []  # start and end of steps whose lengths are not read yet
        self.step_s: list[float] = []
        self.phases: Counter[str] = Counter()
        self.bytes_before, self.train_before = worker.fabric.bytes_sent, 0.0
        self.iteration, self.train_s = 0, 0.0
        self.loss: float | None = None
        self.unlogged = False
        self.warned: set[str] = set()
        self.reported_s = time.perf_counter()
        self.core_meter: CoreMeter | None = None

    def step(self, step: Callable[[], StepReport]) -> None:
        """Run one step, timed on this rank's training clock."""
        began = self.worker.clock.point()
        report = step()
        if not isinstance(report, StepReport):
            raise InputError(f"{describe_method(self.strategy, 'step')} must return a StepReport, not {report!r:.60}")
        self.unread.append((began, self.worker.clock.point()))
        self.staleness.update(report.staleness)
        if report.loss is not None:
            self.losses.append(report.loss)
        if self.events and time.perf_counter() - self.reported_s > SIGN_OF_LIFE_S:
            self.reported_s = time.perf_counter()
            per_iteration = max(1, self.strategy.steps(self.worker.workers))  # steps of this rank
            print_event("step", iteration=self.iteration + (len(self.step_s) + len(self.unread)) // per_iteration)

    def stop(self, iteration: int) -> None:
        """Gather the steps of all ranks since the last stop; Diverged on every rank if one has values not finite."""
        fabric, clock = self.worker.fabric, self.worker.clock
        mine = self._since_last_stop(iteration)
        self.bytes_before, self.train_before = fabric.bytes_sent, clock.train_s()
        with clock.activity("synchronisation"):
            ranks = fabric.exchange(mine)
        self._warn_undivided(ranks)
        if len(iterations := {rank.iteration for rank in ranks}) > 1:
            raise FaultError(f"ranks have stopped at different iterations: {sorted(iterations)}")
        if any(rank.nonfinite for rank in ranks):
            raise self._diverged(iteration, mine.nonfinite)
        self.iteration, self.train_s = iteration, max(rank.train_s for rank in ranks)
        if self.events:
            self._write(self.events, ranks)
        self.losses.clear()
        self.step_s.clear()
        self.phases.clear()

    def _since_last_stop(self, iteration: int) -> RankSteps:
        worker, clock = self.worker, self.worker.clock
        phases, losses = self._measure(), stack_losses(self.losses)
        typical = statistics.median(self.step_s) if self.step_s else 0.0
        return RankSteps(
            iteration=iteration,
            server=worker.is_server,
            train_s=clock.train_s(),
            since_s=clock.train_s() - self.train_before,
            phases=phases,
            bytes=worker.fabric.bytes_sent - self.bytes_before,
            loss=losses.mean().item() if self.losses else None,
            trace=clock.middle(self.trace_steps * typical) if self.trace_steps else [],
            staleness=dict(self.staleness),
            counters={name: float(total) for name, total in self.strategy.counters().items()},
            first_updates=worker.first_updates.ratios(),
            nonfinite=find_nonfinite(worker, self.strategy, iteration, losses.tolist()),
            peak_bytes=meters.peak_bytes(worker.model_shard.device) if worker.blocks is None else None,
            cores=self.core_meter.since_last() if self.core_meter else None,
        )

    def _measure(self) -> dict[str, float]:
        """Read the lengths of the latest steps; returns phase seconds since the last stop."""
        self.step_s += self.worker.clock.between(self.unread)
        self.unread.clear()
        self.phases.update(self.worker.clock.take())
        return dict(self.phases)

    def _diverged(self, iteration: int, mine: NonFinite | None) -> Diverged:
        """The common error of all ranks. It names weights by the model's names, also for servers' shards."""
        mine = mine or NonFinite(self.worker.rank, None, None)
        name = first_tensor(self.strategy.eval_weights().items()) or mine.name
        return divergence_error(self.worker.fabric.exchange(replace(mine, name=name)), iteration)

    def _write(self, events: EventLog, ranks: Sequence[RankSteps]) -> None:
        losses = [rank.loss for rank in ranks if rank.loss is not None]
        self.loss = statistics.fmean(losses) if losses else None
        peaks = [rank.peak_bytes for rank in ranks if rank.peak_bytes is not None]
        stale = [{str(rounds): count for rounds, count in sorted(rank.staleness.items())} for rank in ranks]
        taken = cpu_taken([rank.cores for rank in ranks])
        counters = dict.fromkeys(name for rank in ranks for name in rank.counters)
        events.append(
            "steps",
            iteration=self.iteration,
            n=len(self.step_s),
            train_s=self.train_s,
            loss=self.loss,
            step_s=sorted(self.step_s),
            workers=_means([rank for rank in ranks if not rank.server]),
            servers=_means([rank for rank in ranks if rank.server]),
            bytes_sent=sum(rank.bytes for rank in ranks) / len(ranks),
            counters={name: math.fsum(rank.counters.get(name, 0.0) for rank in ranks) for name in counters},
            **({"staleness": stale} if any(stale) else {}),
            **({"peak_bytes": peaks} if peaks else {}),
            **({"cpu_taken": taken.model_dump()} if taken else {}),
        )
        trace = [
            {"rank": number, **{name: value for name, value in interval._asdict().items() if value is not None}}
            for number, rank in enumerate(ranks)
            for interval in rank.trace
        ]
        if trace:
            events.append("trace", iteration=self.iteration, intervals=trace)

    def _warn_undivided(self, ranks: Sequence[RankSteps]) -> None:
        """Warn once, on the screen and in the record, of sums over workers that were not divided."""
        if not self.events:
            return
        lines = describe_undivided([rank.first_updates for rank in ranks], self.worker.workers)
        for what, line in lines.items():
            if what not in self.warned:
                self.warned.add(what)
                self.events.append("warning", line=line)
                self.events.flush()  # the run may diverge now
                print_event("note", line=line)

    def unfinished(self) -> dict[str, Any]:
        """The measurements since the last stop, for a checkpoint before the next."""
        return {
            "phases": self._measure(),
            "losses": [loss.cpu() for loss in self.losses],
            "step_s": list(self.step_s),
            "bytes_before": self.bytes_before,
            "train_before": self.train_before,
        }

    def restore(self, iteration: int, staleness: dict[int, int], unfinished: dict[str, Any] | None) -> None:
        """Restore a checkpoint's values, after worker and strategy; unfinished: measurements not logged at a stop."""
        self.iteration, self.staleness = iteration, Counter(staleness)
        self.bytes_before, self.train_before = self.worker.fabric.bytes_sent, self.worker.clock.train_s()
        self.unlogged = unfinished is not None
        if unfinished is not None:
            device = self.worker.model_shard.device
            self.phases.update(unfinished["phases"])
            self.losses = [loss.to(device) for loss in unfinished["losses"]]
            self.step_s = list(unfinished["step_s"])
            self.bytes_before, self.train_before = unfinished["bytes_before"], unfinished["train_before"]


def stack_losses(losses: Sequence[torch.Tensor]) -> torch.Tensor:
    """The losses of single steps as one tensor, float64 on the host."""
    return torch.stack(list(losses)).double().cpu() if losses else torch.empty(0)


def _means(ranks: Sequence[RankSteps]) -> dict[str, Any] | None:
    """Means over ranks since the last stop: phase seconds (with "other"), overlapped seconds; None without ranks."""
    if not ranks:
        return None
    phases = {name: statistics.fmean(rank.phases[name] for rank in ranks) for name in ranks[0].phases}
    overlapped = phases.pop(OVERLAPPED)
    since = statistics.fmean(rank.since_s for rank in ranks)
    phases["other"] += max(0.0, since - sum(phases.values()))
    return {"phases": phases, OVERLAPPED: overlapped}
