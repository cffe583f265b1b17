"""Atomic, durable writes: readers see a file's old content or the new, never a part of it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.core import safe_files

MOST_WRITERS = 100  # concurrent writers of a file


def write_atomically(path: Path, content: str | bytes) -> None:
    """`replace_file`, durably: when this returns, the content, the name and earlier renames in the folder are on
    disk."""
    replace_file(path, content.encode() if isinstance(content, str) else content)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write a folder's directory entries to the disk, if the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def replace_file(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a temporary file beside `path`, then rename it. durable: the content is on disk before the rename; a crash
    may still lose the rename. The temporary file of a killed process is reused."""
    with safe_files.open_parent(path) as (folder, name):
        try:
            with _temporary(path) as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                os.replace(Path(file.name).name, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Any]:
    """A new file beside `path`, open for writing and locked against other processes; deleted if the block raises."""
    for number in range(MOST_WRITERS):
        temporary = path.with_name(f"{path.name}.{number}.tmp" if number else f"{path.name}.tmp")
        if not _cleared(temporary):
            continue
        try:
            file = safe_files.open_file(temporary, "xb")
        except FileExistsError:  # another process created it first
            continue
        with file:
            if not _locked(file) or not _is_at(file, temporary):
                continue
            try:
                yield file
            except BaseException:
                with contextlib.suppress(OSError):
                    safe_files.remove_safely(temporary)
                raise
        return
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))


def _cleared(path: Path) -> bool:
    """Delete the temporary file of a killed process; False if a living process uses it."""
    with contextlib.suppress(FileNotFoundError), safe_files.open_file(path) as file:
        if not _locked(file) or not _is_at(file, path):
            return False
        safe_files.remove_safely(path)
    return True


def _is_at(file: Any, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def _locked(file: Any) -> bool:
    """Lock an open file; False if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
