"""DDP: PyTorch's DistributedDataParallel, the common choice outside the papers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import nn

from repro.core.fields import Count
from repro.fabric.base import MAIN
from repro.fabric.real.torch_dist import TorchFabric
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.training.worker import Worker

PYTORCH_BUCKET_MB = 25  # PyTorch's default; with it alone the first bucket closes at 1 MiB
MIB = 2**20
MIN_COMPRESSION_RATE = 2  # PowerSGD's default: a matrix that would shrink by less is sent uncompressed
# no broadcast of running means before each forward pass: the option's name since PyTorch 2.13, and before
_NAMES = inspect.signature(nn.parallel.DistributedDataParallel).parameters
OWN_BUFFERS: Any = {"forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers": False}
POWERSGD_STATE = ("error_dict", "p_memory_dict", "q_memory_dict", "iter")


@dataclass
class Options:
    hook: Literal["none", "fp16", "powersgd"] = "none"
    bucket_mb: Count = PYTORCH_BUCKET_MB  # MiB of gradients at which a bucket closes
    powersgd_rank: Count = 1  # of the two factors of a gradient matrix
    # iterations before PowerSGD begins; at least 2, because PyTorch rebuilds its buckets after the first
    powersgd_start: Annotated[int, Field(ge=2)] = 1000


class Passes(nn.Module):
    """The module that DistributedDataParallel wraps: it has the model's parameters, and runs a forward pass."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        return run()


class DDP(DataParallel):
    """Synchronous SGD; DistributedDataParallel averages the gradients during the backward pass (Li et al., VLDB 2020).

    `hook` none: buckets of float32. fp16: converted once, divided by the workers, summed in half precision. powersgd:
    each gradient matrix as two thin factors with error feedback (Vogels, Karimireddy, Jaggi, NeurIPS 2019) from
    iteration `powersgd_start` on, float32 before. On gloo powersgd has one bucket: its hook waits for an allreduce
    inside the callback of another on one of gloo's two threads, so two buckets would deadlock.

    PyTorch waits for its buckets inside the backward pass. So phase "backward" includes compression and exposed
    communication, and "communicate" and overlapped time are 0: compare step times, not phases. Bytes are a ring's share
    of the gradients or factors, whatever algorithm gloo or NCCL choose.

    DEVIATION from PyTorch's default: no broadcast of running means before each forward pass. As for every other
    strategy here, each rank has its own, and rank 0's are evaluated.
    """

    name = "ddp"
    requires = frozenset({"torch.distributed"})
    Options = Options

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """`wfbp` with DDP's buckets; with fp16 it converts in each hop. powersgd has no twin."""
        first = 1 if options.bucket_mb == PYTORCH_BUCKET_MB else options.bucket_mb
        buckets = {"bucket_mb": options.bucket_mb, "first_bucket_mb": first}
        if options.hook == "powersgd":
            return None
        if options.hook == "fp16":
            return "wfbp", buckets | {"codec": "truncate16", "algorithm": "ring"}
        return "wfbp", buckets | {"algorithm": "native"}

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        assert isinstance(worker.fabric, TorchFabric)
        options, self.fabric = self.options, worker.fabric
        group = self.fabric.process_group(MAIN)
        model = Passes(worker.model_shard.model)
        self.ddp = nn.parallel.DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=self._bucket_mb(), **OWN_BUFFERS
        )
        self.powersgd: Any = None
        if options.hook == "fp16":
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

            self.ddp.register_comm_hook(group, fp16_compress_hook)
        elif options.hook == "powersgd":
            from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

            self.powersgd = powersgd.PowerSGDState(
                group,
                matrix_approximation_rank=options.powersgd_rank,
                start_powerSGD_iter=options.powersgd_start,
                min_compression_rate=MIN_COMPRESSION_RATE,
                random_seed=worker.seed,
            )
            self.ddp.register_comm_hook(self.powersgd, powersgd.powerSGD_hook)
        shapes = [tuple(parameter.shape) for parameter in worker.model_shard.parameters]
        self.dense_bytes = ring_share(4 * worker.model_shard.size, self.fabric.size)
        self.hook_bytes = ring_share(sent_bytes(options, shapes), self.fabric.size)

    def _bucket_mb(self) -> int | None:
        """PyTorch's argument; None: its default, with a first bucket of 1 MiB."""
        options, worker = self.options, self.worker
        if options.hook == "powersgd" and self.fabric.backend == "gloo":
            return 1 + 4 * worker.model_shard.size // MIB
        return None if options.bucket_mb == PYTORCH_BUCKET_MB else options.bucket_mb

    def step(self) -> StepReport:
        worker = self.worker
        with self.fabric.watched("an allreduce of DistributedDataParallel"):
            loss = worker.gradients(self.minibatch(), through=self.ddp)
        compressed = self.powersgd is None or self.iteration >= self.options.powersgd_start
        worker.fabric.bytes_sent += self.hook_bytes if compressed else self.dense_bytes
        worker.update()  # the gradients are means already
        return self.advanced(loss)

    def state_dict(self) -> dict:
        state = super().state_dict()
        if self.powersgd is None:
            return state
        powersgd = {name: _copied(getattr(self.powersgd, name)) for name in POWERSGD_STATE}
        generator, words, *rest = self.powersgd.rng.get_state()
        return state | {"powersgd": powersgd, "random": [generator, words.tolist(), *rest]}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self._rebuild_buckets()
        if self.powersgd is not None:
            for name, value in state["powersgd"].items():
                setattr(self.powersgd, name, _copied(value, self.worker.model_shard.device))
            self.powersgd.rng.set_state(tuple(state["random"]))

    def _rebuild_buckets(self) -> None:
        """Run a pass without an update, after which PyTorch has the same buckets as when the state was saved.

        PyTorch rebuilds its buckets after the first pass, in the order in which gradients became ready. PowerSGD keeps
        errors and factors by bucket, and the bits of sums depend on where buckets begin.
        """
        part, batches = self.worker.model_shard, self.worker.batches
        if self.iteration == 0:
            return
        before = {name: buffer.clone() for name, buffer in part.model.named_buffers()}  # running means
        x, y = batches[self.worker.rank]
        self.ddp(lambda: self.worker.loss_function(part.model(x), y)).backward()
        with torch.no_grad():
            for name, buffer in part.model.named_buffers():
                buffer.copy_(before[name])

    def close(self) -> None:
        del self.ddp


def sent_bytes(options: Options, shapes: Sequence[tuple[int, ...]]) -> int:
    """Bytes of a gradient of these shapes in the hook's allreduces."""
    if options.hook == "fp16":
        return 2 * sum(map(_elements, shapes))
    if options.hook == "powersgd":
        return 4 * sum(_factor_elements(shape, options.powersgd_rank) for shape in shapes)
    return 4 * sum(map(_elements, shapes))


def ring_share(nbytes: int, size: int) -> int:
    """Bytes that each of `size` ranks sends in a ring allreduce of `nbytes` bytes."""
    return 2 * (size - 1) * nbytes // size


def _elements(shape: Sequence[int]) -> int:
    return torch.Size(shape).numel()


def _factor_elements(shape: Sequence[int], rank: int) -> int:
    """Elements that PowerSGD sends for a tensor, as a matrix of its first dimension by all others."""
    rows, elements = (shape[0], _elements(shape)) if shape else (1, 1)
    columns = elements // rows
    rank = min(rank, rows, columns)
    factors = (rows + columns) * rank
    return factors if factors * MIN_COMPRESSION_RATE < elements else elements


def _copied(value: Any, device: torch.device | None = None) -> Any:
    """A copy of a dictionary of tensors; other values unchanged."""
    if not isinstance(value, dict):
        return value
    return {key: tensor.detach().clone().to(device or tensor.device) for key, tensor in value.items()}
