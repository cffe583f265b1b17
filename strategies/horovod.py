"""Horovod: its DistributedOptimizer with tensor fusion (Sergeev, Del Balso, arXiv 1802.05799), over MPI."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, allreduce_s, assemble_step, codec_s
from repro.core.errors import InputError, NotHere
from repro.core.fields import NonNegative
from repro.fabric.base import MAIN, FabricError
from repro.fabric.real.threads import find_missing_ranks
from repro.strategies.base import RunFacts, StepReport, Strategy
from repro.strategies.shared.data_parallel import DataParallel
from repro.strategies.shared.fused import MIB, Fused
from repro.training.worker import Worker

_configured = False  # whether this process has started Horovod with options other than Horovod's defaults
HOW = "`make setup-horovod` builds it against the torch in use"
HOW_CUDA = "`HOROVOD_GPU_OPERATIONS=NCCL make setup-horovod` builds it with CUDA, or use device=cpu"
LOAD_LIMIT_S = 60


@dataclass
class Options:
    fusion_mb: NonNegative = 128  # MiB in one allreduce; Horovod's default since 0.21 (docs say 64)
    cycle_ms: NonNegative = 1.0  # between two checks for ready gradients; Horovod's default
    fp16: bool = False  # gradients and their sums in half precision


class Horovod(DataParallel):
    """Synchronous SGD; a thread of Horovod's averages gradients during the backward pass.

    Every `cycle_ms` the thread finds out through rank 0 which gradients are ready on all ranks, copies up to
    `fusion_mb` of them into one buffer and calls MPI's allreduce. What it fuses depends on timing, and with three or
    more workers so does the order of summation: runs differ in the last bits.

    Phase "communicate" is the wait for the thread after the backward pass. Its earlier work cannot be observed: it
    counts as no overlap, and its use of a core slows "backward". Bytes are a ring's share of the gradients, without
    Horovod's own messages.

    Horovod uses a duplicate of the fabric's communicator; the fabric starts and ends MPI. With one worker it exchanges
    and compresses nothing.
    """

    name = "horovod"
    requires = frozenset({"mpi"})
    Options = Options
    deterministic = False
    blocking = True

    @classmethod
    def check(cls, options: Any, run: RunFacts) -> None:
        if (reason := missing_horovod()) is not None:
            raise NotHere(f"strategy horovod: {reason}; {HOW}")
        if run.gpu and not built_with_cuda():
            raise NotHere(f"strategy horovod: it is built without CUDA and takes no gradients on a GPU; {HOW_CUDA}")

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """`wfbp` with a bucket for each block, because most blocks take longer than a cycle.

        If a backward pass fits into one cycle, Horovod sends one fused bucket and its twin too many.
        """
        buckets = {"bucket_mb": 0, "first_bucket_mb": 0}
        if options.fp16:  # as many bytes, but converted in each hop
            return "wfbp", buckets | {"codec": "truncate16", "algorithm": "ring"}
        return "wfbp", buckets | {"algorithm": "native"}

    @classmethod
    def simulated(cls) -> type[Strategy]:
        return Fused

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """At each tick of its cycle it sums all gradients that are ready, as many as its fusion buffer holds.

        A recurrence: a step, from the tick of an iteration's last sum to that of the next one's, depends on the bytes
        of the former alone. So steps repeat as soon as these do, and their mean is the step.
        """
        codec = "truncate16" if options.fp16 else "none"
        compress = codec_s(setting, codec)
        if place.workers == 1:
            return assemble_step(setting, 0.0, compress=compress)
        layers = setting.profile.layers[::-1]
        forward = setting.computation_s - sum(layer.backward_s for layer in layers) + setting.update_s + compress
        ready = list(accumulate((layer.backward_s for layer in layers), initial=forward))[1:]
        every = [(at, round(layer.parameter_bytes)) for at, layer in zip(ready, layers) if layer.parameter_bytes]
        last, steps = 0, dict[int, tuple[float, float]]()  # bytes of the last sum before a step -> (step, all sums)
        order = []
        while last not in steps:
            order.append(last)
            began = allreduce_s(last, setting, place, codec) if last else 0.0
            start = done = began
            total, waiting = 0.0, [(began + at, nbytes) for at, nbytes in every]
            while waiting:
                start, fused, sent = _next_tick(max(done, waiting[0][0]), options.cycle_ms / 1e3), 1, waiting[0][1]
                for at, more in waiting[1:]:
                    if at > start or sent + more > options.fusion_mb * MIB:
                        break
                    fused, sent = fused + 1, sent + more
                seconds = allreduce_s(sent, setting, place, codec)
                done, total, waiting, last = start + seconds, total + seconds, waiting[fused:], sent
            steps[order[-1]] = start, total
        repeated = [steps[nbytes] for nbytes in order[order.index(last) :]]
        start, total = (fmean(part) for part in zip(*repeated))
        exposed = start - setting.computation_s - setting.update_s - compress
        return assemble_step(setting, exposed, total - exposed, compress)

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.hvd = start_horovod(worker.fabric, self.options)
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
        """Wait with a time limit and name lost ranks; Horovod's own wait would not end."""
        # there is no public access to the hooks' handles, one for each parameter
        handles = [handle for handle, _ in optimizer._handles.values() if handle is not None]
        fabric: Any = self.worker.fabric
        try:
            fabric.poll(lambda: all(map(self.hvd.poll, handles)), "Horovod's allreduce")
        except FabricError as error:
            raise FabricError(f"{error}{find_missing_ranks(fabric)}") from None

    def close(self) -> None:
        self.hvd.shutdown()  # before MPI ends; every rank calls it


def _next_tick(at: float, cycle_s: float) -> float:
    return math.ceil(at / cycle_s) * cycle_s if cycle_s else at


def missing_horovod() -> str | None:
    """Why Horovod cannot be used in this environment; None if it is installed. Does not load it."""
    spec = importlib.util.find_spec("horovod")
    if spec is None:
        return "Horovod is not installed"
    places = spec.submodule_search_locations or ()
    if not any(library for place in places for library in Path(place, "torch").glob("mpi_lib*.so")):
        return "Horovod is installed without PyTorch"
    return None


@cache
def built_with_cuda() -> bool:
    """Whether Horovod is built with CUDA; loads it in a separate process. False if it does not load."""
    code = "import horovod.torch as hvd; raise SystemExit(not hvd.cuda_built())"
    try:
        return not subprocess.run(
            [sys.executable, "-c", code], capture_output=True, stdin=subprocess.DEVNULL, timeout=LOAD_LIMIT_S
        ).returncode
    except subprocess.TimeoutExpired:
        return False


def start_horovod(fabric: Any, options: Options) -> Any:
    """`horovod.torch`, started over the fabric's ranks; InputError if it does not load with this torch.

    Horovod reads its options from the environment. After a start with other options than its defaults a process cannot
    start it again: it would write through a null pointer (ParameterManager::SetValue in 0.28.1).
    """
    global _configured
    if _configured:
        raise InputError("strategy horovod: a process that has set its options cannot start it a second time")
    defaults = horovod_variables(Options())
    changed = {variable: value for variable, value in horovod_variables(options).items() if value != defaults[variable]}
    for variable in defaults:
        os.environ.pop(variable, None)  # values of the user's shell are not in the run's key
    os.environ |= {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"} | changed
    _configured = bool(changed)
    try:
        import horovod.torch as hvd
    except Exception as error:  # of Horovod or of the linker
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"strategy horovod: it does not load ({reason[0]}); {HOW}") from None
    if not hvd.mpi_built():
        raise InputError(f"strategy horovod: it was built without MPI; {HOW}")
    hvd.init(comm=fabric.comms[MAIN])
    return hvd


def horovod_variables(options: Options) -> dict[str, str]:
    """The options as Horovod's environment variables."""
    return {
        "HOROVOD_FUSION_THRESHOLD": str(round(options.fusion_mb * MIB)),
        "HOROVOD_CYCLE_TIME": str(float(options.cycle_ms)),
    }
