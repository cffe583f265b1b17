"""In which precision, layout and by which kernels a model shard's passes compute: the configuration's `numerics`.

What belongs to the process (TF32, cuDNN's choice of kernels, deterministic algorithms) `prepare` sets before anything
is computed; what belongs to a pass (autocast, layout, compilation) is in the `calls` of a shard's blocks. Weights,
gradients, the optimizer and what ranks send each other are float32 throughout, and so are loss and evaluation.

TF32, cuDNN and the cuBLAS workspace have not been run on GPUs.
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
COMPILERS = ("c++", "g++", "clang++")  # of which TorchInductor needs one, on a GPU for Triton's launchers
VERSIONS_OF_A_BLOCK = 8  # dynamo's own limit: shapes, training and evaluation, other weights


def prepare(numerics: Numerics) -> None:
    """Set the switches of this process, each one whatever it was; before its first work on a GPU."""
    tf32 = numerics.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32  # torch's own default is True
    torch.backends.cudnn.benchmark = numerics.cudnn_benchmark
    if numerics.deterministic:  # cuBLAS reads it when it is first used, and torch refuses without
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(numerics.deterministic)
    if numerics.compile and not (os.environ.get("CXX") or any(map(shutil.which, COMPILERS))):
        raise NotHere(f"numerics.compile=true: torch.compile needs a C++ compiler ({' or '.join(COMPILERS)})")


def calls(numerics: Numerics, blocks: Sequence[nn.Module], device: torch.device) -> list[Call]:
    """How each of a shard's blocks is called in a forward pass; with nothing chosen the blocks themselves.

    What goes into the first is brought into the layout, and what comes out of the last is contiguous float32: ranks
    exchange it, and losses are made of it.

    channels_last: images enter so, and cuDNN's and oneDNN's convolutions keep it for what they put out. The weights
    stay as they are, a vector cut into views: a convolution brings its own into the layout at each pass.
    compile: each block by itself, because strategies have work to do between them.
    """
    chain: list[Call] = list(blocks)
    if numerics.compile:
        # blocks of one class share their code, and dynamo counts what it compiles by code
        torch._dynamo.config.recompile_limit = VERSIONS_OF_A_BLOCK * max(1, len(blocks))
        chain = [torch.compile(block, dynamic=False) for block in blocks]
    if numerics.precision == "bf16":
        chain = [_autocast(call, device) for call in chain]
    if chain and numerics.precision == "bf16":
        chain[-1] = _behind(chain[-1], torch.Tensor.float)
    if chain and numerics.channels_last:
        chain[0] = _in_front(chain[0])
        chain[-1] = _behind(chain[-1], torch.Tensor.contiguous)
    return chain


def _autocast(call: Call, device: torch.device) -> Call:
    def run(x: torch.Tensor) -> torch.Tensor:
        # a context of its own for every block: its casts of weights are forgotten behind it, so versions may change
        with torch.autocast(device.type, torch.bfloat16):
            return call(x)

    return run


def _in_front(call: Call) -> Call:
    return lambda x: call(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x)


def _behind(call: Call, then: Call) -> Call:
    return lambda x: then(call(x))
