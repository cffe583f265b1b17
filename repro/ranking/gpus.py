"""What a minibatch takes on a GPU: the published step of this model on it, or its rate in the papers' testbeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from repro.core.errors import InputError, unknown
from repro.experiment import files
from repro.ranking.workload import Workload


def timed(gpu: str, model: str, batch: int, found: Workload) -> Workload:
    """The workload with seconds of this GPU; InputError for one that no testbed has, or FLOPs that are not known."""
    every = ((testbed, _device(testbed)) for testbed in files.group_names("testbed"))
    devices = {testbed: device for testbed, device in every if device.get("name")}
    names = sorted({str(device["name"]) for device in devices.values()})
    own = {bed: device for bed, device in devices.items() if str(device["name"]).lower() == gpu.lower()}
    if not own:
        raise unknown("GPU", gpu, names)
    for bed in _testbeds_of(model):
        if "iteration_s" in own.get(bed, {}):
            device = own[bed]
            seconds = device["iteration_s"] * batch / device["batch"]
            return found.taking(
                seconds, f"published for {gpu}, {device['iteration_s']:g} s a batch of {device['batch']}"
            )
    rates = [device["peak_flops"] * device["utilisation"] for device in own.values() if "peak_flops" in device]
    if not rates or not found.flops:
        raise InputError(f"gpu {gpu}: nothing is published of {model} on it; step_ms says how long a step takes")
    rate = sorted(rates)[len(rates) // 2]
    return found.taking(found.flops / rate, f"estimated for {gpu}: {rate / 1e12:.2g} TFLOP/s, as its testbeds have it")


def _device(testbed: str) -> dict[str, Any]:
    """A testbed's device, over those of the testbeds that its file names in `defaults`."""
    own = files.group_file("testbed", testbed)
    found: dict[str, Any] = {}
    for default in own.get("defaults", []):
        base = str(default).partition("@")[0].removeprefix("/").removeprefix("testbed/")
        if base in files.group_names("testbed"):
            found |= _device(base)
    return found | (own.get("device") or {})


def _testbeds_of(model: str) -> Iterator[str]:
    """The testbeds on which experiments train a model."""
    for experiment in files.group_names("experiment"):
        own = files.own_file(experiment)
        chosen: dict[str, Any] = {}
        for default in own.get("defaults", []):
            chosen |= default if isinstance(default, dict) else {}
        if chosen.get("override /model") == model:
            yield from own.get("testbeds", [])
