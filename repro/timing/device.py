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
    rate = device["peak_flops"] * device["utilisation"]
    forward = [device["launch_s"] + flops / rate for flops in block_flops(model, input_shape, batch)]
    backward = [device["launch_s"] + BACKWARD_TO_FORWARD * (seconds - device["launch_s"]) for seconds in forward]
    return BlockSeconds(forward, backward)


def compute_seconds(blocks: BlockSeconds) -> float:
    """Forward and backward of the whole model (l_comp of Pipe-SGD equation (2))."""
    return sum(blocks.forward) + sum(blocks.backward)
