"""Program `selection`: seconds of choosing k gradients, against an iteration's computation (gTop-k IV-E, Figure 11).

On the CPU, and on a GPU where torch sees one: the paper's choosing was its GPU's, and so was the iteration.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from repro import probes
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Positive, Share, Text
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.sparse import selection
from repro.fabric.sparse.gradients import EMPTY
from repro.probes.shared.stopwatch import spread, synchronize
from repro.records.provenance import hardware

WHOLE = "torch.topk"
METHODS = (*selection.METHODS, WHOLE)
SEED = 1


class Options(Model):
    """The share of an iteration's published computation that choosing k of a gradient's elements takes."""

    model: Text  # what the gradient is of
    elements: Count  # that it has
    iteration_s: Positive  # published (Table VI)
    density: Share  # rho: k = round(rho x elements)
    methods: Annotated[list[Literal["exact", "sampled", "torch.topk"]], Field(min_length=1)]  # the last of all elements
    repeat: Count  # repetitions of each, taking turns, after one that does not count

    @model_validator(mode="after")
    def _selects(self) -> Options:
        if round(self.density * self.elements) < 1:
            raise InputError(
                f"probe.density={self.density}: selects none of {self.elements}; "
                f"must be {1 / self.elements:.3g} or more"
            )
        return self


def check(config: RunConfig) -> None:
    """InputError where it is not one worker of this machine whose time would be measured."""
    if config.workers != 1 or config.simulated:
        raise InputError("program selection times one worker of this machine: needs workers=1 and testbed=here")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """All of it."""
    probe = config.probe
    devices = [torch.device("cpu")]
    if config.device != "cpu" and torch.cuda.is_available():
        devices.append(torch.device("cuda"))
    probes.start(fabric, len(devices))
    rows: list[dict[str, Any]] = []
    for done, device in enumerate(devices, 1):
        measured = measure(probe.elements, probe.density, device, probe.methods, probe.repeat)
        named = {"model": probe.model, "device": describe(device), "iteration_s": probe.iteration_s}
        rows += [row | named | {"share": row["seconds"]["median"] / probe.iteration_s} for row in measured]
        probes.progress(fabric, done)
    metrics = {f"seconds/{row['device']}/{row['method']}": row["seconds"]["median"] for row in rows}
    return probes.Finding({"rows": rows}, metrics, line(rows), probe.model, probe.elements)


def measure(
    elements: int, density: float, device: torch.device, methods: list[str], repeat: int
) -> list[dict[str, Any]]:
    """A row of each method, on normal draws."""
    k = round(density * elements)
    vector = torch.randn(elements, generator=torch.Generator(device).manual_seed(SEED), device=device)
    works = {method: chooser(method, vector, k) for method in methods}
    right = selection.select(vector, k).indices
    taken: dict[str, list[float]] = {method: [] for method in methods}
    chosen = {method: work() for method, work in works.items()}  # not counted: fresh pages
    for _ in range(repeat):
        for method, work in works.items():
            synchronize(device)
            began = time.perf_counter()
            work()
            synchronize(device)
            taken[method].append(time.perf_counter() - began)
    return [
        {
            "elements": elements,
            "k": k,
            "method": method,
            "seconds": spread(times),
            "selected": int((chosen[method] != EMPTY).sum()),
            "found": int(torch.isin(chosen[method], right).sum()),
        }
        for method, times in taken.items()
    ]


def chooser(method: str, vector: torch.Tensor, k: int) -> Callable[[], torch.Tensor]:
    """A call that chooses k elements, values and indices, and returns the indices."""
    if method != WHOLE:
        return lambda: selection.select(vector, k, method).indices

    def whole_vector() -> torch.Tensor:
        indices = torch.topk(vector.abs(), k, sorted=False).indices
        _ = vector[indices]
        return indices.to(torch.int32)

    return whole_vector


def describe(device: torch.device) -> str:
    """The device and how many threads of it, for people."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"cpu ({hardware('', 'cpu')['cpu']}, {threads} thread{'s' * (threads > 1)})"


def line(rows: list[dict[str, Any]]) -> str:
    return ", ".join(f"{row['method']} {1e3 * row['seconds']['median']:.3g} ms ({row['share']:.0%})" for row in rows)
