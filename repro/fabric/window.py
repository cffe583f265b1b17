"""Large buffers for messages without contents, which all share one small piece of real memory."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

PIECE = 4 << 20  # bytes of real memory, all zeros
MAP_FIXED = 0x10  # mmap(2), Linux
FAILED = ctypes.c_void_p(-1).value


class Window:
    """Buffers of any size that share the same 4 MB of memory (Linux).

    Concurrent senders and receivers may use it, because it only ever contains zeros. So a rank that receives 550 MB
    needs no 550 MB, and 32 such ranks fit into memory.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create("messages")
        os.ftruncate(self._file, PIECE)
        self._bytes = np.empty(0, np.uint8)

    def of(self, nbytes: int) -> np.ndarray:
        """A buffer of `nbytes`; earlier buffers stay valid."""
        if nbytes > len(self._bytes):
            self._bytes = self._mapped(max(nbytes, 2 * len(self._bytes)))
        return self._bytes[:nbytes]

    def _mapped(self, nbytes: int) -> np.ndarray:
        """A new address range that maps PIECE again and again.

        It is never unmapped: an MPI request may still use it.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

        def mapped(at: int | None, length: int, may: int, flags: int, file: int) -> int:
            place = libc.mmap(at, length, may, flags, file, 0)
            if place == FAILED:
                raise OSError(ctypes.get_errno(), f"no window of {nbytes} bytes for messages")
            return place

        pieces = -(-nbytes // PIECE)
        start = mapped(None, pieces * PIECE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        for piece in range(pieces):
            may = mmap.PROT_READ | mmap.PROT_WRITE
            mapped(start + piece * PIECE, PIECE, may, mmap.MAP_SHARED | MAP_FIXED, self._file)
        return np.ctypeslib.as_array((ctypes.c_uint8 * (pieces * PIECE)).from_address(start))
