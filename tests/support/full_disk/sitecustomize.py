"""Simulates a full disk for the file named by $TESTED_FULL, in all Python processes with this folder on PYTHONPATH."""

import contextlib
import os

ROOM = "TESTED_FULL"


def without_room(descriptor):
    """`repro.core.safe_files.open_descriptor`, with writes to that file redirected to a full disk."""

    def opened(path, flags):
        if path.name == os.environ.get(ROOM) and flags & os.O_ACCMODE != os.O_RDONLY:
            os.close(descriptor(path, flags))
            return os.open("/dev/full", flags & os.O_ACCMODE)
        return descriptor(path, flags)

    return opened


def unless_full(holds):
    """`atomic._locked` and `_is_at`, but that a full disk's file counts as this process's own."""
    return lambda file, *path: os.fstat(file.fileno()).st_rdev == os.stat("/dev/full").st_rdev or holds(file, *path)


with contextlib.suppress(ImportError):
    from repro.core import atomic, safe_files

    safe_files.open_descriptor = without_room(safe_files.open_descriptor)
    atomic._locked, atomic._is_at = unless_full(atomic._locked), unless_full(atomic._is_at)
