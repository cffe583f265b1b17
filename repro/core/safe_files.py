"""The one door to the files of a results folder: none of them is reached through a link.

A results folder may come from somebody else: unpacked, shared, mounted. Through a link in it a command would overwrite,
delete or upload its user's other files. So every folder and file below the results folder is opened without following
links (O_NOFOLLOW), by file descriptor. The results folder itself, and what is above it, may be a link:
`results -> /scratch/results` is the user's own. Of a file outside of the results folder only its own name must not be a
link.

Every function raises OSError with the whole path, and InputError in one line for a link, for `..` and for what is
neither a file nor a folder: a pipe would block, a device may have no end.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.core.errors import InputError
from repro.core.paths import results_root

_WAY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
MOST_WRITERS = 100  # of one file at a time
LONGEST = 255  # bytes of a name, on every file system in use


def is_plain(name: Any) -> bool:
    """Whether a text from a record may be the name of a file or folder: one component, not hidden, printable."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and not name.startswith(".")
        and not {"/", "\\"} & {*name}
        and 0 < len(name.encode()) <= LONGEST
    )


def checked(what: str, name: Any) -> str:
    """The name; InputError where it is not plain. what: whose name it is."""
    if not is_plain(name):
        raise InputError(f"{what} {str(name)[:60]!r}: must be a plain name: no slash, no dot in front")
    return str(name)


def open_file(path: Path, mode: str = "rb", **how: Any) -> Any:
    """As the built-in `open`."""
    return open(path, mode, opener=lambda _, flags: open_descriptor(path, flags), **how)


def open_descriptor(path: Path, flags: int) -> int:
    """As `os.open`."""
    with _parent(path) as (folder, name):
        try:
            found = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, folder, name, path) from None
    kind = os.fstat(found).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        os.close(found)
        raise _no_file(path)
    return found


def read(path: Path) -> bytes:
    with open_file(path) as file:
        return bytes(file.read())


def make_folder(path: Path, new: bool = False) -> None:
    """Make a folder with its parents. new: FileExistsError where it is there."""
    root = _root(path)
    root.mkdir(parents=True, exist_ok=True)
    below = path.absolute().relative_to(root.absolute()).parts
    for count in range(1, len(below) + 1):
        each = root.joinpath(*below[:count])
        with _parent(each) as (folder, name):
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                if new and count == len(below):
                    raise
            except OSError as error:
                raise _refusal(error, folder, name, each) from None
    _check_folder(path)


def write(path: Path, content: bytes) -> None:
    """Write a file anew, not on the disk yet when this returns."""
    with open_file(path, "wb") as file:
        file.write(content)


def replace(path: Path, content: bytes, durable: bool = True) -> None:
    """Write beside, then rename: readers see the old content or the new. durable: the content is on the disk before it
    has the name, which the folder may lose yet.

    What a killed process left of the temporary file is written anew.
    """
    with _parent(path) as (folder, name):
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
    """A new file beside `path`, open for writing, which no other process takes for its own while it is open: each has
    a lock on its own. What is not renamed is deleted."""
    for number in range(MOST_WRITERS):
        temporary = path.with_name(f"{path.name}.{number}.tmp" if number else f"{path.name}.tmp")
        if not _cleared(temporary):
            continue
        try:
            file = open_file(temporary, "xb")
        except FileExistsError:  # another process was faster
            continue
        with file:
            if not _locked(file) or not _is_at(file, temporary):
                continue
            try:
                yield file
            except BaseException:
                with contextlib.suppress(OSError):
                    remove(temporary)
                raise
        return
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))


def _cleared(path: Path) -> bool:
    """Delete what a killed process left there; False where a process is at it."""
    with contextlib.suppress(FileNotFoundError), open_file(path) as file:
        if not _locked(file) or not _is_at(file, path):
            return False
        remove(path)
    return True


def _is_at(file: Any, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def _locked(file: Any) -> bool:
    """Take the lock of an open file; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def remove(path: Path) -> None:
    """Delete a file, if it is there."""
    check(path)
    with contextlib.suppress(FileNotFoundError), _parent(path) as (folder, name):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, folder, name, path) from None


def remove_tree(path: Path) -> None:
    """Delete a folder with all that it holds, as far as that is possible; links in it go, not what they lead to."""
    check(path)
    with contextlib.suppress(FileNotFoundError), _parent(path) as (folder, name):
        shutil.rmtree(name, ignore_errors=True, dir_fd=folder)


def check(path: Path) -> None:
    """InputError for a link on the way to a file or in its place, there or not: for code that opens it by itself."""
    with contextlib.suppress(FileNotFoundError), _parent(path) as (folder, name):
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            raise _link(path)


def check_tree(path: Path) -> None:
    """InputError for the first link, pipe or device in a folder, however deep: for code that opens files by itself."""
    _check_folder(path)
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            place = Path(folder, name)
            if place.is_symlink():
                raise _link(place)
            if not place.is_dir() and not place.is_file() and place.exists():
                raise _no_file(place)


def _root(path: Path) -> Path:
    """The folder above whose name links may stand."""
    whole = path.absolute()
    for root in (results_root(), results_root().resolve()):
        if whole != root and whole.is_relative_to(root):
            return root
    return whole.parent


@contextlib.contextmanager
def _parent(path: Path) -> Iterator[tuple[int, str]]:
    """The folder that holds a file, as a file descriptor, and the file's name there."""
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
    with _parent(path / "_"):
        pass


def _refusal(error: OSError, folder: int, name: str, path: Path) -> Exception:
    """What an error at a name comes to."""
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
