"""Which memory an error says was not enough: torch has a type of its own for some alone."""

from __future__ import annotations

GPU, HOST = "GPU", "host"
SAID_OF_GPUS = ("CUDA error: out of memory", "_STATUS_ALLOC_FAILED")  # of contexts, by cuBLAS, by cuDNN
SAID_OF_HOSTS = "DefaultCPUAllocator"


def exhausted(error: BaseException) -> str | None:
    """GPU or HOST; None for another error."""
    if isinstance(error, MemoryError):
        return HOST
    if type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in SAID_OF_GPUS):
        return GPU
    return HOST if isinstance(error, RuntimeError) and SAID_OF_HOSTS in str(error) else None
