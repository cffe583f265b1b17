"""Check of a user's model before anything starts: it accepts samples of its data, and its output fits the loss."""

from __future__ import annotations

from typing import Any

from repro.core import errors
from repro.core.errors import InputError
from repro.core.registry import PLUGINS
from repro.experiment.schema import RunConfig

SAMPLES = 2  # one sample would hide an output without a batch dimension


def check(config: RunConfig, model: Any, dataset: Any) -> None:
    """InputError if a forward pass of two samples fails, or if the loss needs another output shape.

    Only users' own models and data sets are checked (`repro.core.own_code`). model: blocks on the meta device, where
    only shapes are computed; a model whose pass needs values is not checked.
    """
    name, task, models = config.model.name, dataset.train.task, PLUGINS["model"]
    own = models.takes(name) or PLUGINS["dataset"].takes(config.dataset.name)
    if not own or task not in ("classification", "regression"):
        return
    x, file = dataset.train.slice(0, SAMPLES)[0].to("meta"), models.load(name).__file__
    where = f"model {name}: with {SAMPLES} samples of {config.dataset.name}, shape {tuple(x.shape)},"
    for block_name, block in model.named_children():
        try:
            x = block(x)
        except NotImplementedError:
            return
        except Exception as error:
            if "meta" in str(error):  # "cannot be called on meta tensors": it needs values
                return
            line = errors.describe_error(error, lambda path: path == file)
            raise InputError(f"{where} its block {block_name} fails: {line}") from error
    fits = x.numel() == SAMPLES if task == "regression" else x.shape[:2] == (SAMPLES, dataset.classes)
    if not fits:
        needed = (SAMPLES, 1 if task == "regression" else dataset.classes)
        raise InputError(f"{where} its output has shape {tuple(x.shape)}; the data's {task} needs {needed}")
