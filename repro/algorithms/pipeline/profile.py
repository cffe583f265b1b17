"""Profile files: seconds, output bytes and parameter bytes of each layer of a model (PipeDream 3.2).

A profile is a JSON object with the fields of `Profile`, written by `repro profile`. The text format of the authors'
released code can be read too (`repro.algorithms.pipeline.profile`).

Each node of the model's graph has a line,

    node2 -- Conv2d -- forward_compute_time=22.3, backward_compute_time=24.6, activation_size=1.6e9, parameter_size=7168

in milliseconds and bytes of a minibatch; then each edge has a line, `(tab)node2 -- node3`. The nodes become the
profile's layers in topological order (lowest number first). As in the authors' partitioner, `Input` nodes and unused
`__getitem__` nodes are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from repro.algorithms.pipeline.layers import Layer, Profile, as_text, parameter_bytes, tensor_bytes
from repro.core import user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.core.user_files import check_target, read_profile
from repro.experiment import limits

if TYPE_CHECKING:
    import torch
    from torch import nn

    from repro.training.device_times import BlockSeconds


def check_sizes(batch: int, minibatches: int, warmup: int) -> None:
    """InputError for a measurement of no samples or too many, of no minibatches, or after fewer than none."""
    for what, value, least in (("batch", batch, 1), ("minibatches", minibatches, 1), ("warmup", warmup, 0)):
        if value < least:
            raise InputError(f"{what}={value}: must be {least} or more")
    limits.check_limit("batch", batch, limits.BATCH)


def load_profile(path: Path | str) -> Profile:
    """The profile in a file, in our JSON or the authors' text format; InputError for any other file."""
    path = Path(path)
    text = read_profile(path, "`repro profile MODEL --out FILE` makes one")
    try:
        if is_published_format(text):
            return from_json(asdict(parse_profile(text, path.name.split(".")[0])))
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


NUMBERS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
NODE = re.compile(r"(node\d+) -- (.*) -- " + ", ".join(rf"{name}=(\[[^\]]*\]|[^,\s]+)" for name in NUMBERS))
EDGE = re.compile(r"\t(node\d+) -- (node\d+)")


class Node(NamedTuple):
    """A node, in milliseconds and bytes."""

    name: str
    what: str
    forward: float
    backward: float
    activation: float
    parameters: float

    @property
    def number(self) -> int:
        return int(self.name.removeprefix("node"))


def is_published_format(text: str) -> bool:
    """Whether a text starts like such a file."""
    return re.match(r"\s*node\S* -- ", text) is not None


def parse_profile(text: str, model: str) -> Profile:
    """The profile in such a text; InputError naming a malformed line."""
    nodes, after = _graph(text)
    before = {target for targets in after.values() for target in targets}
    inputs = [node for node in nodes.values() if node.what.startswith("Input") and node.name not in before]
    unused = [node for node in nodes.values() if node.what.startswith("__getitem__") and not after[node.name]]
    for node in (*inputs, *unused):
        del nodes[node.name]
    after = {name: [target for target in after[name] if target in nodes] for name in nodes}
    layers: list[Layer] = []
    number: dict[str, int] = {}
    for node in _in_order(nodes, after):
        number[node.name] = len(layers)
        seconds = node.forward / 1e3, node.backward / 1e3
        layers.append(Layer(f"{node.name} {node.what.split('(')[0]}", *seconds, node.activation, node.parameters))
    edges = tuple((number[name], number[user]) for name in number for user in after[name])
    read = sum(node.activation for node in inputs)
    return Profile(model, None, "not named in the file", tuple(layers), None, None, "published", read, edges)


def _graph(text: str) -> tuple[dict[str, Node], dict[str, list[str]]]:
    """The nodes by name, and for each the names of the nodes that use it."""
    nodes: dict[str, Node] = {}
    edges: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := NODE.match(line):
            name, what, *numbers = match.groups()
            nodes[name] = Node(name, what, *[_number(value, number) for value in numbers])
        elif match := EDGE.match(line):
            edges.append((match[1], match[2]))
        elif line.strip():
            raise InputError(f"line {number}: neither a node 'node1 -- NAME -- {NUMBERS[0]}=..., ...' nor an edge")
    after: dict[str, list[str]] = {name: [] for name in nodes}
    for source, target in edges:
        for name in (source, target):
            if name not in nodes:
                raise InputError(f"the edge {source} -- {target} names {name}, which no line describes")
        after[source].append(target)
    return nodes, after


def _number(text: str, line: int) -> float:
    """A number, or the sum of a list [a; b] (a node with several outputs)."""
    try:
        return sum(float(part) for part in text.strip("[]").split(";"))
    except ValueError:
        raise InputError(f"line {line}: '{text}' is not a number") from None


def _in_order(nodes: dict[str, Node], after: dict[str, list[str]]) -> list[Node]:
    """The nodes in topological order, the lowest number first; InputError for a cycle."""
    import networkx

    graph = networkx.DiGraph(after)
    try:
        order = networkx.lexicographical_topological_sort(graph, lambda name: nodes[name].number)
        return [nodes[name] for name in order]
    except networkx.NetworkXUnfeasible:
        raise InputError("the edges make a cycle") from None
