"""Workloads of the listed models, stored because tracing a model takes as long as ranking: `workloads.json`.

`python -m repro.answers.ranking.stored_workloads` writes the file; a test holds it to fresh traces. All sizes of a
workload are affine in a batch of two or more samples, so two traces tell them; one sample keeps up to 2 % more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.answers.ranking.arguments import PUBLISHED_MODELS
from repro.answers.ranking.workload import Workload, workload_of
from repro.core import user_files
from repro.core.atomic import write_atomically
from repro.core.registry import PLUGINS
from repro.training.device_times import BACKWARD_TO_FORWARD

FILE = Path(__file__).with_name("workloads.json")


def find_workload(model: str, batch: int, shape: Sequence[int] | None = None) -> Workload:
    """The stored workload of a listed model, else that of a trace; InputError as `workload_of`."""
    stored = stored_workloads().get(model) if shape is None else None
    return scale_workload(model, stored, batch) if stored else workload_of(model, batch, shape)


@cache
def stored_workloads() -> dict[str, dict[str, Any]]:
    return user_files.parse_json(FILE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def scale_workload(model: str, stored: dict[str, Any], batch: int) -> Workload:
    layers = tuple(
        Layer(name, share, BACKWARD_TO_FORWARD * share, fixed + each * batch, nbytes)
        for name, share, fixed, each, nbytes in stored["layers"]
    )
    profile = Profile(model, batch, "", layers, None, None, "estimated", stored["input_bytes"] * batch)
    fixed, each = stored["activations"]
    matrices = tuple((rows, columns) for rows, columns in stored["matrices"])
    return Workload(profile, stored["flops"] * batch, matrices, fixed + each * batch, stored["products"],
                    words=stored["words"])  # fmt: skip


def store_workload(model: str) -> dict[str, Any]:
    """What is stored of a model: its workload of one sample, and what does not grow with the batch."""
    two, three = workload_of(model, 2), workload_of(model, 3)

    def affine(at_two: float, at_three: float) -> list[float]:
        return [3 * at_two - 2 * at_three, at_three - at_two]

    layers = zip(two.profile.layers, three.profile.layers)
    return {
        "layers": [
            [own.name, own.forward_s, *affine(own.activation_bytes, other.activation_bytes), own.parameter_bytes]
            for own, other in layers
        ],
        "input_bytes": two.profile.input_bytes / 2,
        "flops": two.flops / 2,
        "activations": affine(two.activations, three.activations),
        "matrices": two.matrices,
        "products": two.products,
        "words": two.words,
    }


def listed_models() -> list[str]:
    """Those of `repro list models` and the networks of published measurements."""
    return [*PLUGINS["model"].names(), *PUBLISHED_MODELS]


if __name__ == "__main__":
    models = {model: store_workload(model) for model in listed_models()}
    lines = (f"{json.dumps(model)}: {json.dumps(each, separators=(',', ':'))}" for model, each in models.items())
    write_atomically(FILE, "{\n" + ",\n".join(lines) + "\n}\n")
