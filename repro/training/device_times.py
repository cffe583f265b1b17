"""Compute times of a device, a block and pass: estimated from FLOPs, peak and utilisation, or a published iteration's.

The testbed's `device` (`repro.experiment.testbeds.Device`) says which, and how much longer a FLOP takes in a recurrent
layer, whose steps are small products one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from repro.experiment.testbeds import Device, Published
from repro.models._lstm import Lstm

BACKWARD_TO_FORWARD = 2.0  # gradients of inputs and of weights: each as much work as the forward pass


@dataclass(frozen=True)
class BlockSeconds:
    """Seconds of each block's passes for one minibatch, in block order; flops_per_s: of the device, in these passes."""

    forward: list[float]
    backward: list[float]
    flops_per_s: float | None = None


def block_flops(model: nn.Sequential, input_shape: tuple[int, ...], batch: int) -> list[int]:
    """Floating-point operations of each block's forward pass (a multiply-add is two), counted on meta tensors.

    Looking up an embedding counts as none.
    """
    words = any(isinstance(module, nn.Embedding) for module in next(model.children()).modules())
    x = torch.empty(batch, *input_shape, device="meta", dtype=torch.int64 if words else None)
    flops = []
    with torch.no_grad():
        for block in model.to("meta").children():
            with FlopCounterMode(display=False) as counter:
                x = block(x)
            flops.append(counter.get_total_flops())
    return flops


def block_seconds(model: nn.Sequential, input_shape: tuple[int, ...], batch: int, device: Device) -> BlockSeconds:
    """Seconds of each block's passes for a minibatch of `batch` samples; `model` ends on the meta device.

    By rate: launch_s + FLOPs / (peak_flops x utilisation) a block and pass. Published: iteration_s, of forward and
    backward pass of a minibatch of device.batch samples, scaled to `batch` samples and shared by FLOPs, a third for
    the forward passes of all blocks and the rest (`BACKWARD_TO_FORWARD`) for the backward ones.

    A FLOP of a recurrent block counts `device.recurrent_slowdown` times, either way.
    """
    slowdowns = [device.recurrent_slowdown if recurrent(block) else 1.0 for block in model.children()]
    work = [slowdown * count for slowdown, count in zip(slowdowns, block_flops(model, input_shape, batch))]
    if isinstance(device, Published):
        launch, rate = 0.0, sum(work) * (1 + BACKWARD_TO_FORWARD) / (device.iteration_s * batch / device.batch)
    else:
        launch, rate = device.launch_s, device.peak_flops * device.utilisation
    forward = [launch + count / rate for count in work]
    backward = [
        launch + passes * (seconds - launch) if passes else 0.0
        for passes, seconds in zip(backward_passes(model), forward)
    ]
    return BlockSeconds(forward, backward, rate)


def recurrent(block: nn.Module) -> bool:
    """Whether a recurrent layer is in it."""
    return any(isinstance(module, Lstm | nn.RNNBase) for module in block.modules())


def backward_passes(model: nn.Sequential) -> list[float]:
    """The work of each block's backward pass, in forward passes of the block.

    Where nothing is frozen: 2 for every block, the first one too, though nobody needs the gradient of the model's
    inputs. Where something is: one for the gradient of the block's inputs if a block below it trains, one for that of
    its weights if it trains itself. Below the lowest block that trains there is no backward pass: 0.
    """
    trains = [any(p.requires_grad for p in block.parameters()) for block in model.children()]
    if all(p.requires_grad for p in model.parameters()):
        return [BACKWARD_TO_FORWARD] * len(trains)
    half = BACKWARD_TO_FORWARD / 2
    return [half * (any(trains[:index]) + trains[index]) for index in range(len(trains))]


def compute_seconds(blocks: BlockSeconds) -> float:
    """Forward and backward of the whole model (l_comp of Pipe-SGD equation (2))."""
    return sum(blocks.forward) + sum(blocks.backward)
