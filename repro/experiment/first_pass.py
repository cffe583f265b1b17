"""Whether a user's model takes the samples of its data and returns what the loss takes, before anything starts."""

from __future__ import annotations

from typing import Any

from repro.core import error_location
from repro.core.errors import InputError
from repro.core.registry import PLUGINS
from repro.experiment.schema import RunConfig

SAMPLES = 2  # one alone would hide an output that lacks their dimension


def check(config: RunConfig, model: Any, dataset: Any) -> None:
    """InputError where a forward pass of two samples fails, or its output has another shape than the loss needs.

    Of models and data sets alone that are named by their place. model: its blocks, on the meta device, where shapes
    are known and nothing is computed; a pass that needs values is not checked.
    """
    name, task, models = config.model.name, dataset.train.task, PLUGINS["model"]
    own = models.takes(name) or PLUGINS["dataset"].takes(config.dataset.name)
    if not own or task not in ("classification", "regression"):
        return
    x, file = dataset.train.slice(0, SAMPLES)[0].to("meta"), models.load(name).__file__
    passed = f"model {name}: of {SAMPLES} samples of {config.dataset.name}, together {tuple(x.shape)},"
    for block_name, block in model.named_children():
        try:
            x = block(x)
        except NotImplementedError:
            return
        except Exception as error:
            if "meta" in str(error):  # "cannot be called on meta tensors": it needs values
                return
            line = error_location.describe(error, lambda ran: ran == file)
            raise InputError(f"{passed} its block {block_name} fails: {line}") from error
    fits = x.numel() == SAMPLES if task == "regression" else x.shape[:2] == (SAMPLES, dataset.classes)
    if not fits:
        needed = (SAMPLES, 1 if task == "regression" else dataset.classes)
        raise InputError(f"{passed} it makes {tuple(x.shape)}; must be {needed}, as the data's {task} needs")
