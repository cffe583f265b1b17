"""A rank's peak memory, and the one-line error if memory runs out."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from repro.core.errors import InputError, OutOfMemory, exhausted_memory
from repro.experiment.schema import RunConfig


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
