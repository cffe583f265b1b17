"""A small model with running statistics, of as many blocks as a pipeline needs stages."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from repro.testing import small


def with_statistics(blocks: int = 2) -> nn.Sequential:
    """(n, small.INPUTS) -> (n, small.CLASSES); batch norm after each linear layer but the last."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Linear(small.INPUTS, 5), *(nn.Linear(5, 5) for _ in range(blocks - 2))]
        last = nn.Linear(5, small.CLASSES)
    inner = [nn.Sequential(layer, nn.BatchNorm1d(5), nn.Tanh()) for layer in layers]
    return nn.Sequential(OrderedDict((f"block{number}", block) for number, block in enumerate([*inner, last])))
