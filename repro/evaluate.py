"""Evaluation of a snapshot of the weights on a test split; training state is not touched."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from repro.data.base import Split

# samples a forward pass; of large images fewer, so that their activations take no more than about a gigabyte
EVALUATION_BATCH = 1000
EVALUATION_VALUES = 2**24


@torch.no_grad()
def evaluate(
    model: nn.Module, weights: Mapping[str, torch.Tensor], split: Split, device: torch.device
) -> dict[str, float]:
    """Mean cross-entropy and top-1 accuracy (a fraction) on a split, of a model of its own with these weights.

    Batch norm uses the running statistics among the weights: those of the rank whose snapshot it is (rank 0).
    """
    model.load_state_dict(weights)
    model.to(device).eval()
    loss, correct = 0.0, 0
    batch = max(1, min(EVALUATION_BATCH, EVALUATION_VALUES // math.prod(split.slice(0, 1)[0].shape)))
    for start in range(0, len(split), batch):
        x, labels = (tensor.to(device) for tensor in split.slice(start, start + batch))
        logits = model(x)
        loss += functional.cross_entropy(logits, labels, reduction="sum").item()
        correct += (logits.argmax(1) == labels).sum().item()
    return {"test_loss": loss / len(split), "top1": correct / len(split)}


def digest(weights: Mapping[str, torch.Tensor]) -> str:
    """sha256 over all tensors by name: equal if and only if the weights are, bit for bit."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(weights[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
