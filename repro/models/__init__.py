"""The models, one file each: `build(input_shape, classes) -> nn.Sequential` of named blocks.

A block is the unit of hooks, segments and FLOPs. Parameters with `requires_grad` False are frozen: never communicated,
never updated. Files whose name starts with an underscore hold what several models share.
"""

from __future__ import annotations

import importlib
import pkgutil

import torch
from torch import nn

from repro.errors import unknown


def names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]


def build(
    name: str, input_shape: tuple[int, ...], classes: int, seed: int, device: torch.device | str = "cpu"
) -> nn.Sequential:
    """The model with weights drawn from `seed`, the same on every device ("meta": shapes only, nothing is drawn).

    InputError for an unknown name, and for images that the model cannot take.
    """
    if name not in names():
        raise unknown("model", name, names())
    module = importlib.import_module(f"repro.models.{name}")
    if torch.device(device).type == "meta":
        with torch.device("meta"):
            return module.build(input_shape, classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return module.build(input_shape, classes).to(device)
