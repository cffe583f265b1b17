"""A rank's peak memory, and the one-line error where memory ran out."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from repro.core.errors import InputError, OutOfMemory
from repro.core.memory import exhausted
from repro.experiment.schema import RunConfig

GPU, PROCESS = "gpu", "process"  # whose memory a peak measures


def kind(device: torch.device) -> str:
    """What `peak_bytes` measures: torch's memory on the GPU, or the whole process on the host."""
    return GPU if device.type == "cuda" else PROCESS


def peak_bytes(device: torch.device) -> int:
    """Peak so far: on a GPU of tensors (`torch.cuda.max_memory_allocated`) since the last `forget`; else the process's
    resident set, libraries included."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB on Linux


def forget(device: torch.device) -> None:
    """Start measuring anew: memory that an evaluation used on a GPU is not training's."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


@contextmanager
def explained(rank: int, config: RunConfig) -> Iterator[None]:
    """Errors of torch for which the configuration is the reason, as a line: OutOfMemory with rank, model and batch;
    InputError for an operation that has no deterministic algorithm."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        while isinstance(error.__cause__, RuntimeError):  # a library has put words of its own around it
            error = error.__cause__
        message = " ".join(str(error).split())
        if where := exhausted(error):
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
