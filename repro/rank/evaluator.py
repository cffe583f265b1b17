"""Evaluates the weights of rank 0 on the test split, on all workers if they have cores or GPUs of their own."""

from __future__ import annotations

import math

import torch

from repro.core.errors import Diverged
from repro.core.processes import print_event
from repro.data.base import Dataset, Samples
from repro.data.readers.sequences import Sequences
from repro.records.events import EventLog
from repro.strategies.base import Strategy
from repro.training.evaluation.evaluate import (
    Sharing,
    evaluate_training,
    evaluate_weights,
    tensor_digests,
    weights_digest,
)
from repro.training.worker import Worker

Weights = dict[str, torch.Tensor]


class Evaluator:
    """One per rank; only rank 0 has `events`.

    model       loads the snapshots that are evaluated
    eval_train  the number of training samples to evaluate too
    digest      the SHA-256 of the weights of the last evaluation, on rank 0
    """

    def __init__(
        self,
        worker: Worker,
        strategy: Strategy,
        model: torch.nn.Module,
        dataset: Dataset,
        events: EventLog | None,
        eval_train: int = 0,
    ):
        self.worker, self.strategy, self.model, self.dataset = worker, strategy, model, dataset
        self.events, self.eval_train = events, eval_train
        self.digest = ""

    def evaluate(self, iteration: int, train_s: float, loss: float | None) -> None:
        """Evaluate rank 0's snapshot, completed by the weights that only other ranks hold. The training clock is
        paused. train_s, loss: training time and loss so far, for the event."""
        with self.worker.clock.activity("evaluation"):
            scores = self._scores(iteration) if self.worker.arithmetic else {}
        if not self.events:
            return
        epoch = iteration / self.worker.iterations_per_epoch
        wall_s = sum(self.worker.clock.wall.values())
        at = {"iteration": iteration, "epoch": epoch, "train_s": train_s}
        self.events.append("evaluation", **at, wall_s=wall_s, loss=loss, **scores)
        self.events.flush()
        print_event("progress", **at, **scores)

    def _scores(self, iteration: int) -> dict[str, float]:
        weights, sharing = self._shared(self._whole_model(self.strategy.eval_weights()))
        scores: dict[str, float] = {}
        if self.events or sharing:
            device, simulated = self.worker.model_shard.device, self.worker.blocks is not None
            how = device, sharing, simulated and device.type == "cpu"  # the other ranks need no core meanwhile
            scores = evaluate_weights(self.model, weights, self.dataset.test, *how)
            if not math.isfinite(scores["test_loss"]):
                raise Diverged(f"diverged: the test loss is not finite after step {iteration}")
            if count := self.eval_train:
                scores |= evaluate_training(self.model, weights, self.dataset.train, device, count, *how[1:])
        if self.events:
            self.digest = weights_digest(weights)
        return scores

    def _whole_model(self, mine: Weights) -> Weights:
        fabric = self.worker.fabric
        names_of_ranks = fabric.exchange(sorted(mine))
        present = set(names_of_ranks[0])
        to_send: list[list[str]] = []  # the names that each rank sends; the lowest rank that holds a tensor sends it
        for names in names_of_ranks:
            to_send.append([name for name in names if name not in present])
            present.update(names)
        if not any(to_send):
            return mine
        received = fabric.exchange({name: mine[name].cpu() for name in to_send[self.worker.rank]})
        return {name: tensor for part in [*reversed(received), mine] for name, tensor in part.items()}

    def _shared(self, mine: Weights) -> tuple[Weights, Sharing | None]:
        """The weights to evaluate, and how workers share the evaluation: each evaluates a part with exactly rank 0's
        weights, which are broadcast if a rank's differ. None: rank 0 evaluates alone, because ranks have no core or GPU
        of their own, or the model carries state from one minibatch to the next."""
        worker, dataset = self.worker, self.dataset
        real = worker.blocks is None and worker.workers > 1
        if not real or getattr(dataset.test, "scored", False) or not isinstance(dataset.test, Samples | Sequences):
            return mine, None
        fabric, device = worker.fabric, worker.model_shard.device
        states = fabric.exchange((worker.model_shard.stateful, tensor_digests(mine)))
        if any(stateful for stateful, _ in states):
            return mine, None
        wanted = states[0][1]  # rank 0's: name -> digest
        differing = {name for name in wanted for _, digest_of in states if digest_of.get(name) != wanted[name]}
        weights, empty, bytes_sent = {}, self.model.state_dict(), fabric.bytes_sent
        for name in wanted:
            weights[name] = mine[name] if fabric.rank == 0 or name not in differing else torch.empty_like(empty[name])
            if name in differing:
                weights[name] = weights[name].to(device)
                fabric.broadcast(weights[name])
        fabric.bytes_sent = bytes_sent  # counts training only
        return weights, Sharing(worker.rank, worker.workers, fabric.exchange)
