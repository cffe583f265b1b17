"""Recognises out-of-memory errors; torch has an exception type for only some of them."""

from __future__ import annotations

GPU, HOST = "GPU", "host"
GPU_MESSAGES = ("CUDA error: out of memory", "_STATUS_ALLOC_FAILED")  # from CUDA, cuBLAS and cuDNN
HOST_MESSAGE = "DefaultCPUAllocator"


def exhausted_memory(error: BaseException) -> str | None:
    """GPU or HOST, whichever memory ran out; None for other errors."""
    if isinstance(error, MemoryError):
        return HOST
    if type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in GPU_MESSAGES):
        return GPU
    return HOST if isinstance(error, RuntimeError) and HOST_MESSAGE in str(error) else None
