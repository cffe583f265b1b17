"""Evaluation of a snapshot of the weights on a split; training state is not touched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from repro.data.base import AnySplit
from repro.data.readers.text import IGNORED
from repro.training.evaluation import metrics
from repro.training.evaluation.metrics import TOP
from repro.training.losses import mean_squared_error
from repro.training.model_shard import reset_state

TRAINING_SEED = 0  # draws the part of the training samples that is evaluated, the same one in every run


class Sharing(NamedTuple):
    """How ranks with the same weights share an evaluation: this one's place, their number, and an exchange of objects
    among all ranks, in rank order. Ranks behind them (servers) take no part, but have the result."""

    rank: int
    ranks: int
    exchange: Callable[[Any], list[Any]]

    def of(self, split: AnySplit) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """The pieces of a split that are this rank's."""
        return split.in_order(self.rank, self.ranks) if self.rank < self.ranks else ()


@torch.no_grad()
def evaluate(
    model: nn.Module,
    weights: Mapping[str, torch.Tensor],
    split: AnySplit,
    device: torch.device,
    sharing: Sharing | None = None,
) -> dict[str, float]:
    """`test_loss` and the metrics of a split, of a model of its own with these weights.

    Classes: mean cross-entropy, `top1` and, of more than five classes, `top5` (fractions). Text: those of its words,
    and `perplexity`, e to the mean cross-entropy (infinite where that is too large a number). Captions: those of text,
    and `meteor` of what the model says of the split's first clips. Regression: the mean squared error is both the loss
    and `mse`. Labels IGNORED count nowhere.

    Batch norm uses the running statistics among the weights: those of the rank whose snapshot it is (rank 0).
    What a model carries from one minibatch to the next starts at zero with the split.

    sharing: each rank takes every n-th piece of the split, and all have the result: the pieces' sums are added in
    the pieces' order, so that it is to the bit that of one rank alone. Not for a model that carries something.
    """
    model.load_state_dict(weights)
    model.to(device).eval()
    reset_state(model)
    of_piece = _errors if split.task == "regression" else _classes
    found = []
    for piece in sharing.of(split) if sharing else split.in_order():
        x, labels = (tensor.to(device) for tensor in piece)
        found.append(of_piece(model(x), labels))
    reset_state(model)
    if sharing:
        shares = sharing.exchange(found)
        found = [share[turn] for turn in range(len(shares[0])) for share in shares if turn < len(share)]
    totals: dict[str, float] = {}
    for sums in found:
        for name, value in sums.items():
            totals[name] = totals.get(name, 0) + value
    counted = totals.pop("counted")
    scores = {name: total / counted for name, total in totals.items()}
    if split.task == "regression":
        scores["mse"] = scores["test_loss"]
    if split.task == "text":
        scores["perplexity"] = torch.tensor(scores["test_loss"], dtype=torch.float64).exp().item()
    if getattr(split, "scored", 0):
        for name, module in metrics.modules(split.task, split.kind).items():
            scores[name] = import_module(module).score(model, split, device)
    return scores


def evaluate_training(
    model: nn.Module,
    weights: Mapping[str, torch.Tensor],
    split: AnySplit,
    device: torch.device,
    samples: int,
    sharing: Sharing | None = None,
) -> dict[str, float]:
    """The metrics of `evaluate` on `count` training samples (of text: words), named `train_top1` and so on.

    They are drawn once for all from a seed of their own, so every evaluation of every run has the same ones.
    """
    scores = evaluate(model, weights, split.subset(samples, TRAINING_SEED), device, sharing)
    return {f"train_{name}": score for name, score in scores.items() if name != "test_loss"}


def _classes(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    found = {
        "test_loss": functional.cross_entropy(logits, labels, reduction="sum", ignore_index=IGNORED).item(),
        "top1": (logits.argmax(1) == labels).sum().item(),
        "counted": (labels != IGNORED).sum().item(),
    }
    if logits.shape[1] > TOP:
        found["top5"] = (logits.topk(TOP, 1).indices == labels.unsqueeze(1)).sum().item()
    return found


def _errors(outputs: torch.Tensor, values: torch.Tensor) -> dict[str, float]:
    return {"test_loss": mean_squared_error(outputs, values, "sum").item(), "counted": len(values)}


def digest(weights: Mapping[str, torch.Tensor]) -> str:
    """sha256 over all tensors by name: equal if and only if the weights are, bit for bit."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(_bytes(weights[name]))
    return total.hexdigest()


def digests(weights: Mapping[str, torch.Tensor]) -> dict[str, bytes]:
    """sha256 of each tensor."""
    return {name: hashlib.sha256(_bytes(tensor)).digest() for name, tensor in weights.items()}


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
