"""Reading and checking files that a user names, such as profiles."""

from __future__ import annotations

import errno
from pathlib import Path

from repro.core.errors import InputError

LARGEST = 64 * 2**20  # bytes; a profile of a thousand layers has a few hundred thousand


def read_bytes(path: Path) -> bytes:
    """The content of a regular file of at most LARGEST bytes; OSError for larger files, devices and pipes."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file")
    if (size := path.stat().st_size) > LARGEST:
        raise OSError(errno.EFBIG, f"{size:,} bytes; must be {LARGEST:,} or less")
    return path.read_bytes()


def read_text(path: Path) -> str:
    """The content as UTF-8 text; OSError as `read_bytes`, and UnicodeDecodeError."""
    return read_bytes(path).decode("utf-8")


def read_profile(path: Path, remedy: str) -> str:
    """The text of a profile; InputError if it cannot be read. remedy: what to do about a missing file."""
    try:
        return read_text(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such profile; {remedy}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: not a readable profile ({reason})") from None


def check_target(path: Path) -> None:
    """InputError if no file can be created there, or only in the place of something else than a file."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):  # a rename would replace it
        raise InputError(f"{path}: is a link, pipe or device; must be a regular file, or a new name")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; must be a file")
