"""Checks the arguments of `repro recommend`, and makes them a setting and a workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from repro.answers.ranking import workload
from repro.answers.ranking.arguments import SECONDS, SIZES, check_arguments, devices_of, parse_amount
from repro.answers.ranking.setting import Setting, cluster_entries
from repro.answers.ranking.workload import Workload
from repro.core.errors import InputError
from repro.experiment import files
from repro.experiment.testbeds import testbed_of


def parse_question(
    model: str, bandwidth: float | str, workers: int, latency: float | str | None, gpus_per_node: int,
    step_ms: float | None, gpu: str | None, batch: int, imbalance: float | None, shape: Sequence[int] | None,
) -> tuple[Setting, Workload, list[str], list[str]]:  # fmt: skip
    """(setting, workload, names of the known inputs, notes for the user)"""
    check_arguments(bandwidth, workers, latency, gpus_per_node, step_ms, gpu, batch, imbalance)
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
    entries: dict[str, Any] = {"beta_s_per_byte": 8 / parse_amount(bandwidth, "bandwidth", SIZES)}
    if latency is not None:
        entries["alpha_s"] = parse_amount(latency, "latency", SECONDS, least=0.0)
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


# --- seconds on a GPU: the published step of this model on it, or its rate in the papers' testbeds
def on_gpu(gpu: str, model: str, batch: int, load: Workload) -> Workload:
    """The workload with seconds of this GPU; InputError for a GPU of no testbed, or unknown FLOPs."""
    known = devices_of(gpu)
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


def _testbeds_of(model: str) -> Iterator[str]:
    """The testbeds on which experiments train a model."""
    for experiment in files.group_names("experiment"):
        content = files.own_file(experiment)
        chosen: dict[str, Any] = {}
        for default in content.get("defaults", []):
            chosen |= default if isinstance(default, dict) else {}
        if chosen.get("override /model") == model:
            yield from content.get("testbeds", [])
