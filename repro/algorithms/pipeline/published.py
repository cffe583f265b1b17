"""The text format of profiles in the authors' released code (github.com/msr-fiddle/pipedream, `profiler/`).

Each node of the model's graph has a line,

    node2 -- Conv2d -- forward_compute_time=22.3, backward_compute_time=24.6, activation_size=1.6e9, parameter_size=7168

in milliseconds and bytes of a minibatch; then each edge has a line, `(tab)node2 -- node3`. The nodes become the
profile's layers in topological order (lowest number first). As in the authors' partitioner, `Input` nodes and unused
`__getitem__` nodes are omitted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.core.errors import InputError

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
