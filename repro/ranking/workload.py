"""What is trained, as a profile: a model by its name, a user's own module, or a file of `repro profile`."""

from __future__ import annotations

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
from repro.algorithms.pipeline.memory import counted
from repro.core import own_code
from repro.core.errors import InputError, unknown
from repro.ranking import published_models
from repro.ranking.setting import coarse, slower
from repro.training.device_times import BACKWARD_TO_FORWARD

IMAGE = (3, 224, 224)
TOKENS = (128,)
TIMED, TIMED_S, STEPS = 8, 4.0, 5  # samples of a step, seconds, and steps at most when a user's module is timed


@dataclass(frozen=True)
class Workload:
    """A model and a minibatch of one worker.

    profile   its layers in order of execution, few enough to simulate; seconds are shares of `flops` until it is timed
    flops     of a forward and a backward pass; 0: unknown
    matrices  (rows, columns) of the parameters that have them
    kept      bytes that a backward pass keeps of a forward pass
    timed     where the seconds are from; "": they are not known, and have to be given or assumed
    """

    profile: Profile
    flops: float
    matrices: tuple[tuple[int, int], ...] | None
    kept: float
    timed: str = ""

    @property
    def parameters(self) -> int:
        return round(sum(layer.parameter_bytes for layer in self.profile.layers) / 4)

    def taking(self, seconds: float, source: str) -> Workload:
        """The same, with a forward and backward pass of so many seconds, shared as before."""
        return replace(self, profile=slower(self.profile, seconds / self.profile.seconds), timed=source)


def of(model: str, batch: int, shape: Sequence[int] | None = None) -> Workload:
    """By what a user names: FILE.json, FILE.py:Class, or a model; InputError for anything else."""
    if model.endswith(".json"):
        return of_profile(Path(model))
    if ":" in model:
        name = model.rpartition(":")[2]
        try:
            return of_module(_loaded(model).to("meta"), name, batch, shape)
        except InputError:  # it needs values, or its input is wrong, which the same on the CPU tells
            return of_module(_loaded(model), name, batch, shape)
    if model in published_models.BUILD:
        build, own_shape = published_models.BUILD[model]
        with torch.device("meta"):
            return of_module(build(), model, batch, shape or own_shape)
    if model not in models.names():
        known = [*models.names(), *published_models.BUILD]
        raise InputError(f"{unknown('model', model, known)}; or FILE.py:Class of a module, or FILE.json")
    dataset = profiler.usual_dataset(model)
    real = data.shapes(dataset)
    return of_module(models.build(model, real.input_shape, real.classes, 0, "meta"), model, batch, real.input_shape)


def of_profile(path: Path) -> Workload:
    found = profiles.read(path)
    if found.edges is not None:
        found = replace(found, edges=None)
    if not found.seconds:
        raise InputError(f"{path}: its layers take no time; must have forward_s and backward_s")
    kept = sum(layer.activation_bytes for layer in found.layers)
    return Workload(coarse(found), 0.0, None, kept, f"{found.source} on {found.hardware}")


def _loaded(place: str) -> nn.Module:
    """The module that a class or function of a user's makes: FILE.py:Class."""
    own_code.admit(place)
    try:
        made = own_code.load(place)()
    except InputError:
        raise
    except Exception as error:  # whatever a user's file raises
        raise InputError(f"{place}: {type(error).__name__}: {_first_line(error)}") from None
    if not isinstance(made, nn.Module):
        raise InputError(f"{place}: is a {type(made).__name__}; must be an nn.Module that needs no arguments")
    return made


@dataclass(frozen=True)
class _Samples:
    """What a module takes: numbers of words where it has an embedding, else values; shape: of one."""

    shape: tuple[int, ...]
    words: bool

    @classmethod
    def of(cls, module: nn.Module, shape: Sequence[int] | None) -> _Samples:
        words = any(isinstance(part, nn.Embedding) for part in module.modules())
        return cls(tuple(shape) if shape else (TOKENS if words else IMAGE), words)

    def made(self, size: int, device: str | torch.device) -> torch.Tensor:
        if self.words:
            return torch.zeros(size, *self.shape, dtype=torch.int64, device=device)
        return torch.rand(size, *self.shape, device=device)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def of_module(module: nn.Module, name: str, batch: int, shape: Sequence[int] | None) -> Workload:
    """Any module: what its parts with parameters of their own compute, keep and send, in the order in which they run.

    It runs on the meta device, where nothing is computed; a module that cannot runs on the CPU.
    """
    parameters = list(module.parameters())
    if not sum(p.numel() for p in parameters if p.requires_grad):
        raise InputError(f"model {name}: has no parameters to train")
    samples = _Samples.of(module, shape)
    try:
        return _traced(module, name, batch, samples)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"model {name}: its forward pass fails on {batch} x {' x '.join(map(str, samples.shape))} "
            f"{'numbers of words' if samples.words else 'values'} ({_first_line(error)}); --input says another shape"
        ) from None


def _traced(module: nn.Module, name: str, batch: int, samples: _Samples) -> Workload:
    meta = all(p.is_meta for p in module.parameters())
    if meta:
        module.to("meta")  # its buffers too
    # a module of the user's runs for real, once, with a small batch: what it computes grows with the batch
    size = batch if meta else min(batch, 2)
    x = samples.made(size, "meta" if meta else "cpu")
    with (
        FlopCounterMode(display=False) as counter,
        _recorded(module, counter) as parts,
        counted(module.parameters()) as kept,
    ):
        module(x)
    layers, grown = [], batch / size
    total = sum(part.flops for part in parts) or 1.0
    seen: set[int] = set()
    ran = {part.module for part in parts}
    for part in parts:
        own = [p for p in part.own(ran) if p.requires_grad and id(p) not in seen]
        seen |= {id(p) for p in own}
        share = part.flops / total / (1 + BACKWARD_TO_FORWARD)
        size_bytes = sum(map(tensor_bytes, own))
        layers.append(Layer(part.name, share, BACKWARD_TO_FORWARD * share, part.nbytes * grown, size_bytes))
    if not layers:
        raise InputError(f"model {name}: none of its parts with parameters runs in its forward pass")
    matrices = tuple(
        (p.shape[0], p.numel() // p.shape[0]) for p in module.parameters() if p.requires_grad and p.dim() > 1
    )
    flops = counter.get_total_flops() * (1 + BACKWARD_TO_FORWARD) * grown
    found = Profile(name, batch, "", tuple(layers), None, None, "estimated", tensor_bytes(x) * grown)
    return Workload(coarse(found), flops, matrices, kept.nbytes * grown)


class _Part:
    """A part of the module that ran: its FLOPs without its own parts', and the bytes that came out of it."""

    def __init__(self, name: str, module: nn.Module):
        self.name, self.module, self.flops, self.nbytes = name or "model", module, 0.0, 0.0

    def own(self, ran: Collection[nn.Module]) -> Iterator[nn.Parameter]:
        """Its parameters and those of modules inside it that do not run, as an attention's output projection."""
        for one in self.module.modules():
            if one is self.module or one not in ran:
                yield from one.parameters(recurse=False)


@contextmanager
def _recorded(module: nn.Module, counter: FlopCounterMode) -> Iterator[list[_Part]]:
    """The parts with parameters of their own that run, each once, in order."""
    parts: list[_Part] = []
    open_parts: list[list[float]] = []
    found: dict[int, _Part] = {}
    handles = []

    def begin(one: nn.Module, _: Any) -> None:
        open_parts.append([float(counter.get_total_flops()), 0.0])

    def end(one: nn.Module, _: Any, out: Any) -> None:
        before, inner = open_parts.pop()
        whole = float(counter.get_total_flops()) - before
        if open_parts:
            open_parts[-1][1] += whole
        part = found.get(id(one))
        if part is None:
            part = found[id(one)] = _Part(names[id(one)], one)
            parts.append(part)
        part.flops += whole - inner
        part.nbytes = sum(tensor_bytes(t) for t in tensors(out))

    names = {id(one): name for name, one in module.named_modules()}
    for one in module.modules():
        if one._parameters:
            handles += [one.register_forward_pre_hook(begin), one.register_forward_hook(end)]
    try:
        yield parts
    finally:
        for handle in handles:
            handle.remove()


def tensors(out: Any) -> list[torch.Tensor]:
    """Those of floats in what a module returns."""
    if isinstance(out, torch.Tensor):
        return [out] if out.is_floating_point() else []
    parts = out.values() if isinstance(out, dict) else out if isinstance(out, tuple | list) else ()
    return [tensor for part in parts for tensor in tensors(part)]


def timed_here(model: str, batch: int, shape: Sequence[int] | None, found: Workload) -> Workload:
    """A user's module with the seconds of a forward and backward pass here, on a GPU where torch has one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = _loaded(model).to(device)
    samples = _Samples.of(module, shape)

    def step(size: int) -> float:
        x = samples.made(size, device)
        start = time.perf_counter()
        sum(out.float().mean() for out in tensors(module(x))).backward()  # type: ignore[union-attr]
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    size = min(batch, TIMED)
    if device.type == "cpu":  # as many samples as a few steps of them have time for
        size = max(1, min(size, int(TIMED_S / STEPS / step(1))))
    times, began = [step(size)], time.perf_counter()
    while len(times) <= STEPS and time.perf_counter() - began < TIMED_S:
        times.append(step(size))
    seconds = statistics.median(times[1:]) * batch / size
    part = "" if size == batch else f", in proportion to {size} sample{'s' * (size > 1)}"
    return found.taking(seconds, f"timed on this machine{part}: {profiler.hardware(device)}")
