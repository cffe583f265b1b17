"""WFBP: synchronous SGD whose gradients leave in buckets while the backward pass goes on.

Wait-free backpropagation is of Poseidon (Zhang et al., USENIX ATC 2017, section 3.1), layer by layer; buckets are of
PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
Training", VLDB 2020, Algorithm 1) and, as tensor fusion, of Horovod (Sergeev, Del Balso, 2018).
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
    first_bucket_mb: NonNegative = 1  # the same of the first bucket to leave, which holds the last parameters


class WFBP(DataParallel):
    """D-Sync with its allreduce cut into buckets, each started as soon as its last gradient is ready.

    All are complete before the update, so the weights are D-Sync's, up to the order of summation; with one bucket bit
    for bit. What `ddp` and `horovod` leave to a library is written here on our fabric: the same in real and in virtual
    time, with codecs, and with what is hidden behind computation counted. Gradients become ready by the block, as
    everywhere in this harness: a bucket that ends inside a block leaves with the whole block.
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
