"""What is asked of `repro recommend`, checked: a setting, a workload, and which of their inputs are given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from repro.core.errors import InputError
from repro.experiment import limits
from repro.experiment.testbeds import testbed_of
from repro.ranking import gpus, workload
from repro.ranking.setting import Setting, cluster
from repro.ranking.workload import Workload

SLOWEST, FASTEST = 1e6, 1e14  # bits/s
SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}  # bits/s, bytes
SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}


def of(
    model: str, bandwidth: float | str, workers: int, latency: float | str | None, gpus_per_node: int,
    step_ms: float | None, gpu: str | None, batch: int, imbalance: float | None, shape: Sequence[int] | None,
) -> tuple[Setting, Workload, list[str], list[str]]:  # fmt: skip
    """(setting, workload, names of the inputs that are given, notes)"""
    for name, value in (("workers", workers), ("gpus-per-node", gpus_per_node), ("batch", batch)):
        if type(value) is not int or value < 1:
            raise InputError(f"{name} {value}: must be a whole number, 1 or more")
    limits.check("workers", workers, limits.RANKS)
    bits = amount(bandwidth, "bandwidth", SIZES)
    if not SLOWEST <= bits <= FASTEST:
        raise InputError(f"bandwidth {bandwidth}: is {bits:g} bits a second; must be 1m to 100000g, as 10g")
    if step_ms is not None and gpu is not None:
        raise InputError("step_ms and gpu: give one of them")
    if step_ms is not None and not (math.isfinite(step_ms) and step_ms > 0):
        raise InputError(f"step_ms {step_ms:g}: must be a number above 0")
    if imbalance is not None and not 0 <= imbalance <= 100:
        raise InputError(f"imbalance {imbalance:g}: must be a share of the computation, 0 or more and at most 100")
    load, given, notes = workload.of(model, batch, shape), [], []
    if step_ms is not None:
        load = load.taking(step_ms / 1e3, "given")
    elif gpu is not None:
        load = gpus.timed(gpu, model, batch, load)
    elif ":" in model and not load.timed:
        load = workload.timed_here(model, batch, shape, load)
        if not torch.cuda.is_available():
            notes.append("Timed on a CPU: if your workers are GPUs, give step_ms or gpu, or the answer is of CPUs.")
    if load.timed:
        given.append("computation")
    else:
        device = cluster()["device"]
        seconds = load.flops / (device["peak_flops"] * device["utilisation"])
        load = load.taking(seconds, "")
        notes.append(
            f"The computation is not given: {seconds * 1e3:.3g} ms are the middle of a wide range; step_ms or gpu "
            "narrows the intervals."
        )
    entries: dict[str, Any] = {"beta_s_per_byte": 8 / bits}
    if latency is not None:
        entries["alpha_s"] = amount(latency, "latency", SECONDS, least=0.0)
        given.append("alpha")
    if gpus_per_node == 1:
        given.append("local beta")
    if imbalance is not None or workers == 1:
        given.append("skew")
    bed: Any = testbed_of(cluster())
    setting = Setting(load.profile, workers, bed, gpus_per_node, imbalance or 0.0, load.matrices)
    return setting.with_entries(**entries), load, given, notes


def amount(given: float | str, name: str, units: Mapping[str, float], least: float | None = None) -> float:
    """A number with a unit; InputError where it is none, or not above 0 (or below `least`)."""
    text = str(given).strip().lower()
    for ending in ("bit/s", "bps", "b/s", "ib", "b"):
        if units is not SECONDS:
            text = text.removesuffix(ending)
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(digits) :]
    try:
        found = float(digits) * units[unit]
        if not (math.isfinite(found) and (found > 0 if least is None else found >= least)):
            raise ValueError
    except (ValueError, KeyError):
        allowed = ", ".join(filter(None, units))
        bound = "above 0" if least is None else f"of {least:g} or more"
        raise InputError(f"{name} {given}: must be a number {bound}, with a unit of {allowed} or none") from None
    return found
