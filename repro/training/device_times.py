"""Modelled compute times of each block's passes, from FLOPs and a device's rate or a published iteration time.

The testbed's `device` (`repro.experiment.testbeds.Device`) selects one, and says how much longer a FLOP takes in a
recurrent layer, which computes many small products one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from repro.experiment.testbeds import Device, Published
from repro.models._lstm import Lstm

BACKWARD_TO_FORWARD = 2.0  # the gradients of inputs and of weights are each as much work as the forward pass


@dataclass(frozen=True)
class BlockSeconds:
    """Seconds of each block's passes for one minibatch, in block order; flops_per_s: the device's rate in them."""

    forward: list[float]
    backward: list[float]
    flops_per_s: float | None = None


def block_flops(model: nn.Sequential, input_shape: tuple[int, ...], batch: int) -> list[int]:
    """Floating-point operations of each block's forward pass, counted on meta tensors. A multiply-add counts as two, an
    embedding lookup as none."""
    words = any(isinstance(module, nn.Embedding) for module in next(model.children()).modules())
    x = torch.empty(batch, *input_shape, device="meta", dtype=torch.int64 if words else None)
    flops = []
    with torch.no_grad():
        for block in model.to("meta").children():
            with FlopCounterMode(display=False) as counter:
                x = block(x)
            flops.append(counter.get_total_flops())
    return flops


@dataclass(frozen=True)
class BlockWork:
    """The work of each block for one minibatch of `batch` samples, in block order.

    forward: floating-point operations; recurrent: whether a block has a recurrent layer; backward: the work of its
    backward pass, relative to its forward pass.
    """

    batch: int
    forward: list[int]
    recurrent: list[bool]
    backward: list[float]


def block_work(model: nn.Sequential, input_shape: tuple[int, ...], batch: int) -> BlockWork:
    """The work of a minibatch of `batch` samples; moves `model` to the meta device."""
    recurrent, backward = [is_recurrent(block) for block in model.children()], backward_passes(model)
    return BlockWork(batch, block_flops(model, input_shape, batch), recurrent, backward)


def block_seconds(model: nn.Sequential, input_shape: tuple[int, ...], batch: int, device: Device) -> BlockSeconds:
    """`seconds_of` the work of a minibatch of `batch` samples; moves `model` to the meta device."""
    return seconds_of(block_work(model, input_shape, batch), device)


def seconds_of(work: BlockWork, device: Device) -> BlockSeconds:
    """Seconds of each block's passes on a device.

    By rate: launch_s + FLOPs / (peak_flops x utilisation) for each block and pass. Published: iteration_s, the time of
    both passes of device.batch samples, is scaled to `batch` samples and divided in proportion to FLOPs, of which the
    backward passes have `BACKWARD_TO_FORWARD` times as many. A FLOP of a recurrent block counts
    `device.recurrent_slowdown` times.
    """
    slowed = [
        count * (device.recurrent_slowdown if recurrent else 1.0)
        for count, recurrent in zip(work.forward, work.recurrent)
    ]
    if isinstance(device, Published):
        launch, rate = 0.0, sum(slowed) * (1 + BACKWARD_TO_FORWARD) / (device.iteration_s * work.batch / device.batch)
    else:
        launch, rate = device.launch_s, device.peak_flops * device.utilisation
    forward = [launch + count / rate for count in slowed]
    backward = [
        launch + passes * (seconds - launch) if passes else 0.0 for passes, seconds in zip(work.backward, forward)
    ]
    return BlockSeconds(forward, backward, rate)


def is_recurrent(block: nn.Module) -> bool:
    """Whether the block contains a recurrent layer."""
    return any(isinstance(module, Lstm | nn.RNNBase) for module in block.modules())


def backward_passes(model: nn.Sequential) -> list[float]:
    """The work of each block's backward pass, relative to its forward pass.

    Without frozen parameters: 2 for every block, also the first one, although the gradient of the model's inputs is not
    needed. With frozen parameters: one for the gradient of the block's inputs if a block below it trains, and one for
    that of its weights if the block itself trains.
    """
    trains = [any(p.requires_grad for p in block.parameters()) for block in model.children()]
    if all(p.requires_grad for p in model.parameters()):
        return [BACKWARD_TO_FORWARD] * len(trains)
    half = BACKWARD_TO_FORWARD / 2
    return [half * (any(trains[:index]) + trains[index]) for index in range(len(trains))]


def compute_seconds(blocks: BlockSeconds) -> float:
    """Seconds of both passes of the whole model (l_comp of Pipe-SGD equation (2))."""
    return sum(blocks.forward) + sum(blocks.backward)
