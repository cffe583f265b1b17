"""Checks the arguments of `repro recommend`, and makes them a setting and a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from repro.answers.ranking import workload
from repro.answers.ranking.arguments import SECONDS, SIZES, Question, devices_of, parse_amount
from repro.answers.ranking.links import GOODPUT, INSIDE, Quantiles, goodput_of, inside_of
from repro.answers.ranking.setting import Setting, cluster_entries, coarsen_profile
from repro.answers.ranking.workload import Workload
from repro.core.errors import InputError
from repro.experiment import files
from repro.experiment.testbeds import testbed_of


def parse_question(asked: Question) -> tuple[Setting, Workload, list[str], list[str]]:
    """(setting, workload, names of the known inputs, notes for the user)"""
    asked.check()
    load, known, notes = workload.workload_of(asked.model, asked.batch, asked.shape), [], []
    links = links_of(asked)
    if asked.step_ms is not None:
        load = load.with_seconds(asked.step_ms / 1e3, "given")
    elif asked.gpu is not None:
        load, published = on_gpu(asked.gpu, asked.model, asked.batch, load)
        if not published:
            links[COMPUTATION] = ON_GPU
            notes.append("The computation on this GPU is estimated, half of it to twice of it are drawn; give step_ms.")
    elif ":" in asked.model and not load.timed:
        load = workload.timed_here(asked.model, asked.batch, asked.shape, load)
        if not torch.cuda.is_available():
            notes.append(
                "Timed on a CPU: if your workers have GPUs, give step_ms or gpu, or the answer is about CPU workers."
            )
    if load.timed:
        known += [COMPUTATION] * (COMPUTATION not in links)
    else:
        device = cluster_entries()["device"]
        seconds = load.flops / (device["peak_flops"] * device["utilisation"])
        load = load.with_seconds(seconds, "")
        notes.append(
            f"The computation is not given: {seconds * 1e3:.3g} ms are the middle of a wide range; step_ms or gpu "
            "narrows the intervals."
        )
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


# --- seconds on a GPU: the published step of this model on it, or its rate in the papers' testbeds
COMPUTATION = "computation"  # the name of the input
# an estimate is drawn from twice the seconds to a half: models reach different shares of a GPU's peak
ON_GPU = Quantiles.of(
    "device.utilisation", (share * cluster_entries()["device"]["utilisation"] for share in (0.5, 1, 2))
)


def on_gpu(gpu: str, model: str, batch: int, load: Workload) -> tuple[Workload, bool]:
    """(the workload with seconds of this GPU, whether they are published); InputError for a GPU of no testbed, or
    unknown FLOPs."""
    known = devices_of(gpu)
    for bed in _testbeds_of(model):
        if "iteration_s" in (device := known.get(bed, {})):
            source = f"published for {gpu}, {device['iteration_s']:g} s a batch of {device['batch']}"
            return load.with_seconds(device["iteration_s"] * batch / device["batch"], source), True
    rates = [device["peak_flops"] * device["utilisation"] for device in known.values() if "peak_flops" in device]
    if not rates or not load.flops:
        raise InputError(f"gpu {gpu}: nothing is published of {model} on it; give step_ms, the time of a step")
    rate = sorted(rates)[len(rates) // 2]
    source = f"estimated for {gpu}: {rate / 1e12:.2g} TFLOP/s, as its testbeds have it"
    return load.with_seconds(load.flops / rate, source), False


def _testbeds_of(model: str) -> Iterator[str]:
    """The testbeds on which experiments train a model."""
    for experiment in files.group_names("experiment"):
        content = files.own_file(experiment)
        chosen: dict[str, Any] = {}
        for default in content.get("defaults", []):
            chosen |= default if isinstance(default, dict) else {}
        if chosen.get("override /model") == model:
            yield from content.get("testbeds", [])
