"""Evaluates a snapshot of weights on a split; training state is unchanged."""

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
from repro.training.model_shard import carries_state, reset_state
from repro.training.optimizers import mean_squared_error
from repro.training.side_by_side import map_on_threads

TRAINING_SEED = 0  # draws the training samples that are evaluated, the same ones in every run


class Sharing(NamedTuple):
    """How `ranks` ranks with the same weights share an evaluation. `exchange` gathers an object from all ranks, in rank
    order. Servers, whose ranks are `ranks` or more, only receive the result."""

    rank: int
    ranks: int
    exchange: Callable[[Any], list[Any]]

    def of(self, split: AnySplit) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """This rank's pieces of a split."""
        return split.in_order(self.rank, self.ranks) if self.rank < self.ranks else ()


@torch.no_grad()
def evaluate_weights(
    model: nn.Module,
    weights: Mapping[str, torch.Tensor],
    split: AnySplit,
    device: torch.device,
    sharing: Sharing | None = None,
    on_threads: bool = False,
) -> dict[str, float]:
    """`test_loss` and the metrics of a split, for a model into which the weights are loaded.

    Classification: mean cross-entropy, `top1` and, of more than five classes, `top5` (fractions). Text: the same over
    words, and `perplexity`, e to the mean cross-entropy (infinity on overflow). Captions: the same as text, and
    `meteor` of decoded captions. Regression: the mean squared error, as `test_loss` and as `mse`. Labels IGNORED are
    left out.

    Batch norm uses the running statistics among the weights. State carried between minibatches starts at zero.

    sharing: each rank evaluates every n-th piece of the split, and all get the result. The sums of pieces are added in
    the pieces' order, so it equals one rank's result bit for bit. Not for a model that carries state.

    on_threads: evaluate several pieces at the same time, unless the model carries state; the same bits.
    """
    model.load_state_dict(weights)
    model.to(device).eval()
    reset_state(model)
    sums_of = _errors if split.task == "regression" else _classes

    @torch.no_grad()  # a thread's own mode
    def evaluate_piece(piece: tuple[torch.Tensor, torch.Tensor]) -> dict[str, float]:
        x, labels = (tensor.to(device) for tensor in piece)
        return sums_of(model(x), labels)

    apply = map_on_threads if on_threads and not carries_state(model) else map
    of_pieces = list(apply(evaluate_piece, sharing.of(split) if sharing else split.in_order()))
    reset_state(model)
    if sharing:
        shares = sharing.exchange(of_pieces)
        of_pieces = [share[turn] for turn in range(len(shares[0])) for share in shares if turn < len(share)]
    totals: dict[str, float] = {}
    for sums in of_pieces:
        for name, value in sums.items():
            totals[name] = totals.get(name, 0) + value
    counted = totals.pop("counted")
    scores = {name: total / counted for name, total in totals.items()}
    if split.task == "regression":
        scores["mse"] = scores["test_loss"]
    if split.task == "text":
        scores["perplexity"] = torch.tensor(scores["test_loss"], dtype=torch.float64).exp().item()
    if getattr(split, "scored", 0):
        for name, module in metrics.metric_modules(split.task, split.kind).items():
            scores[name] = import_module(module).score(model, split, device)
    return scores


def evaluate_training(
    model: nn.Module,
    weights: Mapping[str, torch.Tensor],
    split: AnySplit,
    device: torch.device,
    samples: int,
    sharing: Sharing | None = None,
    on_threads: bool = False,
) -> dict[str, float]:
    """The metrics of `evaluate_weights` on `samples` training samples (words of text), named `train_top1` and so on.

    Every evaluation of every run uses the same samples.
    """
    scores = evaluate_weights(model, weights, split.subset(samples, TRAINING_SEED), device, sharing, on_threads)
    return {f"train_{name}": score for name, score in scores.items() if name != "test_loss"}


def _classes(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    sums = {
        "test_loss": functional.cross_entropy(logits, labels, reduction="sum", ignore_index=IGNORED).item(),
        "top1": (logits.argmax(1) == labels).sum().item(),
        "counted": (labels != IGNORED).sum().item(),
    }
    if logits.shape[1] > TOP:
        sums["top5"] = (logits.topk(TOP, 1).indices == labels.unsqueeze(1)).sum().item()
    return sums


def _errors(outputs: torch.Tensor, values: torch.Tensor) -> dict[str, float]:
    return {"test_loss": mean_squared_error(outputs, values, "sum").item(), "counted": len(values)}


def weights_digest(weights: Mapping[str, torch.Tensor]) -> str:
    """The SHA-256 over all tensors by name; equal if the weights are equal bit for bit."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(_bytes(weights[name]))
    return total.hexdigest()


def tensor_digests(weights: Mapping[str, torch.Tensor]) -> dict[str, bytes]:
    """The SHA-256 of each tensor."""
    return {name: hashlib.sha256(_bytes(tensor)).digest() for name, tensor in weights.items()}


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
