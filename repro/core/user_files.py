"""Files that a user names: read whole, where they are files and of a size that such a file can have."""

from __future__ import annotations

import errno
from pathlib import Path

LARGEST = 64 * 2**20  # bytes; a profile of a thousand layers has some hundred thousand


def read_bytes(path: Path) -> bytes:
    """OSError also for what is larger, and for a device, which may have no end, or a pipe, which may have no writer."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file")
    if (size := path.stat().st_size) > LARGEST:
        raise OSError(errno.EFBIG, f"{size:,} bytes; must be {LARGEST:,} or less")
    return path.read_bytes()


def read_text(path: Path) -> str:
    """The same of UTF-8; UnicodeDecodeError for what is not."""
    return read_bytes(path).decode("utf-8")
