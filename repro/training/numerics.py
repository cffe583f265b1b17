"""Applies the configuration's `numerics`: precision, memory layout, compilation and choice of kernels.

`prepare_process` sets the switches of the process (TF32, cuDNN's choice of kernels, deterministic algorithms);
`forward_calls` applies autocast, layout and compilation to a shard's blocks. Weights, gradients, optimizer, messages,
loss and evaluation are always float32.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence

import torch
from torch import nn

from repro.core.errors import NotHere
from repro.experiment.schema import Numerics

Call = Callable[[torch.Tensor], torch.Tensor]
COMPILERS = ("c++", "g++", "clang++")  # TorchInductor needs one of them, on a GPU for Triton's launchers
VERSIONS_OF_A_BLOCK = 8  # dynamo's default limit: shapes, training and evaluation, other weights


def prepare_process(numerics: Numerics) -> None:
    """Set all switches of this process, before it first uses a GPU."""
    tf32 = numerics.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32  # torch's default is True
    torch.backends.cudnn.benchmark = numerics.cudnn_benchmark
    if numerics.deterministic:  # cuBLAS reads it at its first use, and torch requires it
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(numerics.deterministic)
    if numerics.compile and not (os.environ.get("CXX") or any(map(shutil.which, COMPILERS))):
        raise NotHere(f"numerics.compile=true: torch.compile needs a C++ compiler ({' or '.join(COMPILERS)})")


def forward_calls(numerics: Numerics, blocks: Sequence[nn.Module], device: torch.device) -> list[Call]:
    """The functions that compute the forward passes of a shard's blocks; by default the blocks themselves.

    The last block's output is contiguous float32, for the loss, or for another rank.

    channels_last: the first block's input is converted; cuDNN's and oneDNN's convolutions keep the layout for their
    outputs. Weights keep their layout, because they are views of one vector; a convolution converts them in each pass.
    compile: each block separately, because strategies work between blocks.
    """
    chain: list[Call] = list(blocks)
    if numerics.compile:
        # blocks of one class share their code, and dynamo's limit counts compilations of the same code
        torch._dynamo.config.recompile_limit = VERSIONS_OF_A_BLOCK * max(1, len(blocks))
        chain = [torch.compile(block, dynamic=False) for block in blocks]
    if numerics.precision == "bf16":
        chain = [_autocast(call, device) for call in chain]
        if chain:
            chain[-1] = _then(chain[-1], torch.Tensor.float)
    if chain and numerics.channels_last:
        chain[0] = _channels_last(chain[0])
        chain[-1] = _then(chain[-1], torch.Tensor.contiguous)
    return chain


def _autocast(call: Call, device: torch.device) -> Call:
    def run(x: torch.Tensor) -> torch.Tensor:
        # one context for each block, because its cache of cast weights must not outlive a change of weights
        with torch.autocast(device.type, torch.bfloat16):
            return call(x)

    return run


def _channels_last(call: Call) -> Call:
    return lambda x: call(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x)


def _then(call: Call, convert: Call) -> Call:
    return lambda x: convert(call(x))
