"""Preparation of runs: fetch their data, check model and strategy against the data, compute their keys."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from repro.core import errors
from repro.core.errors import InputError
from repro.core.registry import PLUGINS, TRAIN, home_module
from repro.experiment.key import Keys
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig


def identify_runs(
    runs: Sequence[Run], hardware_class: str | None = None, fetched: set[tuple[Any, ...]] | None = None
) -> None:
    """Fetch the data of every run if possible, check its model and strategy against them, and set its key.

    hardware_class: for runs whose launcher has none; None: this machine's.
    fetched: what earlier calls of one command have fetched, and this one adds to.
    """
    data, keys = home_module("dataset"), Keys(hardware_class)
    fetched = set() if fetched is None else fetched
    notes: dict[str, None] = {}  # an ordered set
    for run in runs:
        config = run.config
        _fetch(config, fetched)
        dataset = data.dataset_for(config)
        per_epoch = dataset.iterations(config.batch)
        run.iterations = config.iterations(per_epoch) if config.program == TRAIN else None
        home_module("metric").check_classes(config.metric, dataset.classes)
        model = home_module("model").model_for(config, dataset, "meta")
        home_module("strategy").check_model(config, model)
        check_forward(config, model, dataset)
        if note := home_module("model").size_note(config, dataset):
            notes[note] = None
        keys.assign(run, dataset.checksum)
    data.forget_dataset()
    for note in notes:
        _say(note)


def _fetch(config: RunConfig, fetched: set[tuple[Any, ...]]) -> None:
    """Fetch a run's data, unless they were fetched for an earlier run."""
    if config.timing_only:
        return
    data, name, place, options = home_module("dataset"), config.dataset.name, config.data, dict(config.dataset.options)
    standin = options.pop("standin")
    videos = (name, place.videos, place.root, repr(options))
    if place.videos and videos not in fetched:
        data.extract_features(name, place.videos, place.root, config.device, _say, **options)
    files = (name, place.root, standin)
    if files not in fetched:
        data.ensure_dataset(*files, say=_say)
    fetched |= {videos, files}


def _say(line: str) -> None:
    print(line, file=sys.stderr)


SAMPLES = 2  # one sample would hide an output without a batch dimension


def check_forward(config: RunConfig, model: Any, dataset: Any) -> None:
    """InputError if a forward pass of two samples fails, or if the loss needs another output shape.

    Only users' own models and data sets are checked (`repro.core.own_code`). model: blocks on the meta device, where
    only shapes are computed; a model whose pass needs values is not checked.
    """
    name, task, models = config.model.name, dataset.train.task, PLUGINS["model"]
    is_users = models.takes(name) or PLUGINS["dataset"].takes(config.dataset.name)
    if not is_users or task not in ("classification", "regression"):
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
            if not line.startswith(f"{file}:"):  # in PyTorch, called by no line of the user's
                line = f"{' '.join(repr(block).split()):.80}: {errors.describe_error(error.with_traceback(None))}"
            raise InputError(f"{where} its block {block_name} fails: {line}") from error
    fits = x.numel() == SAMPLES if task == "regression" else x.shape[:2] == (SAMPLES, dataset.classes)
    if not fits:
        needed = (SAMPLES, 1 if task == "regression" else dataset.classes)
        raise InputError(f"{where} its output has shape {tuple(x.shape)}; the data's {task} needs {needed}")
