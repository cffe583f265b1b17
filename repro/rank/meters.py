"""What a rank measures of its machine: CPU time that others take from its cores, its peak memory, memory that runs out.

taken = time for which these cores were busy - CPU time of the ranks + time that the hypervisor stole

/proc/stat counts the whole machine, also inside a container or namespace, where other processes cannot be seen. Ranks
that compete with each other take nothing from the run. The time of interrupts is left out: on a shaped network the
run's own messages cause it.
"""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch

from repro.core.errors import InputError, OutOfMemory, exhausted_memory
from repro.experiment.schema import RunConfig
from repro.records.kinds import MEASURED
from repro.records.record import CpuTaken

STAT, BOOT = Path("/proc/stat"), Path("/proc/sys/kernel/random/boot_id")
BUSY, STOLEN = (0, 1, 2), 7  # columns of a core in /proc/stat: user, nice, system; steal


class CoreTimes(NamedTuple):
    """CPU seconds of the cores that a rank may use, and of the rank itself.

    cores   names the machine and these cores
    """

    cores: str
    available_s: float
    busy_s: float
    stolen_s: float
    rank_s: float


def core_times(stat: str, cores: Collection[int], tick_s: float) -> tuple[float, float] | None:
    """(busy, stolen) seconds of these cores since the machine started; None if unknown.

    stat: the text of /proc/stat. A container's own version of it may lack cores, or count nothing.
    """
    counters = {}
    for name, *ticks in map(str.split, stat.splitlines()):
        if name.startswith("cpu") and name[3:].isdigit() and any(map(int, ticks)):
            counters[int(name[3:])] = [tick_s * int(each) for each in ticks]
    if not all(core in counters for core in cores):
        return None
    counts = [counters[core] for core in cores]
    return sum(each[column] for each in counts for column in BUSY), sum(each[STOLEN] for each in counts)


class CoreMeter:
    """One per rank."""

    def __init__(self) -> None:
        self._last = self._read()

    def since_last(self) -> CoreTimes | None:
        """The times since the last call, or since the meter was made; None if unknown."""
        before, self._last = self._last, self._read()
        if before is None or self._last is None:
            return None
        return CoreTimes(before.cores, *(now - then for now, then in zip(self._last[1:], before[1:], strict=True)))

    def _read(self) -> CoreTimes | None:
        cores = os.sched_getaffinity(0)
        try:
            times = core_times(STAT.read_text(), cores, 1 / os.sysconf("SC_CLK_TCK"))
            machine = BOOT.read_text().strip()
        except (OSError, ValueError):
            return None
        if times is None:
            return None
        return CoreTimes(f"{machine} {sorted(cores)}", len(cores) * time.monotonic(), *times, time.process_time())


def core_meter_for(config: RunConfig) -> CoreMeter | None:
    """None on testbeds whose times are not measured, or have a control of their own (emulated)."""
    return CoreMeter() if config.testbed.kind == MEASURED else None


def cpu_taken(ranks: Sequence[CoreTimes | None]) -> CpuTaken | None:
    """What was taken from all ranks of a run, each at about the same moment; None if one does not know its cores."""
    by_cores = defaultdict(list)
    for rank in ranks:
        if rank is None:
            return None
        by_cores[rank.cores].append(rank)
    groups = by_cores.values()
    busy_s = sum(fmean(rank.busy_s for rank in group) - sum(rank.rank_s for rank in group) for group in groups)
    return CpuTaken(
        processes_s=busy_s,
        hypervisor_s=sum(fmean(rank.stolen_s for rank in group) for group in groups),
        available_s=sum(fmean(rank.available_s for rank in group) for group in groups),
    )


def memory_kind(device: torch.device) -> str:
    """What `peak_bytes` measures: "gpu", torch's memory on the GPU, or "process", the whole process on the host."""
    return "gpu" if device.type == "cuda" else "process"


def peak_bytes(device: torch.device) -> int:
    """The peak so far: of tensors on a GPU (`torch.cuda.max_memory_allocated`) since the last `reset_peak`; else of the
    process's resident set, libraries included."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB on Linux


def reset_peak(device: torch.device) -> None:
    """Restart the measurement on a GPU, to leave out the memory of an evaluation."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


@contextmanager
def explaining_errors(rank: int, config: RunConfig) -> Iterator[None]:
    """Convert torch's errors that the configuration causes: to OutOfMemory with rank, model and batch, or to InputError
    for an operation without deterministic algorithm."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        while isinstance(error.__cause__, RuntimeError):  # a library has wrapped it
            error = error.__cause__
        message = " ".join(str(error).split())
        if where := exhausted_memory(error):
            raise _exhausted(rank, config, where, message) from None
        if config.numerics.deterministic and "deterministic implementation" in message:
            what = f"numerics.deterministic=true: model {config.model.name}: {message.split('. ')[0]}"
            raise InputError(f"{what}; leave it out") from None
        raise


def _exhausted(rank: int, config: RunConfig, where: str, message: str) -> OutOfMemory:
    size = message.partition("ried to allocate ")[2].split(". ")[0][:40]
    return OutOfMemory(
        f"rank {rank}: out of memory of the {where}: model {config.model.name}, {config.local_batch} samples a worker "
        f"(batch={config.batch}, accumulate={config.accumulate})" + (f", at an allocation of {size}" if size else "")
    )
