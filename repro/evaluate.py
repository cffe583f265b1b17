"""Evaluation of a snapshot of the weights on a test split; training state is not touched."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

EVALUATION_BATCH = 1000


@torch.no_grad()
def evaluate(
    model: nn.Module, weights: Mapping[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, device: torch.device
) -> dict[str, float]:
    """Mean cross-entropy and top-1 accuracy (a fraction) of a model of its own with these weights."""
    model.load_state_dict(weights)
    model.to(device).eval()
    loss, correct = 0.0, 0
    for start in range(0, len(y), EVALUATION_BATCH):
        labels = y[start : start + EVALUATION_BATCH].to(device)
        logits = model(x[start : start + EVALUATION_BATCH].to(device))
        loss += functional.cross_entropy(logits, labels, reduction="sum").item()
        correct += (logits.argmax(1) == labels).sum().item()
    return {"test_loss": loss / len(y), "top1": correct / len(y)}


def digest(weights: Mapping[str, torch.Tensor]) -> str:
    """sha256 over all tensors by name: equal if and only if the weights are, bit for bit."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(weights[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
