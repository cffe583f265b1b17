"""What a run leaves behind: each rank's times gathered at every stop, evaluations, checkpoints; events by rank 0."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import torch

from repro.core.errors import Diverged, FaultError
from repro.core.processes import say
from repro.data.base import Dataset, Samples
from repro.data.readers.sequences import Sequences
from repro.rank import memory
from repro.rank.checkpoints import KEPT_ALONE, Checkpoints
from repro.rank.divergence import Broken, diverged, first_loss, first_tensor, tensors
from repro.records.events import EventLog, read_events
from repro.strategies.base import StepReport, Strategy
from repro.training.cuda_timer import Mark
from repro.training.evaluation.evaluate import Sharing, digest, digests, evaluate, evaluate_training
from repro.training.worker import Worker

SIGN_OF_LIFE_S = 5.0  # the parent ends ranks of which it hears nothing for long


class RunLog:
    """One per rank; only rank 0 has an event log. Everything but `step` runs with the training clock paused."""

    def __init__(
        self,
        worker: Worker,
        strategy: Strategy,
        model_for_evaluation: torch.nn.Module,
        dataset: Dataset,
        checkpoints: Checkpoints,
        events: EventLog | None,
        trace_steps: int,
        eval_train: int = 0,
    ):
        """`eval_train`: so many samples of the training split are evaluated too, every time."""
        self.worker, self.strategy, self.model, self.dataset = worker, strategy, model_for_evaluation, dataset
        self.checkpoints, self.events, self.trace_steps = checkpoints, events, trace_steps
        self.eval_train = eval_train
        self.staleness: Counter[int] = Counter()  # of this rank's gradients, since the run began
        self.losses: list[torch.Tensor] = []
        self.laps: list[tuple[float | Mark, float | Mark]] = []  # steps whose lengths were not asked for yet
        self.step_s: list[float] = []
        self.bytes_before, self.train_before = worker.fabric.bytes_sent, 0.0
        self.final_digest = ""
        self.said = time.perf_counter()
        self.iteration, self.train_s = 0, 0.0
        self.loss: float | None = None
        self.phases: Counter[str] = Counter()  # seconds since the last stop, up to a checkpoint in between
        self.unlogged = False  # whether the checkpoint that the run went on from came before the stop at its iteration

    # --- during training
    def step(self, step: Callable[[], StepReport]) -> None:
        """One step, timed on this rank's training clock."""
        began = self.worker.clock.point()
        report = step()
        self.laps.append((began, self.worker.clock.point()))
        self.staleness.update(report.staleness)
        if report.loss is not None:
            self.losses.append(report.loss)
        if self.events and time.perf_counter() - self.said > SIGN_OF_LIFE_S:
            self.said = time.perf_counter()
            each = max(1, self.strategy.steps(self.worker.workers))  # steps of an iteration on this rank
            say("step", iteration=self.iteration + (len(self.step_s) + len(self.laps)) // each)

    # --- with the clock paused
    def stop(self, iteration: int) -> None:
        """Gather what every rank did since the last stop; Diverged, on every rank, if one has anything not finite."""
        fabric, clock = self.worker.fabric, self.worker.clock
        phases = self._taken()
        typical = statistics.median(self.step_s) if self.step_s else 0.0
        losses = self._losses()
        mine = {
            "iteration": iteration,
            "server": self.worker.is_server,
            "train_s": clock.train_s(),
            "since_s": clock.train_s() - self.train_before,
            "phases": phases,
            "bytes": fabric.bytes_sent - self.bytes_before,
            "loss": losses.mean().item() if self.losses else None,
            "trace": clock.middle(self.trace_steps * typical) if self.trace_steps else [],
            "staleness": dict(self.staleness),
            "counters": {name: float(total) for name, total in self.strategy.counters().items()},
            "broken": self._broken(iteration, losses),
        }
        if self.worker.blocks is None:  # simulated ranks share a process
            mine["peak_bytes"] = memory.peak_bytes(self.worker.model_shard.device)
        self.bytes_before, self.train_before = fabric.bytes_sent, clock.train_s()
        with clock.activity("synchronisation"):
            self.ranks = fabric.exchange(mine)
        if len(found := {rank["iteration"] for rank in self.ranks}) > 1:
            raise FaultError(f"ranks have stopped at different iterations: {sorted(found)}")
        if any(rank["broken"] for rank in self.ranks):
            raise self._diverged(iteration)
        self.iteration, self.train_s = iteration, max(rank["train_s"] for rank in self.ranks)
        if self.events:
            self._write_steps(self.events)
        self.losses.clear()
        self.step_s.clear()
        self.phases.clear()

    def _losses(self) -> torch.Tensor:
        """Those of this rank's steps since the last stop, in float64."""
        return torch.stack(self.losses).double().cpu() if self.losses else torch.empty(0)

    def _broken(self, iteration: int, losses: torch.Tensor) -> Broken | None:
        """What of this rank is not finite at a stop, as `losses` or as anything that a checkpoint would hold."""
        if not self.worker.arithmetic:
            return None
        step, place = None, first_loss(losses.tolist())
        if place is not None:
            step = self._iteration_of(iteration, len(losses) - place)
        state = chain(self.worker.model_shard.tensors(), tensors(self.strategy.state_dict()))
        found = Broken(self.worker.rank, step, first_tensor(state))
        return found if found.step or found.name else None

    def _iteration_of(self, iteration: int, nth_last: int) -> int:
        """The iteration of this rank's so-manieth last step up to `iteration`."""
        step = self.steps_until(iteration) - nth_last + 1
        while iteration > 1 and self.steps_until(iteration - 1) >= step:
            iteration -= 1
        return iteration

    def _diverged(self, iteration: int) -> Diverged:
        """What all ranks end with, once one has found something; the weights' names, also where servers hold them."""
        mine = self.ranks[self.worker.rank]["broken"] or Broken(self.worker.rank, None, None)
        name = first_tensor(self.strategy.eval_weights().items()) or mine.name
        return diverged(self.worker.fabric.exchange(replace(mine, name=name)), iteration)

    def _taken(self) -> dict[str, float]:
        """Phase seconds since the last stop; steps have their lengths."""
        self.step_s += self.worker.clock.between(self.laps)
        self.laps.clear()
        self.phases.update(self.worker.clock.take())
        return dict(self.phases)

    def _write_steps(self, events: EventLog) -> None:
        losses = [rank["loss"] for rank in self.ranks if rank["loss"] is not None]
        self.loss = statistics.fmean(losses) if losses else None
        events.append(
            "steps",
            iteration=self.iteration,
            n=len(self.step_s),
            train_s=self.train_s,
            loss=self.loss,
            step_s=sorted(self.step_s),
            workers=_sums([rank for rank in self.ranks if not rank["server"]]),
            servers=_sums([rank for rank in self.ranks if rank["server"]]),
            bytes_sent=sum(rank["bytes"] for rank in self.ranks) / len(self.ranks),
            counters=_totals([rank["counters"] for rank in self.ranks]),
            **_histograms([rank["staleness"] for rank in self.ranks]),
            **(
                {"peak_bytes": peaks}
                if (peaks := [rank["peak_bytes"] for rank in self.ranks if "peak_bytes" in rank])
                else {}
            ),
        )
        trace = [
            {"rank": rank, **{name: value for name, value in interval._asdict().items() if value is not None}}
            for rank, said in enumerate(self.ranks)
            for interval in said["trace"]
        ]
        if trace:
            events.append("trace", iteration=self.iteration, intervals=trace)

    def evaluate(self, iteration: int) -> None:
        """Test the snapshot of rank 0, to which weights that it lacks come from the ranks that hold them; on all
        workers where it can be shared: they would wait for rank 0 alone for longer than they do for a message."""
        with self.worker.clock.activity("evaluation"):
            scores = {}
            if self.worker.arithmetic:
                weights, sharing = self._shared(self._whole_model(self.strategy.eval_weights()))
                if self.events or sharing:
                    of = self.worker.model_shard.device
                    scores = evaluate(self.model, weights, self.dataset.test, of, sharing)
                    if not math.isfinite(scores["test_loss"]):
                        raise Diverged(f"diverged: the test loss is not finite after step {iteration}")
                    if count := self.eval_train:
                        scores |= evaluate_training(self.model, weights, self.dataset.train, of, count, sharing)
                if self.events:
                    self.final_digest = digest(weights)
            if not self.events:
                return
        epoch = iteration / self.worker.iterations_per_epoch
        self.events.append(
            "evaluation",
            iteration=iteration,
            epoch=epoch,
            train_s=self.train_s,
            wall_s=sum(self.worker.clock.wall.values()),
            loss=self.loss,
            **scores,
        )
        self.events.flush()
        say("progress", iteration=iteration, epoch=epoch, train_s=self.train_s, **scores)

    def _whole_model(self, mine: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        held = self.worker.fabric.exchange(sorted(mine))
        have = set(held[0])
        wanted: dict[int, list[str]] = {}  # rank -> the names that it ships: the lowest rank that holds each
        for rank, names in enumerate(held):
            wanted[rank] = [name for name in names if name not in have]
            have.update(names)
        if not any(wanted.values()):
            return mine
        shipped = self.worker.fabric.exchange({name: mine[name].cpu() for name in wanted[self.worker.rank]})
        return {name: tensor for part in [*reversed(shipped), mine] for name, tensor in part.items()}

    def _shared(self, mine: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], Sharing | None]:
        """What is evaluated, and how: by all workers, each a part, with rank 0's weights to the bit, which those that
        hold others are sent. By rank 0 alone, and None, where ranks have no core or GPU of their own for it, or a model
        carries something from one minibatch to the next."""
        worker, dataset = self.worker, self.dataset
        real = worker.blocks is None and worker.workers > 1
        if not real or getattr(dataset.test, "scored", False) or not isinstance(dataset.test, Samples | Sequences):
            return mine, None
        fabric, device = worker.fabric, worker.model_shard.device
        said = fabric.exchange((worker.model_shard.stateful, digests(mine)))
        if any(stateful for stateful, _ in said):
            return mine, None
        own = said[0][1]  # by the name
        lacking = {name for name in own for _, held in said if held.get(name) != own[name]}
        weights, empty, sent = {}, self.model.state_dict(), fabric.bytes_sent
        for name in own:
            weights[name] = mine[name] if fabric.rank == 0 or name not in lacking else torch.empty_like(empty[name])
            if name in lacking:
                weights[name] = weights[name].to(device)
                fabric.broadcast(weights[name])
        fabric.bytes_sent = sent  # training's alone
        return weights, Sharing(worker.rank, worker.workers, fabric.exchange)

    def checkpoint(self, iteration: int) -> None:
        """Every rank saves all that it needs to go on; the old ones go when all have the new."""
        worker = self.worker
        with worker.clock.activity("checkpoint"):
            self._sync_events()
            self.checkpoints.save(iteration, self._state())
            worker.fabric.exchange(None)
            self.checkpoints.prune()
        if self.events:
            self.events.append("checkpoint", iteration=iteration)
            self.events.flush()

    def checkpoint_alone(self, iteration: int) -> None:
        """This rank saves all that it needs to go on, without a word to the others, which do so when they come here.

        Before the stop of the same iteration: what the rank did since the last one is saved with it. A rank that finds
        that it has diverged ends the run by itself.
        """
        with self.worker.clock.activity("checkpoint"):
            if broken := self._broken(iteration, self._losses()):
                raise diverged([broken], iteration)
            since = {
                "phases": self._taken(),
                "losses": [loss.cpu() for loss in self.losses],
                "step_s": list(self.step_s),
                "bytes_before": self.bytes_before,
                "train_before": self.train_before,
            }
            self._sync_events()
            self.checkpoints.save(iteration, self._state() | {"since": since})
            self.checkpoints.prune(KEPT_ALONE)
        if self.events:
            self.events.append("checkpoint", iteration=iteration)
            self.events.flush()

    def _sync_events(self) -> None:
        """Before a checkpoint: all that it stands on is in the log on the disk.

        Others than rank 0 need not wait for that: their checkpoints count for nothing without rank 0's.
        """
        if self.events:
            self.events.sync()

    def _state(self) -> dict[str, Any]:
        worker, strategy = self.worker, self.strategy.state_dict()  # which may still update the part
        return {
            "part": worker.model_shard.state_dict(),
            "strategy": strategy,
            "clock": worker.clock.state_dict(),
            "bytes_sent": worker.fabric.bytes_sent,
            "staleness": dict(self.staleness),
        }

    def steps_until(self, iteration: int) -> int:
        """How many steps this rank has taken at the end of an iteration."""
        return self.strategy.steps(iteration * self.worker.workers)

    def restore(self, iteration: int, state: dict[str, Any]) -> None:
        """Take up what `_state` was at an iteration."""
        self.worker.model_shard.load_state_dict(state["part"])
        self.strategy.load_state_dict(state["strategy"])
        self.worker.clock.load_state_dict(state["clock"])
        self.worker.fabric.bytes_sent = self.bytes_before = state["bytes_sent"]
        self.train_before = self.worker.clock.train_s()
        self.staleness = Counter(state["staleness"])
        self.iteration = iteration
        if since := state.get("since"):
            self._take_up(iteration, since)
        if self.events:
            self.events.append("resume", iteration=iteration)
            self.events.flush()

    def _take_up(self, iteration: int, since: dict[str, Any]) -> None:
        """Go on with what was done before a checkpoint of `checkpoint_alone`, unless the log has it."""
        logged = self.events is not None and any(
            event["event"] == "steps" and event["iteration"] == iteration for event in read_events(self.events.path)
        )
        self.unlogged = not self.worker.fabric.exchange(logged)[0]
        if self.unlogged:
            self.phases.update(since["phases"])
            device = self.worker.model_shard.device
            self.losses = [loss.to(device) for loss in since["losses"]]
            self.step_s = list(since["step_s"])
            self.bytes_before, self.train_before = since["bytes_before"], since["train_before"]

    def resume_together(self) -> None:
        """Nobody's training clock runs while another is still at its evaluation."""
        if self.events:
            self.events.flush()
        with self.worker.clock.activity("synchronisation"):
            self.worker.fabric.exchange(None)
        memory.forget(self.worker.model_shard.device)


def _sums(ranks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Means over ranks of what they did since the last stop: phase seconds (with "other"), overlapped seconds."""
    if not ranks:
        return None
    phases = {name: statistics.fmean(rank["phases"][name] for rank in ranks) for name in ranks[0]["phases"]}
    overlapped = phases.pop("overlapped")
    since = statistics.fmean(rank["since_s"] for rank in ranks)
    phases["other"] += max(0.0, since - sum(phases.values()))
    return {"phases": phases, "overlapped": overlapped}


def _histograms(ranks: list[dict[int, int]]) -> dict[str, list[dict[str, int]]]:
    """How stale each rank's gradients were so far, for an event; nothing where no strategy's step said it."""
    if not any(ranks):
        return {}
    return {"staleness": [{str(rounds): count for rounds, count in sorted(rank.items())} for rank in ranks]}


def _totals(counters: list[dict[str, float]]) -> dict[str, float]:
    """Sums over the ranks, by name."""
    names = dict.fromkeys(name for of_rank in counters for name in of_rank)
    return {name: math.fsum(of_rank.get(name, 0.0) for of_rank in counters) for name in names}
