"""Facts: the profile of VGG16 published with PipeDream's code, and what its authors' partitioner answers on it.

Source: github.com/msr-fiddle/pipedream (MIT), branch pipedream, commit 7db6a1c3e64996d5b319faec6ca38cb31bfea1c4: the
profile of VGG16 at a minibatch of 128 (`pipedream/vgg16.graph.txt`), and the outputs of
optimizer/optimizer_graph_hierarchical.py on it (`released-max`: with `sum` of computation and synchronisation replaced
by `max`; `pipedream/answers.json`).
"""

import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).with_name("pipedream")


class Answer(NamedTuple):
    """seconds; stages: [first layer, last, replicas], compared only where `optima`, where it is known, is 1."""

    machines: int
    bandwidth: float
    activations: bool
    straight: bool
    cost_model: str
    pipeline_s: float
    data_parallel_s: float
    single_s: float
    stages: list[list[int]]
    optima: int | None


ANSWERS = [Answer(**each) for each in json.loads((FOLDER / "answers.json").read_text())]


def text() -> str:
    """The profile as it is in the authors' files: nodes in no order, then the edges."""
    return (FOLDER / "vgg16.graph.txt").read_text()
