"""The arguments of `repro recommend`: their form, amounts with units, and the GPUs of the papers' testbeds.

Nothing here imports PyTorch, so that a wrong argument is answered at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from repro.algorithms.pipeline.profile import load_profile
from repro.answers.ranking.gpus import BF16, FP32, PRECISIONS, has_bf16, measured_gpus, rates_of
from repro.answers.ranking.links import LINKS, TRANSPORTS, Link
from repro.core import own_code
from repro.core.errors import InputError, unknown_name
from repro.core.registry import PLUGINS
from repro.experiment import files, limits

SLOWEST, FASTEST = 1e6, 1e14  # bits/s
SLOWEST_INSIDE, FASTEST_INSIDE = 1e8, 1e13  # bytes/s, inside a machine
SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}  # bits/s, bytes
SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
LONGEST_LATENCY, LONGEST_STEP = 10.0, 1e4  # seconds
# networks of `published_models`
RESNET101, RESNET152, BERT_BASE, BERT_LARGE = "resnet101", "resnet152", "bert_base", "bert_large"
GPT2, VIT = "gpt2", "vit_b_16"
PUBLISHED_MODELS = RESNET101, RESNET152, BERT_BASE, BERT_LARGE, GPT2, VIT
MOST_LATE = 10  # delay of a worker over its computation
LEAST_MEMORY = 1e8  # bytes of a GPU
LEAST_OF_GPUS = 2e12  # FLOP/s at peak


@dataclass(frozen=True)
class Question:
    """The arguments of `recommend`, which explains them."""

    model: str
    bandwidth: float | str | None = None
    workers: int = 0
    goodput: float | str | None = None
    transport: str = "tcp"
    latency: float | str | None = None
    gpus_per_node: int = 1
    intra: float | str | None = None
    step_ms: float | None = None
    gpu: str | None = None
    batch: int = 32
    imbalance: float | None = None
    memory_bytes: float | str | None = None
    shape: Sequence[int] | None = None
    measured: Sequence[str] = ()
    precision: str = FP32

    @property
    def own_runs(self) -> list[tuple[float, int]]:
        """(seconds of an iteration, workers) of each of the user's own runs."""
        return [parse_run(text) for text in self.measured]

    @property
    def most_bits(self) -> float:
        """The most bits/s between two machines: the line, or its goodput if that was measured; infinite if neither is
        given."""
        rates = (("bandwidth", self.bandwidth), ("goodput", self.goodput))
        return next((parse_amount(rate, name, SIZES) for name, rate in rates if rate is not None), math.inf)

    @property
    def in_one_machine(self) -> bool:
        return self.workers <= self.gpus_per_node

    @property
    def link(self) -> Link | None:
        """The kind of link inside a machine, if it is named."""
        return next((link for link in LINKS if link == self.intra), None)

    @property
    def intra_rate(self) -> float | None:
        """The rate of the link inside a machine, bytes/s, if it is given."""
        if self.intra is None or self.link:
            return None
        return 1e9 * parse_amount(str(self.intra).lower().removesuffix("/s").removesuffix("gb"), "intra", {"": 1.0})

    def check(self) -> None:
        """InputError for the first argument that cannot be."""
        for name, value in (("workers", self.workers), ("gpus-per-node", self.gpus_per_node), ("batch", self.batch)):
            if type(value) is not int or value < 1:
                raise InputError(f"{name} {value}: must be a whole number, 1 or more")
        limits.check_limit("workers", self.workers, limits.RANKS)
        if not self.in_one_machine and self.workers % self.gpus_per_node:
            shares = ", ".join(str(n) for n in range(1, self.workers) if self.workers % n == 0)
            raise InputError(
                f"gpus-per-node {self.gpus_per_node}: must divide the {self.workers} workers ({shares}), or be as many "
                "or more"
            )
        self._check_links()
        if self.step_ms is not None and self.gpu is not None:
            raise InputError("step-ms and gpu: give one of them, the time of a step or a GPU with published ones")
        if (ms := self.step_ms) is not None and not 0 < ms <= 1e3 * LONGEST_STEP:
            raise InputError(f"step-ms {ms:g}: must be milliseconds, above 0 and at most {1e3 * LONGEST_STEP:,.0f}")
        if (late := self.imbalance) is not None and not 0 <= late <= MOST_LATE:
            raise InputError(f"imbalance {late:g}: must be a share of the computation, 0 to {MOST_LATE}, as 0.2")
        memory = self.memory_bytes
        if memory is not None and (nbytes := parse_amount(memory, "memory", SIZES)) < LEAST_MEMORY:
            raise InputError(f"memory {memory}: is {nbytes:g} bytes; must be {LEAST_MEMORY / 1e6:g}m or more, as 16G")
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)
        if self.precision != FP32 and self.gpu is None:
            raise InputError(f"precision {self.precision}: is for gpu; step-ms is the time with your own precision")
        if self.gpu is not None:
            check_gpu(self.gpu, self.precision)
        for _, workers in self.own_runs:
            if workers > self.gpus_per_node and workers % self.gpus_per_node:
                raise InputError(f"measured: gpus-per-node {self.gpus_per_node} must divide its {workers} workers")

    def _check_links(self) -> None:
        for name, rate in (("bandwidth", self.bandwidth), ("goodput", self.goodput)):
            if rate is not None:
                check_rate(name, rate)
        if self.bandwidth is not None and self.goodput is not None:
            raise InputError("bandwidth and goodput: give one of them, the line rate or what you measured")
        if self.bandwidth is None and self.goodput is None and not self.in_one_machine:
            raise InputError("bandwidth: is missing; give it (the line rate), or goodput (what you measured), as 10g")
        if self.transport not in TRANSPORTS:
            raise unknown_name("transport", self.transport, TRANSPORTS)
        try:
            rate = self.intra_rate
        except InputError:
            raise InputError(f"intra {self.intra}: must be {', '.join(LINKS)} or GB/s, as 12") from None
        if rate is not None and not SLOWEST_INSIDE <= rate <= FASTEST_INSIDE:
            raise InputError(f"intra {self.intra}: must be 0.1 to 10000 GB/s")
        latency = self.latency
        if latency is not None and (alpha_s := parse_amount(latency, "latency", SECONDS, least=0.0)) > LONGEST_LATENCY:
            raise InputError(f"latency {latency}: is {alpha_s:g} s; must be at most {LONGEST_LATENCY:g} s, as 50us")


def parse_run(text: str) -> tuple[float, int]:
    """(seconds, workers) of a user's run, as 412ms@8."""
    seconds, at, workers = str(text).partition("@")
    if not at or not workers.strip().isdecimal() or int(workers) < 1:
        raise InputError(f"measured {text}: must be the time of an iteration, @, and the workers, as 412ms@8")
    limits.check_limit("workers", int(workers), limits.RANKS)
    step_s = parse_amount(seconds, "measured", SECONDS)
    if not seconds.strip().endswith("s"):
        raise InputError(f"measured {text}: has no unit; must be in s, ms or us, as 412ms@8")
    return step_s, int(workers)


def check_rate(name: str, rate: float | str) -> None:
    """InputError for what is no rate of a network in bits a second."""
    if "B" in str(rate):
        raise InputError(f"{name} {rate}: B is bytes; must be bits a second, 1m to 100000g, as 10g or 10Gbit/s")
    bits = parse_amount(rate, name, SIZES)
    if not SLOWEST <= bits <= FASTEST:
        raise InputError(f"{name} {rate}: is {bits:g} bits a second; must be 1m to 100000g, as 10g")


def check_model(model: str) -> None:
    """InputError for a profile that cannot be read, a name that a user's file does not have, and an unknown model."""
    if model.endswith(".json"):
        load_profile(Path(model))
    elif own_code.is_place(model):
        own_code.admit_plugin(model)
    elif model not in (known := (*PLUGINS["model"].names(), *PUBLISHED_MODELS)):
        raise InputError(
            f"{unknown_name('model', model, known)}; for your own give FILE.py:NAME, a class or function without "
            "arguments that returns a module (docs/recommend.md)"
        )


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


def check_gpu(gpu: str, precision: str) -> None:
    """InputError for a GPU that nothing is known of, with this precision, or that does not compute in it."""
    if precision == BF16 and not has_bf16(gpu):
        raise InputError(f"precision {precision}: {gpu} does not compute in it; must be fp16 or {FP32}")
    if rates_of(gpu, precision) or (precision == FP32 and devices_of(gpu)):
        return
    of_precision = [each.gpu for each in measured_gpus() if each.bits == PRECISIONS[precision]]
    of_testbeds = [str(each["name"]) for each in _devices().values() if is_gpu(each)] if precision == FP32 else []
    kind = "GPU" if precision == FP32 else f"GPU with {precision}"
    names = sorted({*of_precision, *of_testbeds})
    if not gpu:
        raise InputError(f"gpu: needs a name, of {', '.join(names)}; or give step-ms, the time of a step on yours")
    raise InputError(f"{unknown_name(kind, gpu, names)}; or give step-ms, the time of a step on yours")


def devices_of(gpu: str) -> dict[str, dict[str, Any]]:
    """Testbed -> its device, of the testbeds with this GPU."""
    return {bed: device for bed, device in _devices().items() if str(device["name"]).lower() == gpu.lower()}


@cache
def _devices() -> dict[str, dict[str, Any]]:
    every = ((testbed, _device(testbed)) for testbed in files.group_names("testbed"))
    return {testbed: device for testbed, device in every if device.get("name")}


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
