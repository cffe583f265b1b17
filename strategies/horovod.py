"""Horovod: its DistributedOptimizer with tensor fusion (Sergeev, Del Balso, arXiv 1802.05799), over MPI."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from repro.core.errors import InputError, NotHere
from repro.core.fields import NonNegative
from repro.fabric.base import MAIN, FabricError
from repro.fabric.real.missing_ranks import find_missing_ranks
from repro.strategies.base import RunFacts, StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.training.worker import Worker

MIB = 2**20
_given = False  # whether this process has started Horovod with options that are not its own
HOW = "`make setup-horovod` builds it against the torch in use"
HOW_CUDA = "`HOROVOD_GPU_OPERATIONS=NCCL make setup-horovod` builds it with, or device=cpu"
LOAD_LIMIT_S = 60


@dataclass
class Options:
    fusion_mb: NonNegative = 128  # MiB in one allreduce; Horovod's default since 0.21 (docs say 64)
    cycle_ms: NonNegative = 1.0  # between two looks at what is ready; Horovod's default
    fp16: bool = False  # gradients in half precision, summed so


class Horovod(DataParallel):
    """Synchronous SGD; a thread of Horovod's averages gradients while the backward pass goes on.

    Each parameter's gradient is handed over as it is ready. Every `cycle_ms` the thread asks through rank 0 which are
    ready everywhere, copies up to `fusion_mb` of them into one buffer and calls MPI's allreduce. What is fused is a
    matter of timing, and with it, from three workers on, the order of summation: runs differ in the last bits.

    What is seen of it: phase "communicate" is the wait for the thread after the backward pass. What it does before is
    in its own memory: nothing is counted as overlapped, and its use of a core slows "backward". Bytes are counted from
    the gradients' sizes, as a ring's share, without Horovod's own messages about what is ready.

    It talks through a duplicate of the fabric's communicator, MPI being started and ended by the fabric. With one
    worker Horovod exchanges nothing, and so compresses nothing.
    """

    name = "horovod"
    requires = frozenset({"mpi"})
    Options = Options
    deterministic = False
    blocking = True

    @classmethod
    def check(cls, options: Any, run: RunFacts) -> None:
        if (lack := missing()) is not None:
            raise NotHere(f"strategy horovod: {lack}; {HOW}")
        if run.gpu and not built_with_cuda():
            raise NotHere(f"strategy horovod: it is built without CUDA and takes no gradients on a GPU; {HOW_CUDA}")

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """`wfbp` with a bucket a block, as long as MPI's blocking allreduce: what is ready leaves at the next cycle,
        and most blocks take longer than one.

        Where all of a backward pass fits into a cycle Horovod sends one fused bucket, and its twin too many.
        """
        buckets = {"bucket_mb": 0, "first_bucket_mb": 0}
        if options.fp16:  # half the bytes too, but converted in each hop
            return "wfbp", buckets | {"codec": "truncate16", "algorithm": "ring"}
        return "wfbp", buckets | {"algorithm": "native"}

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.hvd = start(worker.fabric, self.options)
        part, hvd = worker.model_shard, self.hvd
        part.optimizer = hvd.DistributedOptimizer(
            part.optimizer,
            named_parameters=[(name, p) for name, p in part.model.named_parameters() if p.requires_grad],
            compression=hvd.Compression.fp16 if self.options.fp16 else hvd.Compression.none,
            op=hvd.Average,
        )
        p, nbytes = worker.fabric.size, (2 if self.options.fp16 else 4) * part.size
        self.step_bytes = 2 * (p - 1) * nbytes // p  # a ring's share

    def step(self) -> StepReport:
        worker = self.worker
        loss = worker.gradients(self.minibatch())
        optimizer: Any = worker.model_shard.optimizer
        if worker.workers > 1:
            with worker.clock.phase("communicate"):
                self._await(optimizer)
                optimizer.synchronize()
        worker.fabric.bytes_sent += self.step_bytes
        with optimizer.skip_synchronize():  # the gradients are means already
            worker.update()
        return self.advanced(loss)

    def _await(self, optimizer: Any) -> None:
        """Horovod's own wait has no end when a rank is lost; this one has, and names it."""
        # no public way to the handles: those of the hooks, one a parameter
        handles = [handle for handle, _ in optimizer._handles.values() if handle is not None]
        fabric: Any = self.worker.fabric
        try:
            fabric.poll(lambda: all(map(self.hvd.poll, handles)), "Horovod's allreduce")
        except FabricError as error:
            raise FabricError(f"{error}{find_missing_ranks(fabric)}") from None

    def close(self) -> None:
        self.hvd.shutdown()  # before MPI ends; every rank calls it


def missing() -> str | None:
    """What is lacking of Horovod in this environment, in a few words; None where it is installed. Does not load it."""
    spec = importlib.util.find_spec("horovod")
    if spec is None:
        return "Horovod is not installed"
    places = spec.submodule_search_locations or ()
    if not any(library for place in places for library in Path(place, "torch").glob("mpi_lib*.so")):
        return "Horovod is installed without PyTorch"
    return None


@cache
def built_with_cuda() -> bool:
    """Whether Horovod's build takes tensors of a GPU, which only the loaded library tells: a process of its own loads
    it. One that does not load has no CUDA either."""
    code = "import horovod.torch as hvd; raise SystemExit(not hvd.cuda_built())"
    try:
        return not subprocess.run(
            [sys.executable, "-c", code], capture_output=True, stdin=subprocess.DEVNULL, timeout=LOAD_LIMIT_S
        ).returncode
    except subprocess.TimeoutExpired:
        return False


def start(fabric: Any, options: Options) -> Any:
    """`horovod.torch`, started over the fabric's ranks; InputError where it does not load with this torch.

    Horovod takes its options from the environment. A process that has given it some of its own can start it only once:
    the second time it would write through a null pointer (ParameterManager::SetValue in 0.28.1).
    """
    global _given
    if _given:
        raise InputError("strategy horovod: a process that gave it options of its own cannot start it a second time")
    usual = variables(Options())
    own = {variable: value for variable, value in variables(options).items() if value != usual[variable]}
    for variable in usual:
        os.environ.pop(variable, None)  # what the user's shell has there is not in the run's key
    os.environ |= {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"} | own
    _given = bool(own)
    try:
        import horovod.torch as hvd
    except Exception as error:  # an ImportError of its own or of the linker's, by what does not fit
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"strategy horovod: it does not load ({reason[0]}); {HOW}") from None
    if not hvd.mpi_built():
        raise InputError(f"strategy horovod: it was built without MPI; {HOW}")
    hvd.init(comm=fabric.comms[MAIN])
    return hvd


def variables(options: Options) -> dict[str, str]:
    """The options as Horovod wants them."""
    return {
        "HOROVOD_FUSION_THRESHOLD": str(round(options.fusion_mb * MIB)),
        "HOROVOD_CYCLE_TIME": str(float(options.cycle_ms)),
    }
