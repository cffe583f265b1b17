"""WFBP: synchronous SGD that sends gradients in buckets during the backward pass.

Wait-free backpropagation is from Poseidon (Zhang et al., USENIX ATC 2017, section 3.1), layer by layer; buckets are
from PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
Training", VLDB 2020, Algorithm 1) and, as tensor fusion, from Horovod (Sergeev, Del Balso, 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, allreduce_s, assemble_step, codec_s
from repro.core.fields import NonNegative
from repro.strategies.base import StepReport
from repro.strategies.shared.bucketed import BucketedAllreduce
from repro.strategies.shared.data_parallel import AllreduceOptions, DataParallel
from repro.training.buckets import bucket_runs, ddp_buckets
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

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """Buckets are sent as the backward pass completes them, an allreduce at a time (`pipe_segmented_limited`)."""
        compress = codec_s(setting, options.codec)
        backward = [layer.backward_s for layer in setting.profile.layers]
        compressing = compress / 2 / max(setting.nbytes, 1)  # s/byte
        done = total = 0.0
        sizes = tuple(layer.parameter_bytes for layer in setting.profile.layers)
        for last, nbytes in _bucket_bytes(sizes, options.first_bucket_mb, options.bucket_mb):
            ready = sum(backward[last:]) + compressing * nbytes
            seconds = allreduce_s(nbytes, setting, place, options.codec)
            done, total = max(done, ready) + seconds, total + seconds
        exposed = max(0.0, done - sum(backward))
        return assemble_step(setting, exposed, total - exposed, compress)

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


@lru_cache(maxsize=64)
def _bucket_bytes(layers: tuple[float, ...], first_mb: float, limit_mb: float) -> list[tuple[int, int]]:
    """(the layer that completes it, bytes) of each bucket in order; layers: bytes of their parameters."""
    sizes = {layer: FLOAT32 * math.ceil(nbytes / FLOAT32) for layer, nbytes in enumerate(layers) if nbytes}
    numbers = list(sizes)
    runs = bucket_runs(list(sizes.values()), first_mb * MIB, limit_mb * MIB)
    return [(numbers[run.start], sum(sizes[numbers[at]] for at in run)) for run in runs]
