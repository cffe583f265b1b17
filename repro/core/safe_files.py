"""Opens files of a results folder without following links.

A results folder may come from somebody else. Through a link in it a command could overwrite, delete or upload other
files of its user. So every path below the results folder is opened component by component with O_NOFOLLOW. The results
folder itself and its parents may be links, such as `results -> /scratch/results`. Outside of the results folder only
the file itself must not be a link.

Every function raises OSError with the whole path, and InputError for a link, for `..`, and for anything that is neither
a file nor a folder: a pipe blocks, a device may be endless.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.core.errors import InputError
from repro.core.paths import results_root

_WAY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
LONGEST = 255  # bytes of a name, on all common file systems


def is_plain(name: Any) -> bool:
    """Whether a name from a record can name a file or folder: one printable component, not hidden."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and not name.startswith(".")
        and not {"/", "\\"} & {*name}
        and 0 < len(name.encode()) <= LONGEST
    )


def check_plain(kind: str, name: Any) -> str:
    """The name; InputError if it is not plain. kind: of the named thing, for the message."""
    if not is_plain(name):
        raise InputError(f"{kind} {str(name)[:60]!r}: must be a plain name: no slash, no dot in front")
    return str(name)


def open_file(path: Path, mode: str = "rb", **how: Any) -> Any:
    """As the built-in `open`."""
    return open(path, mode, opener=lambda _, flags: open_descriptor(path, flags), **how)


def open_descriptor(path: Path, flags: int) -> int:
    """As `os.open`."""
    with open_parent(path) as (folder, name):
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, folder, name, path) from None
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        os.close(descriptor)
        raise _no_file(path)
    return descriptor


def read_safely(path: Path) -> bytes:
    with open_file(path) as file:
        return bytes(file.read())


def make_folder(path: Path, new: bool = False) -> None:
    """Create a folder and its parents. new: FileExistsError if it exists."""
    root = _root(path)
    root.mkdir(parents=True, exist_ok=True)
    below = path.absolute().relative_to(root.absolute()).parts
    for count in range(1, len(below) + 1):
        each = root.joinpath(*below[:count])
        with open_parent(each) as (folder, name):
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                if new and count == len(below):
                    raise
            except OSError as error:
                raise _refusal(error, folder, name, each) from None
    _check_folder(path)


def write_safely(path: Path, content: bytes) -> None:
    """Overwrite a file, without `fsync`."""
    with open_file(path, "wb") as file:
        file.write(content)


def remove_safely(path: Path) -> None:
    """Delete a file, if it exists."""
    check_links(path)
    with contextlib.suppress(FileNotFoundError), open_parent(path) as (folder, name):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, folder, name, path) from None


def remove_tree(path: Path) -> None:
    """Delete a folder and its contents as far as possible; links in it are deleted, not their targets."""
    check_links(path)
    with contextlib.suppress(FileNotFoundError), open_parent(path) as (folder, name):
        shutil.rmtree(name, ignore_errors=True, dir_fd=folder)


def check_links(path: Path) -> None:
    """InputError if the file, or a folder on its path, is a link; for code that opens the file itself."""
    with contextlib.suppress(FileNotFoundError), open_parent(path) as (folder, name):
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            raise _link(path)


def check_tree(path: Path) -> None:
    """InputError for the first link, pipe or device anywhere in a folder; for code that opens its files itself."""
    _check_folder(path)
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            place = Path(folder, name)
            if place.is_symlink():
                raise _link(place)
            if not place.is_dir() and not place.is_file() and place.exists():
                raise _no_file(place)


def _root(path: Path) -> Path:
    """The folder from which links are forbidden; its own path may contain links."""
    whole = path.absolute()
    for root in (results_root(), results_root().resolve()):
        if whole != root and whole.is_relative_to(root):
            return root
    return whole.parent


@contextlib.contextmanager
def open_parent(path: Path) -> Iterator[tuple[int, str]]:
    """(file descriptor of a file's folder, the file's name in it)."""
    whole, root = path.absolute(), _root(path)
    *folders, name = whole.relative_to(root).parts
    if ".." in (*folders, name):
        raise InputError(f"{path}: leads out of {root}")
    here = os.open(root, _WAY)
    try:
        for count, each in enumerate(folders, 1):
            try:
                below = os.open(each, _WAY | os.O_NOFOLLOW, dir_fd=here)
            except OSError as error:
                raise _refusal(error, here, each, root.joinpath(*folders[:count])) from None
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def _check_folder(path: Path) -> None:
    with open_parent(path / "_"):
        pass


def _refusal(error: OSError, folder: int, name: str, path: Path) -> Exception:
    """The exception for a failed `open`: InputError for links and special files, else OSError with the path."""
    with contextlib.suppress(OSError):
        kind = os.lstat(name, dir_fd=folder).st_mode
        if stat.S_ISLNK(kind):
            return _link(path)
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            return _no_file(path)
    return OSError(error.errno, error.strerror, str(path))


def _link(path: Path) -> InputError:
    return InputError(f"{path}: is a link; a results folder holds files and folders of its own; remove the link")


def _no_file(path: Path) -> InputError:
    return InputError(f"{path}: is neither a file nor a folder; remove it")
