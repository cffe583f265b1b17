"""The arguments of `repro recommend`: their form, amounts with units, and the GPUs of the papers' testbeds.

Nothing here imports PyTorch, so that a wrong argument is answered at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.algorithms.pipeline.profile import load_profile
from repro.core import own_code
from repro.core.errors import InputError, unknown_name
from repro.core.registry import PLUGINS
from repro.experiment import files, limits

SLOWEST, FASTEST = 1e6, 1e14  # bits/s
SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}  # bits/s, bytes
SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
LONGEST_LATENCY, LONGEST_STEP = 10.0, 1e4  # seconds
PUBLISHED_MODELS = RESNET101, BERT_BASE, BERT_LARGE = "resnet101", "bert_base", "bert_large"  # `published_models`
LEAST_MEMORY = 1e8  # bytes of a GPU
LEAST_OF_GPUS = 2e12  # FLOP/s at peak


def check_arguments(
    bandwidth: float | str, workers: int, latency: float | str | None, gpus_per_node: int, step_ms: float | None,
    gpu: str | None, batch: int, imbalance: float | None, memory: float | str | None = None,
) -> None:  # fmt: skip
    """InputError for the first argument that cannot be."""
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
    if latency is not None and (alpha_s := parse_amount(latency, "latency", SECONDS, least=0.0)) > LONGEST_LATENCY:
        raise InputError(f"latency {latency}: is {alpha_s:g} s; must be at most {LONGEST_LATENCY:g} s, as 50us")
    if memory is not None and (nbytes := parse_amount(memory, "memory", SIZES)) < LEAST_MEMORY:
        raise InputError(f"memory {memory}: is {nbytes:g} bytes; must be {LEAST_MEMORY / 1e6:g}m or more, as 16G")
    if gpu is not None:
        devices_of(gpu)


def check_model(model: str) -> None:
    """InputError for a profile that cannot be read, a name that a user's file does not have, and an unknown model."""
    if model.endswith(".json"):
        load_profile(Path(model))
    elif own_code.is_place(model):
        own_code.admit_plugin(model)
    elif model not in (known := (*PLUGINS["model"].names(), *PUBLISHED_MODELS)):
        raise InputError(f"{unknown_name('model', model, known)}; or FILE.py:Class of a module, or FILE.json")


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


def devices_of(gpu: str) -> dict[str, dict[str, Any]]:
    """Testbed -> its device, of the testbeds with this GPU; InputError for a GPU of no testbed."""
    every = ((testbed, _device(testbed)) for testbed in files.group_names("testbed"))
    devices = {testbed: device for testbed, device in every if device.get("name")}
    known = {bed: device for bed, device in devices.items() if str(device["name"]).lower() == gpu.lower()}
    if not known:
        raise unknown_name("GPU", gpu, sorted({str(each["name"]) for each in devices.values() if is_gpu(each)}))
    return known


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
