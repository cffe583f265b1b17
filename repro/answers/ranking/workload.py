"""Workloads: the profile of a model by its name, of a user's own module, or from a file of `repro profile`."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from repro import data, models
from repro.algorithms.pipeline import profile as profiles
from repro.algorithms.pipeline import profiler
from repro.algorithms.pipeline.layers import Layer, Profile, tensor_bytes
from repro.algorithms.pipeline.shapes import count_saved
from repro.algorithms.timing.setting import slow_profile
from repro.answers.ranking import published_models
from repro.answers.ranking.arguments import check_model
from repro.answers.ranking.attention import attention_is_fused
from repro.core import own_code
from repro.core.errors import InputError
from repro.data.base import WORD_KINDS
from repro.training.device_times import BACKWARD_TO_FORWARD

IMAGE = (3, 224, 224)
TOKENS = (128,)
TIMED, TIMED_S, STEPS = 8, 4.0, 5  # the most samples of a step, seconds and steps to time a user's module


@dataclass(frozen=True)
class Workload:
    """A model and a minibatch of one worker.

    profile      layers in order of execution; seconds are shares of `flops` until it is timed
    flops        of a forward and a backward pass; 0: unknown
    matrices     (rows, columns) of the parameters with two or more dimensions; None: unknown
    activations  bytes that a forward pass keeps for the backward pass
    products     whether most of its FLOPs are in matrix products, not in convolutions
    timed        the source of the seconds; "": they are unknown
    words        of a sample; 0: its values are no words
    gpu          with published steps, if the seconds are its
    precision    of those steps
    """

    profile: Profile
    flops: float
    matrices: tuple[tuple[int, int], ...] | None
    activations: float
    products: bool = False
    timed: str = ""
    words: int = 0
    gpu: str = ""
    precision: str = ""

    @property
    def parameters(self) -> int:
        return round(sum(layer.parameter_bytes for layer in self.profile.layers) / 4)

    def with_seconds(self, seconds: float, source: str) -> Workload:
        """The workload with a forward and backward pass of `seconds`, shared between layers as before."""
        return replace(self, profile=slow_profile(self.profile, seconds / self.profile.seconds), timed=source)


def workload_of(model: str, batch: int, shape: Sequence[int] | None = None) -> Workload:
    """The workload of FILE.json, FILE.py:Class, or a model's name; InputError for anything else."""
    if model.endswith(".json"):
        return of_profile(Path(model))
    if ":" in model:
        name = model.rpartition(":")[2]
        try:
            with torch.device("meta"):  # a large model is not allocated
                built = _loaded(model)
            return of_module(on_meta(built), name, batch, shape)
        except InputError:  # it needs values, or the input is wrong: the CPU shows which
            return of_module(_loaded(model), name, batch, shape)
    if model in published_models.BUILD:
        build, own_shape = published_models.BUILD[model]
        with torch.device("meta"):
            return of_module(build(), model, batch, shape or own_shape)
    check_model(model)
    dataset = profiler.usual_dataset(model)
    real = data.load_shapes(dataset)
    built = copy.deepcopy(models.build_model(model, real.input_shape, real.classes, 0, "meta"))  # it keeps its state
    return of_module(built, model, batch, real.input_shape, real.kind in WORD_KINDS)


def of_profile(path: Path) -> Workload:
    profile = profiles.load_profile(path)
    if not profile.seconds:
        raise InputError(f"{path}: its layers take no time; must have forward_s and backward_s")
    activations = sum(layer.activation_bytes for layer in profile.layers)
    return Workload(profile, 0.0, None, activations, timed=f"{profile.source} on {profile.hardware}")


def _loaded(place: str) -> nn.Module:
    """The module that a user's class or function FILE.py:NAME returns."""
    own_code.admit_plugin(place)
    try:
        made = own_code.load_plugin(place)
        needed = own_code.plugin_parameters(made, ())
        if missing := [name for name, each in needed.items() if each.default is each.empty]:
            raise InputError(f"{place}: has no default for {', '.join(missing)}; must need no arguments")
        module = made()
    except InputError:
        raise
    except Exception as error:  # whatever a user's file raises
        raise InputError(f"{place}: {type(error).__name__}: {_first_line(error)}") from None
    if not isinstance(module, nn.Module):
        raise InputError(f"{place}: is a {type(module).__name__}; must be an nn.Module that needs no arguments")
    return module


def on_meta(module: nn.Module) -> nn.Module:
    """The module on the meta device, where tied parameters stay one, which `Module.to` makes several."""
    copies: dict[nn.Parameter, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                copy = nn.Parameter(parameter.to("meta"), parameter.requires_grad)
                part._parameters[name] = copies.setdefault(parameter, copy)
    return module.to("meta")


@dataclass(frozen=True)
class _Samples:
    """The input of a module: word numbers (unless told: if it has an embedding), or floats; shape: of one sample."""

    shape: tuple[int, ...]
    words: bool

    @classmethod
    def of(cls, module: nn.Module, shape: Sequence[int] | None, words: bool | None = None) -> _Samples:
        if words is None:
            words = any(isinstance(part, nn.Embedding) for part in module.modules())
        return cls(tuple(shape) if shape else (TOKENS if words else IMAGE), words)

    def made(self, size: int, device: str | torch.device) -> torch.Tensor:
        if self.words:
            return torch.zeros(size, *self.shape, dtype=torch.int64, device=device)
        return torch.rand(size, *self.shape, device=device)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def of_module(
    module: nn.Module, name: str, batch: int, shape: Sequence[int] | None, words: bool | None = None
) -> Workload:
    """The workload of a module: the submodules with parameters of their own are its layers, in order of execution.

    A module on the meta device computes nothing; any other runs its forward pass once on the CPU. words: see
    `_Samples`.
    """
    parameters = list(module.parameters())
    if not sum(p.numel() for p in parameters if p.requires_grad):
        raise InputError(f"model {name}: has no parameters to train")
    samples = _Samples.of(module, shape, words)
    try:
        return _traced(module, name, batch, samples)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"model {name}: its forward pass fails on {batch} x {' x '.join(map(str, samples.shape))} "
            f"{'word numbers' if samples.words else 'values'} ({_first_line(error)}); --input sets another shape"
        ) from None


def _traced(module: nn.Module, name: str, batch: int, samples: _Samples) -> Workload:
    meta = all(p.is_meta for p in module.parameters())
    if meta:
        module.to("meta")  # its buffers too
    size = batch if meta else min(batch, 2)  # what it computes grows with the batch
    x = samples.made(size, "meta" if meta else "cpu")
    with (
        FlopCounterMode(display=False) as counter,
        _recorded(module, counter) as parts,
        attention_is_fused(),
        count_saved(module.parameters()) as activations,
    ):
        module(x)
    layers, scale = [], batch / size
    total = sum(part.flops for part in parts) or 1.0
    seen: set[int] = set()
    ran = {part.module for part in parts}
    for part in parts:
        weights = [p for p in part.own(ran) if p.requires_grad and id(p) not in seen]
        seen |= {id(p) for p in weights}
        share = part.flops / total / (1 + BACKWARD_TO_FORWARD)
        size_bytes = sum(map(tensor_bytes, weights))
        layers.append(Layer(part.name, share, BACKWARD_TO_FORWARD * share, part.nbytes * scale, size_bytes))
    if not layers:
        raise InputError(f"model {name}: none of its parts with parameters runs in its forward pass")
    matrices = tuple(
        (p.shape[0], p.numel() // p.shape[0]) for p in module.parameters() if p.requires_grad and p.dim() > 1
    )
    flops = counter.get_total_flops() * (1 + BACKWARD_TO_FORWARD) * scale
    operations = counter.get_flop_counts()["Global"]
    convolved = sum(count for operation, count in operations.items() if "convolution" in str(operation))
    products = 2 * convolved < counter.get_total_flops()
    profile = Profile(name, batch, "", tuple(layers), None, None, "estimated", tensor_bytes(x) * scale)
    words = math.prod(samples.shape) if samples.words else 0
    return Workload(profile, flops, matrices, activations.nbytes * scale, products, words=words)


class _Part:
    """A submodule that ran: its FLOPs without those of its own recorded submodules, and the bytes of its output."""

    def __init__(self, name: str, module: nn.Module):
        self.name, self.module, self.flops, self.nbytes = name or "model", module, 0.0, 0.0

    def own(self, ran: Collection[nn.Module]) -> Iterator[nn.Parameter]:
        """Its parameters, and those of modules inside it that are not called, as an attention's output projection."""
        for each in self.module.modules():
            if each is self.module or each not in ran:
                yield from each.parameters(recurse=False)


@contextmanager
def _recorded(module: nn.Module, counter: FlopCounterMode) -> Iterator[list[_Part]]:
    """The submodules with parameters of their own that run, each once, in order."""
    parts: list[_Part] = []
    running: list[list[float]] = []  # [FLOPs at the start, FLOPs of recorded submodules]
    by_module: dict[int, _Part] = {}
    handles = []

    def begin(module: nn.Module, _: Any) -> None:
        running.append([float(counter.get_total_flops()), 0.0])

    def end(module: nn.Module, _: Any, out: Any) -> None:
        before, inner = running.pop()
        whole = float(counter.get_total_flops()) - before
        if running:
            running[-1][1] += whole
        part = by_module.get(id(module))
        if part is None:
            part = by_module[id(module)] = _Part(names[id(module)], module)
            parts.append(part)
        part.flops += whole - inner
        part.nbytes = sum(tensor_bytes(t) for t in float_tensors(out))

    names = {id(each): name for name, each in module.named_modules()}
    for each in module.modules():
        if each._parameters:
            handles += [each.register_forward_pre_hook(begin), each.register_forward_hook(end)]
    try:
        yield parts
    finally:
        for handle in handles:
            handle.remove()


def float_tensors(out: Any) -> list[torch.Tensor]:
    """The floating-point tensors in a module's output."""
    if isinstance(out, torch.Tensor):
        return [out] if out.is_floating_point() else []
    parts = out.values() if isinstance(out, dict) else out if isinstance(out, tuple | list) else ()
    return [tensor for part in parts for tensor in float_tensors(part)]


def timed_here(model: str, batch: int, shape: Sequence[int] | None, load: Workload) -> Workload:
    """The workload of a user's module with measured seconds, on this machine's GPU if torch sees one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = _loaded(model).to(device)
    samples = _Samples.of(module, shape)

    def step(size: int) -> float:
        x = samples.made(size, device)
        start = time.perf_counter()
        sum(out.float().mean() for out in float_tensors(module(x))).backward()  # type: ignore[union-attr]
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    size = min(batch, TIMED)
    if device.type == "cpu":  # as many samples as STEPS steps have time for
        size = max(1, min(size, int(TIMED_S / STEPS / step(1))))
    times, start = [step(size)], time.perf_counter()
    while len(times) <= STEPS and time.perf_counter() - start < TIMED_S:
        times.append(step(size))
    seconds = statistics.median(times[1:]) * batch / size
    part = "" if size == batch else f", in proportion to {size} sample{'s' * (size > 1)}"
    return load.with_seconds(seconds, f"timed on this machine{part}: {profiler.hardware_name(device)}")
