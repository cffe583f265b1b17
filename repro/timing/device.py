"""Compute times of a device from FLOPs, peak and utilisation: estimates, marked so in the testbed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

BACKWARD_TO_FORWARD = 2.0  # gradients of inputs and of weights: each as much work as the forward pass


@dataclass(frozen=True)
class BlockSeconds:
    """Seconds of each block's passes for one minibatch, in block order."""

    forward: list[float]
    backward: list[float]


def block_flops(model: nn.Sequential, input_shape: tuple[int, ...], batch: int) -> list[int]:
    """Floating-point operations of each block's forward pass (a multiply-add is two), counted on meta tensors."""
    x = torch.empty(batch, *input_shape, device="meta")
    flops = []
    with torch.no_grad():
        for block in model.to("meta").children():
            with FlopCounterMode(display=False) as counter:
                x = block(x)
            flops.append(counter.get_total_flops())
    return flops


def block_seconds(model: nn.Sequential, input_shape: tuple[int, ...], batch: int, device: Mapping) -> BlockSeconds:
    """launch_s + FLOPs / (peak_flops x utilisation) a block and pass; `model` ends on the meta device."""
    launch, rate = device["launch_s"], device["peak_flops"] * device["utilisation"]
    forward = [launch + flops / rate for flops in block_flops(model, input_shape, batch)]
    backward = [
        launch + passes * (seconds - launch) if passes else 0.0
        for passes, seconds in zip(backward_passes(model), forward)
    ]
    return BlockSeconds(forward, backward)


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
