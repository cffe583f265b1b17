"""Checks the arguments of `repro recommend`, and makes them a setting and a workload."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from repro.algorithms.timing.setting import Setting, coarsen_profile
from repro.answers.ranking import workload
from repro.answers.ranking.arguments import SECONDS, SIZES, Question, devices_of, parse_amount
from repro.answers.ranking.cluster import cluster_entries
from repro.answers.ranking.gpus import FP32, PRECISIONS, rates_of
from repro.answers.ranking.links import GOODPUT, INSIDE, Quantiles, goodput_of, inside_of
from repro.answers.ranking.stored_workloads import find_workload
from repro.answers.ranking.workload import Workload
from repro.core.errors import InputError
from repro.experiment import files
from repro.experiment.testbeds import testbed_of


def parse_question(asked: Question) -> tuple[Setting, Workload, list[str], list[str]]:
    """(setting, workload, names of the known inputs, notes for the user)"""
    asked.check()
    load, known, notes = find_workload(asked.model, asked.batch, asked.shape), [], []
    links = links_of(asked)
    if asked.step_ms is not None:
        load = load.with_seconds(asked.step_ms / 1e3, "given")
    elif asked.gpu is not None:
        load, spread = on_gpu(asked.gpu, asked.precision, asked.model, asked.batch, load)
        kept = load.activations * PRECISIONS[asked.precision] / PRECISIONS[FP32]
        load = replace(load, gpu=asked.gpu, precision=asked.precision, activations=kept)
        if spread:
            links[COMPUTATION] = spread
    elif ":" in asked.model and not load.timed:
        load = workload.timed_here(asked.model, asked.batch, asked.shape, load)
        if not torch.cuda.is_available():
            notes.append(
                "Timed on a CPU: if your workers have GPUs, give step-ms or gpu, or the answer is about CPU workers."
            )
    if load.timed:
        known += [COMPUTATION] * (COMPUTATION not in links)
    else:
        device = cluster_entries()["device"]
        seconds = load.flops / (device["peak_flops"] * device["utilisation"])
        load = load.with_seconds(seconds, "")
    if asked.latency is not None or (asked.in_one_machine and asked.gpus_per_node > 1):
        known.append("alpha")
    if asked.in_one_machine and asked.gpus_per_node > 1:
        if asked.bandwidth or asked.goodput or asked.latency:
            notes.append("All workers are in one machine: bandwidth and latency between machines are not used.")
        if asked.intra is None:
            notes.append("What joins the GPUs is not given: intra (nvlink, pcie3, pcie4, GB/s) narrows the intervals.")
    if asked.imbalance is not None or asked.workers == 1:
        known.append("skew")
    bed: Any = testbed_of(cluster_entries())
    setting = Setting(
        load.profile, asked.workers, bed, asked.gpus_per_node, asked.imbalance or 0.0, load.matrices, links,
        coarsen_profile(load.profile),
    )  # fmt: skip
    return setting.with_entries(**link_entries(asked, links_of(asked))), load, known, notes


def computation_notes(setting: Setting, load: Workload) -> list[str]:
    """What to know of a computation that is not given."""
    if COMPUTATION in setting.links:
        spread = setting.links[COMPUTATION]
        low, high = (spread.at(0.5) / spread.at(end) for end in (1, 0))
        return [f"The computation on this GPU is drawn, {low:.2g} to {high:.2g} of that; give step-ms."]
    if not load.timed:
        return ["The computation is not given: it is the middle of a wide range; step-ms or gpu narrows the intervals."]
    return []


def links_of(asked: Question) -> dict[str, Quantiles]:
    """What the links may deliver, as far as the user has not said it: between machines, and inside one."""
    links = {}
    if asked.bandwidth is not None and not asked.in_one_machine:
        transport: Any = asked.transport
        links[GOODPUT] = goodput_of(transport, parse_amount(asked.bandwidth, "bandwidth", SIZES))
    if asked.gpus_per_node > 1 and asked.intra_rate is None:
        links[INSIDE] = inside_of(asked.link)
    return links


def link_entries(asked: Question, links: Mapping[str, Quantiles]) -> dict[str, Any]:
    """The testbed's entries of the links: what is given, else medians."""
    entries: dict[str, Any] = {link.path: link.at(0.5) for link in links.values()}
    if asked.goodput is not None:
        entries["beta_s_per_byte"] = 8 / parse_amount(asked.goodput, "goodput", SIZES)
    if asked.intra_rate is not None:
        entries["local_beta_s_per_byte"] = 1 / asked.intra_rate
    if asked.latency is not None:
        entries["alpha_s"] = parse_amount(asked.latency, "latency", SECONDS, least=0.0)
    return entries


# --- seconds on a GPU: the published steps of this model on it, or the rate at which it computed others
COMPUTATION = "computation"  # the name of the input
APART = 2.0  # models reach different shares of a GPU's peak: an estimate is drawn from its half to its double


def on_gpu(gpu: str, precision: str, model: str, batch: int, load: Workload) -> tuple[Workload, Quantiles | None]:
    """(the workload with seconds of this GPU, what they are drawn from); InputError for unknown FLOPs."""
    measured = rates_of(gpu, precision)
    own = [each.per_s for each in measured if each.model == model]
    if own:
        seconds = batch / statistics.median(own)
        return load.with_seconds(
            seconds, f"published for {gpu} in {PRECISIONS[precision]} bits, {len(own)} times"
        ), _spread(own)
    known = devices_of(gpu) if precision == FP32 else {}
    for bed in _testbeds_of(model):
        if "iteration_s" in (device := known.get(bed, {})):
            source = f"published for {gpu}, {device['iteration_s']:g} s a batch of {device['batch']}"
            return load.with_seconds(device["iteration_s"] * batch / device["batch"], source), None
    alike = [each for each in measured if each.products == load.products] or measured
    rates = [each.per_s * (1e9 * each.gflop if each.gflop else find_workload(each.model, 1).flops) for each in alike]
    rates = rates or [device["peak_flops"] * device["utilisation"] for device in known.values()
                      if "peak_flops" in device]  # fmt: skip
    if not rates or not load.flops:
        raise InputError(f"gpu {gpu}: nothing is published of {model} on it; give step-ms, the time of a step")
    rate = statistics.median(rates)
    kind = "matrix products" if load.products else "convolutions"
    of = f"other models of {kind}" if alike != measured else "other models" if measured else "its testbeds"
    source = f"estimated for {gpu} in {PRECISIONS[precision]} bits: {rate / 1e12:.2g} TFLOP/s, as of {of}"
    return load.with_seconds(load.flops / rate, source), _spread([min(rates) / APART, rate, max(rates) * APART])


def _spread(rates: Sequence[float]) -> Quantiles | None:
    """What the computation is drawn from, if published rates differ: the device's utilisation, in their proportion."""
    if len(rates) == 1:
        return None
    usual, middle = cluster_entries()["device"]["utilisation"], statistics.median(rates)
    return Quantiles.of("device.utilisation", (usual * rate / middle for rate in rates))


def _testbeds_of(model: str) -> Iterator[str]:
    """The testbeds on which experiments train a model."""
    for experiment in files.group_names("experiment"):
        content = files.own_file(experiment)
        chosen: dict[str, Any] = {}
        for default in content.get("defaults", []):
            chosen |= default if isinstance(default, dict) else {}
        if chosen.get("override /model") == model:
            yield from content.get("testbeds", [])
