"""The models, one file each, whose `build(input_shape, classes, *, options)` returns an nn.Sequential of named blocks.

It may return any other module, which `_blocks` cuts at its children; it adapts a user's class or function too. A block
is the unit of hooks, buckets and FLOPs. Parameters without `requires_grad` are frozen: neither communicated nor
updated. The options of a model, set as `model.<option>`, are the keyword-only arguments of its `build`. `TAKES` is its
kind of inputs (`repro.data.base.KINDS`), by default images; `SIDE` is the published network's image size in pixels, if
its number of parameters depends on it. A block that carries state between minibatches has `reset_state()` and keeps the
state in buffers outside of the state dict (`repro.training.model_shard`). Files with a leading underscore are shared by
several models. Packages register models through the entry-point group `repro.models` (NAME = "module").
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from repro.core import errors
from repro.core.errors import InputError, ReproError, exhausted_memory
from repro.core.fields import checked_arguments
from repro.core.registry import PLUGINS
from repro.experiment.schema import RunConfig
from repro.models._blocks import ANYTHING, blocks_of

REGISTRY = PLUGINS["model"]


class Inputs(Protocol):
    """The properties of a data set (`repro.data.base.Dataset`) for which a model is built."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def classes(self) -> int: ...
    @property
    def input_shape(self) -> tuple[int, ...]: ...


def model_names() -> list[str]:
    return REGISTRY.names()


def build_model(
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    seed: int,
    device: torch.device | str = "cpu",
    **options: Any,
) -> nn.Sequential:
    """The model with weights drawn from `seed`, the same on every device.

    On the device "meta" there are only shapes, and equal arguments return the same object, which virtual ranks share.
    options: the model's options; None stands for the default. InputError for unknown names and options, invalid values,
    and unsuitable inputs.
    """
    used = check_options(name, options)
    if torch.device(device).type == "meta":
        return _on_meta(name, tuple(input_shape), classes, tuple(used.items()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _built(name, input_shape, classes, used).to(device)


@lru_cache(maxsize=4)
def _on_meta(
    name: str, input_shape: tuple[int, ...], classes: int, options: tuple[tuple[str, Any], ...]
) -> nn.Sequential:
    with torch.device("meta"):
        return _built(name, input_shape, classes, dict(options))


def _built(name: str, input_shape: tuple[int, ...], classes: int, options: dict[str, Any]) -> nn.Sequential:
    """The result of a model's `build` as an nn.Sequential. InputError if it is no module, has lazy parameters or
    none to train, or raises an exception other than for lack of memory."""
    module = REGISTRY.load(name)
    try:
        model = module.build(input_shape, classes, **options)
    except ReproError:
        raise
    except Exception as error:
        if exhausted_memory(error):
            raise
        line = errors.describe_error(error, lambda file: file == module.__file__)
        given = ", ".join(f"model.{option}={value}" for option, value in options.items())
        raise InputError(f"model {name}: its build ended with {line}{given and f'; it got {given}'}") from error
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model {name}: build must return an nn.Module; it returned a value of type {type(model).__name__}"
        )
    if lazy := [key for key, value in model.named_parameters() if isinstance(value, UninitializedParameter)]:
        raise InputError(f"model {name}: {lazy[0]} has no shape (its module is lazy); use a module such as nn.Linear")
    try:
        blocks = blocks_of(model, input_shape)
    except InputError as error:
        raise InputError(f"model {name}: {error}") from None
    if not any(parameter.requires_grad for parameter in blocks.parameters()):
        raise InputError(f"model {name}: has no parameters to train")
    return blocks


def model_for(config: RunConfig, dataset: Inputs, device: torch.device | str = "cpu") -> nn.Sequential:
    """The model of a run's configuration for its data set; InputError if the model takes other inputs."""
    name = config.model.name
    check_takes(name, dataset.kind, dataset.name)
    return build_model(name, dataset.input_shape, dataset.classes, config.seed, device, **config.model.options)


def check_takes(name: str, kind: str, dataset: str) -> None:
    """InputError if a model takes other inputs than those of a data set, which are of this kind."""
    if input_kind(name) not in (kind, ANYTHING):
        fitting = ", ".join(other for other in REGISTRY.usable() if input_kind(other) == kind) or "none"
        raise InputError(f"model {name} takes {input_kind(name)}, and {dataset} is {kind}; models for it: {fitting}")


def size_note(config: RunConfig, dataset: Inputs) -> str | None:
    """A note for the user if the images' size changes the model's number of parameters from the published one."""
    name = config.model.name
    if (side := getattr(REGISTRY.load(name), "SIDE", None)) is None:
        return None
    channels, height, width = dataset.input_shape

    def parameters(shape: tuple[int, ...]) -> int:
        model = build_model(name, shape, dataset.classes, 0, "meta", **config.model.options)
        return sum(p.numel() for p in model.parameters())

    mine, published = parameters((channels, height, width)), parameters((channels, side, side))
    if mine == published:
        return None
    return (
        f"note: model {name} has {mine:,} parameters at {height}x{width} pixels, not {published:,} as at the published "
        f"{side}x{side}"
    )


def input_kind(name: str) -> str:
    """The kind of inputs that a model takes, one of `repro.data.base.KINDS`; InputError for an unknown name."""
    return getattr(REGISTRY.load(name), "TAKES", "images")


def takes_text(name: str) -> bool:
    """Whether a model takes text; InputError for an unknown name."""
    return input_kind(name) == "text"


def option_defaults(name: str) -> dict[str, Any]:
    """The default of each option of a model."""
    parameters = inspect.signature(REGISTRY.load(name).build).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not None; InputError for unknown names and invalid values."""
    valid = option_defaults(name)
    for option in options:
        if option not in valid:
            allowed = ", ".join(f"model.{option}" for option in valid) or "none"
            raise InputError(f"model '{name}' has no option 'model.{option}'; valid: {allowed}")
    used = {option: value for option, value in options.items() if value is not None}
    return checked_arguments(REGISTRY.load(name).build, used, "model")
