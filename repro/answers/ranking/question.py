"""Checks the arguments of `repro recommend`, and makes them a setting and a workload."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from repro.answers.ranking import workload
from repro.answers.ranking.setting import Setting, cluster_entries
from repro.answers.ranking.workload import Workload
from repro.core.errors import InputError, unknown_name
from repro.experiment import files, limits
from repro.experiment.testbeds import testbed_of

SLOWEST, FASTEST = 1e6, 1e14  # bits/s
SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}  # bits/s, bytes
SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
LONGEST_LATENCY, LONGEST_STEP = 10.0, 1e4  # seconds
LEAST_OF_GPUS = 2e12  # FLOP/s at peak


def parse_question(
    model: str, bandwidth: float | str, workers: int, latency: float | str | None, gpus_per_node: int,
    step_ms: float | None, gpu: str | None, batch: int, imbalance: float | None, shape: Sequence[int] | None,
) -> tuple[Setting, Workload, list[str], list[str]]:  # fmt: skip
    """(setting, workload, names of the known inputs, notes for the user)"""
    for name, value in (("workers", workers), ("gpus-per-node", gpus_per_node), ("batch", batch)):
        if type(value) is not int or value < 1:
            raise InputError(f"{name} {value}: must be a whole number, 1 or more")
    limits.check_limit("workers", workers, limits.RANKS)
    if workers > gpus_per_node and workers % gpus_per_node:
        raise InputError(f"gpus-per-node {gpus_per_node}: must divide the {workers} workers, or be as many or more")
    if "B" in str(bandwidth):
        raise InputError(f"bandwidth {bandwidth}: B is bytes; must be bits a second, 1m to 100000g, as 10g or 10Gbit/s")
    bits = parse_amount(bandwidth, "bandwidth", SIZES)
    if not SLOWEST <= bits <= FASTEST:
        raise InputError(f"bandwidth {bandwidth}: is {bits:g} bits a second; must be 1m to 100000g, as 10g")
    if step_ms is not None and gpu is not None:
        raise InputError("step_ms and gpu: give one of them")
    if step_ms is not None and not 0 < step_ms <= 1e3 * LONGEST_STEP:
        raise InputError(f"step_ms {step_ms:g}: must be milliseconds, above 0 and at most {1e3 * LONGEST_STEP:,.0f}")
    if imbalance is not None and not 0 <= imbalance <= 100:
        raise InputError(f"imbalance {imbalance:g}: must be a share of the computation, 0 or more and at most 100")
    load, known, notes = workload.workload_of(model, batch, shape), [], []
    if step_ms is not None:
        load = load.with_seconds(step_ms / 1e3, "given")
    elif gpu is not None:
        load = on_gpu(gpu, model, batch, load)
    elif ":" in model and not load.timed:
        load = workload.timed_here(model, batch, shape, load)
        if not torch.cuda.is_available():
            notes.append(
                "Timed on a CPU: if your workers have GPUs, give step_ms or gpu, or the answer is about CPU workers."
            )
    if load.timed:
        known.append("computation")
    else:
        device = cluster_entries()["device"]
        seconds = load.flops / (device["peak_flops"] * device["utilisation"])
        load = load.with_seconds(seconds, "")
        notes.append(
            f"The computation is not given: {seconds * 1e3:.3g} ms are the middle of a wide range; step_ms or gpu "
            "narrows the intervals."
        )
    entries: dict[str, Any] = {"beta_s_per_byte": 8 / bits}
    if latency is not None:
        entries["alpha_s"] = alpha_s = parse_amount(latency, "latency", SECONDS, least=0.0)
        if alpha_s > LONGEST_LATENCY:
            raise InputError(f"latency {latency}: is {alpha_s:g} s; must be at most {LONGEST_LATENCY:g} s, as 50us")
        known.append("alpha")
    if gpus_per_node == 1:
        known.append("local beta")
    elif workers <= gpus_per_node:
        known.append("alpha")
        notes.append("All workers are in one machine: bandwidth and latency between machines are not used.")
    if imbalance is not None or workers == 1:
        known.append("skew")
    bed: Any = testbed_of(cluster_entries())
    setting = Setting(load.profile, workers, bed, gpus_per_node, imbalance or 0.0, load.matrices)
    return setting.with_entries(**entries), load, known, notes


def parse_amount(value: float | str, name: str, units: Mapping[str, float], least: float | None = None) -> float:
    """A number with a unit; InputError if it is none, not above 0, or below `least`."""
    text = str(value).strip().lower()
    for ending in ("bit/s", "bps", "b/s", "ib", "b"):
        if units is not SECONDS:
            text = text.removesuffix(ending)
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        number = float(digits) * units[text[len(digits) :]]
        if not (math.isfinite(number) and (number > 0 if least is None else number >= least)):
            raise ValueError
    except (ValueError, KeyError):
        allowed = ", ".join(filter(None, units))
        bound = "above 0" if least is None else f"of {least:g} or more"
        raise InputError(f"{name} {value}: must be a number {bound}, with a unit of {allowed} or none") from None
    return number


# --- seconds on a GPU: the published step of this model on it, or its rate in the papers' testbeds
def on_gpu(gpu: str, model: str, batch: int, load: Workload) -> Workload:
    """The workload with seconds of this GPU; InputError for a GPU of no testbed, or unknown FLOPs."""
    every = ((testbed, _device(testbed)) for testbed in files.group_names("testbed"))
    devices = {testbed: device for testbed, device in every if device.get("name")}
    known = {bed: device for bed, device in devices.items() if str(device["name"]).lower() == gpu.lower()}
    if not known:
        raise unknown_name("GPU", gpu, sorted({str(each["name"]) for each in devices.values() if is_gpu(each)}))
    for bed in _testbeds_of(model):
        if "iteration_s" in (device := known.get(bed, {})):
            source = f"published for {gpu}, {device['iteration_s']:g} s a batch of {device['batch']}"
            return load.with_seconds(device["iteration_s"] * batch / device["batch"], source)
    rates = [device["peak_flops"] * device["utilisation"] for device in known.values() if "peak_flops" in device]
    if not rates or not load.flops:
        raise InputError(f"gpu {gpu}: nothing is published of {model} on it; give step_ms, the time of a step")
    rate = sorted(rates)[len(rates) // 2]
    return load.with_seconds(
        load.flops / rate, f"estimated for {gpu}: {rate / 1e12:.2g} TFLOP/s, as its testbeds have it"
    )


def is_gpu(device: Mapping[str, Any]) -> bool:
    """Whether a testbed's device is a GPU: the papers' CPUs, and devices made up to explain a result, are slower."""
    return float(device.get("peak_flops", 0.0)) >= LEAST_OF_GPUS


def _device(testbed: str) -> dict[str, Any]:
    """A testbed's device, merged with those of the testbeds that its file names in `defaults`."""
    entries = files.group_file("testbed", testbed)
    device: dict[str, Any] = {}
    for default in entries.get("defaults", []):
        base = str(default).partition("@")[0].removeprefix("/").removeprefix("testbed/")
        if base in files.group_names("testbed"):
            device |= _device(base)
    return device | (entries.get("device") or {})


def _testbeds_of(model: str) -> Iterator[str]:
    """The testbeds on which experiments train a model."""
    for experiment in files.group_names("experiment"):
        content = files.own_file(experiment)
        chosen: dict[str, Any] = {}
        for default in content.get("defaults", []):
            chosen |= default if isinstance(default, dict) else {}
        if chosen.get("override /model") == model:
            yield from content.get("testbeds", [])
