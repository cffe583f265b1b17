"""A user's own files of models, data sets, strategies and imbalances, and runs that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.run import Run

FIG4 = "pipesgd/fig4-mnist"
MODULES = ("my_nets", "my_sets", "my_reviews", "my_net", "my_data", "my_ways", "my_parts", "empty")
NETS = """
import torch
from torch import nn

class Output:
    def __init__(self, logits):
        self.logits = logits

class Vit(nn.Module):
    def __init__(self, input_shape, num_classes, dim=16, depth=2, act=nn.ReLU):
        super().__init__()
        self.patches = nn.Conv2d(input_shape[0], dim, 4, 4)
        self.position = nn.Parameter(0.02 * torch.randn(1, input_shape[1] * input_shape[2] // 16, dim))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 2, 32, batch_first=True) for _ in range(depth))
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, pixel_values, labels=None, **more):
        x = self.patches(pixel_values).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x)
        return Output(self.head(x.mean(1)))

class Flow(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.a, self.b, self.unused = nn.Linear(64, 16), nn.Linear(16, classes), nn.Linear(2, 2)

    def forward(self, x):
        return self.b(self.a(x.flatten(1)).relu()) if len(x) > 0 else x

class Two(nn.Module):
    def forward(self, image, table):
        return image

class Needs(nn.Module):
    def __init__(self, hidden, classes):
        super().__init__()
        self.a = nn.Linear(hidden, classes)
"""
SETS = """
import torch
from torch.utils.data import Dataset

class Points(Dataset):
    def __init__(self, train=True, noise=0.1):
        self.y = torch.arange(80 if train else 40) % 4
        self.noise = noise

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.y[i] + self.noise * torch.randn(1, 8, 8), int(self.y[i])

def whole():
    return Points()

class Values(Points):
    def __getitem__(self, i):
        return torch.full((64,), 0.1 * i), 0.1 * i

class Pairs(Points):
    def __getitem__(self, i):
        return (torch.zeros(3), torch.zeros(4)), 0

class Ragged(Points):
    def __getitem__(self, i):
        return torch.zeros(3 + (i > 5)), 0

class Unequal(Points):
    def __init__(self, train=True):
        super().__init__(train)
        self.size = 3 if train else 4

    def __getitem__(self, i):
        return torch.zeros(self.size), 0

class Named(Points):
    def __getitem__(self, i):
        return {"x": torch.zeros(3), "y": 0}

class Single(Points):
    def __getitem__(self, i):
        return (torch.zeros(3),)
"""
WAYS = """
from repro.algorithms.imbalance.base import Imbalance
from repro.strategies.base import Strategy
from repro.strategies.dsync import DSync

class Mine(DSync):
    name = "mine"

class Other:
    pass

class Late(Imbalance):
    name = "late"
    longest = 0.01

    def delays(self, iteration):
        return DELAYS
"""


def write(folder: Path) -> None:
    """The user's files."""
    for name, content in (("my_nets", NETS), ("my_sets", SETS), ("my_ways", WAYS)):
        (folder / f"{name}.py").write_text(content)
    y = np.arange(100) % 5
    x = np.random.default_rng(0).normal(size=(100, 1, 8, 8)).astype("float32") + y[:, None, None, None]
    np.savez(folder / "mine.npz", x_train=x, y_train=y, x_test=x[:50], y_test=y[:50])


def planned(*overrides: str) -> list[Run]:
    """The runs of an experiment, validated and with keys."""
    runs = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual", *overrides])
    identify_runs(runs)
    return runs


def refused(*overrides: str) -> str:
    """The error of a run that cannot be planned."""
    with pytest.raises(InputError) as refusal:
        planned(*overrides)
    return str(refusal.value)


def trained(folder: Path, *overrides: str) -> dict[str, Any]:
    """The summary of a run of two virtual ranks."""
    from tests.support import virtual_runs  # not while conftest.py is imported: pytest rewrites repro.testing first

    (run,) = planned("workers=2", "batch=20", *overrides)
    config = run.config.model_copy(update={"key": "k", "hardware": {"class": "none"}})
    return virtual_runs.ended(config, folder)
