"""The models, one file each: `build(input_shape, classes) -> nn.Sequential` of named blocks."""

from __future__ import annotations

import importlib
import pkgutil

import torch
from torch import nn

from repro.errors import unknown


def names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def build(name: str, input_shape: tuple[int, ...], classes: int, seed: int) -> nn.Sequential:
    """The model with weights drawn from `seed`; InputError for an unknown name."""
    if name not in names():
        raise unknown("model", name, names())
    module = importlib.import_module(f"repro.models.{name}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return module.build(input_shape, classes)
