"""Program `selection`: seconds of selecting k gradients, against an iteration's computation (gTop-k IV-E, Figure 11).

It measures on the CPU, and on a GPU if torch sees one: the paper's selection and iteration ran on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from repro import probes
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Positive, Share, Text
from repro.experiment.schema import RunConfig
from repro.fabric.sparse import selection
from repro.fabric.sparse.gradients import EMPTY
from repro.probes import ResultPart
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.stopwatch import Spread, synchronize_device, time_spread
from repro.records.provenance import hardware

WHOLE = "torch.topk"
METHODS = (*selection.METHODS, WHOLE)
SEED = 1


class Options(Model):
    model: Text  # a name, for the result
    elements: Count  # of its gradient
    iteration_s: Positive  # published computation (Table VI)
    density: Share  # rho: k = round(rho x elements)
    methods: Annotated[list[Literal["exact", "sampled", "torch.topk"]], Field(min_length=1)]  # torch.topk: whole vector
    repeat: Count  # turns, after an uncounted one

    @model_validator(mode="after")
    def _selects(self) -> Options:
        if round(self.density * self.elements) < 1:
            raise InputError(
                f"probe.density={self.density}: selects none of {self.elements}; "
                f"must be {1 / self.elements:.3g} or more"
            )
        return self


class SelectionTime(ResultPart):
    """A method on a device. selected: number of elements selected; found: those among the k largest. share: its median
    time divided by `iteration_s`, the published time of an iteration."""

    model: str
    device: str
    elements: int
    k: int
    method: str
    seconds: Spread
    selected: int
    found: int
    iteration_s: float
    share: float


class Result(ResultPart):
    rows: list[SelectionTime]


def check(config: RunConfig) -> None:
    if config.simulated:
        raise InputError("program selection times this machine: needs testbed=here")


def run_alone(config: RunConfig) -> probes.Finding:
    probe = config.probe
    devices = [torch.device("cpu")]
    if config.device != "cpu" and torch.cuda.is_available():
        devices.append(torch.device("cuda"))
    probes.announce_iterations(len(devices))
    rows: list[dict[str, Any]] = []
    for done, device in enumerate(devices, 1):
        common = {"model": probe.model, "device": device_name(device), "iteration_s": probe.iteration_s}
        for row in measure_selection(probe.elements, probe.density, device, probe.methods, probe.repeat):
            rows.append(row | common | {"share": row["seconds"]["median"] / probe.iteration_s})
        probes.report_progress(done)
    metrics = {f"seconds/{row['device']}/{row['method']}": row["seconds"]["median"] for row in rows}
    line = ", ".join(f"{row['method']} {1e3 * row['seconds']['median']:.3g} ms ({row['share']:.0%})" for row in rows)
    return probes.Finding({"rows": rows}, metrics, line, probe.model, probe.elements)


def measure_selection(
    elements: int, density: float, device: torch.device, methods: list[str], repeat: int
) -> list[dict[str, Any]]:
    """A row for each method, on a gradient of normal draws."""
    k = round(density * elements)
    vector = torch.randn(elements, generator=torch.Generator(device).manual_seed(SEED), device=device)
    calls = {method: make_selector(method, vector, k) for method in methods}
    exact = selection.select_topk(vector, k).indices
    selected = {method: call() for method, call in calls.items()}  # not timed: fresh pages

    def seconds_of(call: Callable[[], torch.Tensor]) -> float:
        synchronize_device(device)
        start = time.perf_counter()
        call()
        synchronize_device(device)
        return time.perf_counter() - start

    timed = {method: partial(seconds_of, call) for method, call in calls.items()}
    return [
        {
            "elements": elements,
            "k": k,
            "method": method,
            "seconds": time_spread(times),
            "selected": int((selected[method] != EMPTY).sum()),
            "found": int(torch.isin(selected[method], exact).sum()),
        }
        for method, times in run_in_turns(timed, repeat, uncounted=0).items()
    ]


def make_selector(method: str, vector: torch.Tensor, k: int) -> Callable[[], torch.Tensor]:
    """A call that selects k elements, values and indices, and returns the indices."""
    if method != WHOLE:
        return lambda: selection.select_topk(vector, k, method).indices

    def whole_vector() -> torch.Tensor:
        indices = torch.topk(vector.abs(), k, sorted=False).indices
        _ = vector[indices]
        return indices.to(torch.int32)

    return whole_vector


def device_name(device: torch.device) -> str:
    """The device's name, with the number of threads of a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"cpu ({hardware('', 'cpu')['cpu']}, {threads} thread{'s' * (threads > 1)})"
