"""Folders and files at predictable paths, checked to belong to this user, so that no other user has planted them."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import IO, Any

from repro.core.errors import InputError


def private_folder(path: Path) -> Path:
    """The folder, created if missing. InputError if it is a link, another user's, or accessible to others.

    Its content can be trusted if others cannot rename it, as in /tmp.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        why = "is a link; must be a folder" if path.is_symlink() else error.strerror
        raise InputError(f"{path}: {why}; set REPRO_RUNTIME to another folder") from None
    status = os.fstat(descriptor)
    os.close(descriptor)
    if status.st_uid != os.geteuid():
        raise InputError(f"{path}: belongs to another user ({status.st_uid}); set REPRO_RUNTIME to another folder")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise InputError(f"{path}: others may use it (mode {stat.S_IMODE(status.st_mode):o}); chmod 700 {path}")
    return path


def short_folder(name: str) -> Path:
    """A permanent folder of this user in /tmp, for files that need a short path ($TMPDIR may be long).

    A new temporary one if another user has taken its name.
    """
    try:
        return private_folder(Path(f"/tmp/repro-{os.geteuid()}-{name}"))
    except InputError:
        return Path(tempfile.mkdtemp(prefix="repro-", dir="/tmp"))


def open_private(path: Path, mode: str) -> IO[Any]:
    """Like `open`; InputError if the file is a link or another user's."""

    def own(name: str, flags: int) -> int:
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise InputError(f"{name}: {'is a link' if path.is_symlink() else error.strerror}; remove it") from None
        if os.fstat(descriptor).st_uid != os.geteuid():
            os.close(descriptor)
            raise InputError(f"{name}: belongs to another user; remove it")
        return descriptor

    return open(path, mode, opener=own)
