"""Profile files: seconds, output bytes and parameter bytes of each layer of a model (PipeDream 3.2).

A profile is a JSON object with the fields of `Profile`, written by `repro profile`. The text format of the authors'
released code can be read too (`repro.algorithms.pipeline.published`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.algorithms.pipeline import published
from repro.algorithms.pipeline.layers import Layer, Profile, as_text, parameter_bytes, tensor_bytes
from repro.core import user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.core.user_files import check_target, read_profile

if TYPE_CHECKING:
    import torch
    from torch import nn

    from repro.training.device_times import BlockSeconds


def load_profile(path: Path | str) -> Profile:
    """The profile in a file, in our JSON or the authors' text format; InputError for any other file."""
    path = Path(path)
    text = read_profile(path, "`repro profile MODEL --out FILE` makes one")
    try:
        if published.is_published_format(text):
            return from_json(asdict(published.parse_profile(text, path.name.split(".")[0])))
        return from_json(user_files.parse_json(text))
    except ValueError as error:
        other = f"neither JSON of `repro profile` nor lines 'node1 -- ...' ({error})"
        raise InputError(f"{path}: not a profile: {other}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def from_json(decoded: Any) -> Profile:
    """A profile from decoded JSON; InputError naming missing, unknown and wrong entries."""
    if not isinstance(decoded, dict):
        raise InputError(f"the profile: must be a mapping with {', '.join(field.name for field in fields(Profile))}")
    return check_fields(Profile, decoded)


def write_profile(path: Path | str, profile: Profile) -> None:
    """Write a profile as JSON, atomically; InputError if no file can be created there."""
    check_target(Path(path))
    write_atomically(Path(path), as_text(profile))


def check_model(profile: Profile, blocks: Sequence[str]) -> None:
    """InputError unless the profile's layers are the blocks of the model, by name and in order."""
    layers = [layer.name for layer in profile.layers]
    if len(blocks) != len(layers):
        difference = f"it has {len(layers)} layers and the model {len(blocks)} blocks"
    elif wrong := [at for at, (block, layer) in enumerate(zip(blocks, layers)) if block != layer]:
        at = wrong[0]
        difference = f"its layer {at} is '{layers[at]}' and the model's block {at} is '{blocks[at]}'"
    elif set(profile.uses) != set(pairwise(range(len(layers)))):
        difference = "its layers are a graph and the model's blocks a chain"
    else:
        return
    raise InputError(f"the profile is of another model ({profile.model}): {difference}")


def estimate_profile(
    model: nn.Sequential, blocks: BlockSeconds, x: torch.Tensor, hardware: str, name: str = "unnamed"
) -> Profile:
    """A profile with modelled times: `blocks` of a testbed's device for the minibatch `x`, real or on the meta device.

    Moves `model` to the meta device and runs it there to find the sizes of outputs. name: of the model.
    """
    layers = tuple(
        Layer(block, forward, backward, activations, parameters)
        for (block, activations, parameters), forward, backward in zip(
            block_bytes(model, x), blocks.forward, blocks.backward, strict=True
        )
    )
    return Profile(name, len(x), hardware, layers, None, None, "estimated", tensor_bytes(x))


def block_bytes(model: nn.Sequential, x: torch.Tensor) -> list[tuple[str, int, int]]:
    """(name, output bytes, parameter bytes) of each block for the minibatch `x`; moves `model` to the meta device."""
    import torch

    value, sizes = x.to("meta"), []
    with torch.no_grad():
        for name, block in model.to("meta").named_children():
            value = block(value)
            sizes.append((name, tensor_bytes(value), parameter_bytes(block)))
    return sizes


def nominal_inputs(model: nn.Sequential, input_shape: Sequence[int], batch: int) -> torch.Tensor:
    """A minibatch (batch, *input_shape) on the meta device: integers if the first block has an embedding."""
    import torch
    from torch import nn

    words = any(isinstance(module, nn.Embedding) for module in next(model.children()).modules())
    return torch.empty(batch, *input_shape, device="meta", dtype=torch.int64 if words else None)
