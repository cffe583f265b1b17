"""WFBP: synchronous SGD that sends gradients in buckets during the backward pass.

Wait-free backpropagation is from Poseidon (Zhang et al., USENIX ATC 2017, section 3.1), layer by layer; buckets are
from PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
Training", VLDB 2020, Algorithm 1) and, as tensor fusion, from Horovod (Sergeev, Del Balso, 2018).
"""

from __future__ import annotations

from dataclasses import dataclass

from repro.core.fields import NonNegative
from repro.strategies.base import StepReport
from repro.strategies.shared.bucketed import BucketedAllreduce
from repro.strategies.shared.data_parallel import AllreduceOptions, DataParallel
from repro.training.buckets import ddp_buckets
from repro.training.worker import Worker

MIB = 2**20


@dataclass
class Options(AllreduceOptions):
    bucket_mb: NonNegative = 25  # MiB of gradients at which a bucket closes; the defaults are PyTorch's
    first_bucket_mb: NonNegative = 1  # the same for the first bucket, which has the last parameters


class WFBP(DataParallel):
    """D-Sync with its allreduce cut into buckets, each started as soon as its last gradient is ready.

    The weights are D-Sync's, up to the order of summation; with one bucket bit for bit. Unlike `ddp` and `horovod` it
    is written on our fabric: the same in real and in virtual time, with codecs, and with overlapped communication
    measured. Gradients become ready by the block: a bucket that ends inside a block is sent with the whole block.
    """

    name = "wfbp"
    requires = frozenset({"threads"})
    Options = Options

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        options = self.options
        buckets = ddp_buckets(worker.model_shard.blocks, options.first_bucket_mb * MIB, options.bucket_mb * MIB)
        self.allreduce = BucketedAllreduce(worker, buckets, options)

    def step(self) -> StepReport:
        report = self.local_gradient(self.gradient, self.allreduce.sending(self.gradient))
        self.allreduce.decompress(self.allreduce.receive(), self.gradient)
        self.worker.update(self.gradient)
        return report

    def state_dict(self) -> dict:
        return super().state_dict() | {"allreduces": self.allreduce.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.allreduce.load_state_dict(state["allreduces"])

    def close(self) -> None:
        self.allreduce.close()
