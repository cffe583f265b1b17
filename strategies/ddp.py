"""DDP: PyTorch's own DistributedDataParallel, what a user would pick who had read none of the papers."""

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

PYTORCH_BUCKET_MB = 25  # its default, with which alone the first bucket closes at 1 MiB
MIB = 2**20
MIN_COMPRESSION_RATE = 2  # PowerSGD's default: a matrix that would shrink by less is sent whole
# no broadcast of running means before each forward pass: the option's name since PyTorch 2.13, and before
_NAMES = inspect.signature(nn.parallel.DistributedDataParallel).parameters
OWN_BUFFERS: Any = {"forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers": False}
POWERSGD_STATE = ("error_dict", "p_memory_dict", "q_memory_dict", "iter")


@dataclass
class Options:
    hook: Literal["none", "fp16", "powersgd"] = "none"
    bucket_mb: Count = PYTORCH_BUCKET_MB  # MiB of gradients at which a bucket closes
    powersgd_rank: Count = 1  # of the two factors that stand for a matrix of gradients
    # iterations without compression before PowerSGD begins: PyTorch moves its buckets after the first
    powersgd_start: Annotated[int, Field(ge=2)] = 1000


class Passes(nn.Module):
    """What DistributedDataParallel wraps: it has the model's parameters, and runs the forward pass it is handed."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        return run()


class DDP(DataParallel):
    """Synchronous SGD; DistributedDataParallel averages the gradients during the backward pass (Li et al., VLDB 2020).

    `hook` none: buckets of float32. fp16: converted once, divided by the workers, summed in half precision. powersgd:
    each matrix of gradients as two thin factors with error feedback (Vogels, Karimireddy, Jaggi, NeurIPS 2019), from
    iteration `powersgd_start` on; float32 before. Its hook waits for one allreduce inside the callback of another, on
    one of gloo's two threads: with two buckets under way both would wait for ever. So on gloo it has one bucket.

    What is seen of it: PyTorch waits for its buckets inside the backward pass, so phase "backward" has computation,
    compression and exposed communication in one, "communicate" is 0 and so is what is counted as overlapped. Compare
    step times, not phases. Bytes are counted from the sizes of gradients and factors, as a ring's share of them,
    whatever algorithm gloo or NCCL choose.

    Unlike PyTorch's default it does not broadcast running means before each forward pass: as
    with every other strategy here each rank has its own and rank 0's are evaluated.
    """

    name = "ddp"
    requires = frozenset({"torch.distributed"})
    Options = Options

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """`wfbp` with its buckets. fp16: half the bytes too, but converted in each hop. PowerSGD has no model."""
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
        self.ddp = nn.parallel.DistributedDataParallel(
            Passes(worker.model_shard.model),
            process_group=group,
            bucket_cap_mb=self._bucket_mb(),
            **OWN_BUFFERS,
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
        """For PyTorch; None: its default, with a first bucket of 1 MiB."""
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
        held = super().state_dict()
        if self.powersgd is None:
            return held
        state = {name: _copied(getattr(self.powersgd, name)) for name in POWERSGD_STATE}
        generator, words, *rest = self.powersgd.rng.get_state()
        return held | {"powersgd": state, "random": [generator, words.tolist(), *rest]}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self._lay_out_buckets()
        if self.powersgd is not None:
            for name, value in state["powersgd"].items():
                setattr(self.powersgd, name, _copied(value, self.worker.model_shard.device))
            self.powersgd.rng.set_state(tuple(state["random"]))

    def _lay_out_buckets(self) -> None:
        """A pass for nothing, after which buckets are laid out as they were when the state was saved.

        PyTorch lays them out anew after its first pass, in the order in which gradients became ready. Errors and
        factors of PowerSGD are kept by bucket, and sums have their bits from where buckets begin.
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
    """Bytes of a gradient of such tensors as the hook hands them to its allreduces."""
    if options.hook == "fp16":
        return 2 * sum(map(_elements, shapes))
    if options.hook == "powersgd":
        return 4 * sum(_factor_elements(shape, options.powersgd_rank) for shape in shapes)
    return 4 * sum(map(_elements, shapes))


def ring_share(nbytes: int, size: int) -> int:
    """What each of `size` ranks sends in a ring's allreduce of so many bytes."""
    return 2 * (size - 1) * nbytes // size


def _elements(shape: Sequence[int]) -> int:
    return torch.Size(shape).numel()


def _factor_elements(shape: Sequence[int], rank: int) -> int:
    """Elements that PowerSGD sends for a tensor, seen as a matrix of its first dimension by all others."""
    rows, elements = (shape[0], _elements(shape)) if shape else (1, 1)
    columns = elements // rows
    rank = min(rank, rows, columns)
    factors = (rows + columns) * rank
    return factors if factors * MIN_COMPRESSION_RATE < elements else elements


def _copied(value: Any, device: torch.device | None = None) -> Any:
    """A number as it is; a dictionary with copies of its tensors."""
    if not isinstance(value, dict):
        return value
    return {key: tensor.detach().clone().to(device or tensor.device) for key, tensor in value.items()}
