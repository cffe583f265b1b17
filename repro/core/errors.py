"""Errors that end a command: wrong input (status 2), or a failure while running (status 1).

Also what an error of other code says: where it was raised, which memory ran out, which disk is full."""

from __future__ import annotations

import difflib
import errno
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from repro.core.paths import results_root

# error numbers of a file or folder that cannot be written, or whose name no file can have
UNUSABLE = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.ENAMETOOLONG)
PREEMPTED = 75  # exit status of a command whose repetition resumes the run (EX_TEMPFAIL of sysexits.h)
LONGEST_PATH = 255  # characters of a path in a message
LISTED, NEAREST = 12, 5  # maximum number of valid names in a message; of more, how many


class ReproError(Exception):
    """Ends the command with one line on stderr and `status`; never shown as a traceback."""

    status = 1
    mark: str | None = None  # identifies the error class in a rank's message to its command; None: `status` does


class InputError(ReproError):
    """The input cannot be used; the message names the entry, its place, and what is allowed."""

    status = 2


class NotHere(InputError):
    """This machine lacks a data set, library or kernel feature; runs that do not need it can still run here."""


class FaultError(ReproError):
    """A rank was lost, or a time limit passed; the same command resumes from the last checkpoint."""

    again = "the same command resumes"  # the remedy in the command's message; folder: the run's; advice: its warnings


class Diverged(FaultError):
    """A loss or a weight is not finite (`repro.rank.divergence`). The same command does not repeat the run."""

    mark = "diverged"
    again = "{advice}; the same command does not run it again, --force does"
    ADVICE = "a lower learning rate may help"  # if the run had no warning


class Crashed(FaultError):
    """Code in a rank raised an exception (`repro.rank.programs`), or a simulation deadlocked: a repetition fails
    too."""

    mark = "crashed"
    again = "the details are in {folder}/ranks.log; the same command fails again until the cause is corrected"


class OutOfMemory(FaultError):
    """A rank ran out of GPU or host memory (`repro.rank.meters`)."""

    mark = "memory"
    again = "a smaller batch may help, or a larger accumulate"


class TooBusy(FaultError):
    """This machine was too busy, or is too slow, for the times of a run to count. A command tries the run once more."""

    mark = "busy"
    again = "the same command tries it again, best when nothing else runs"


def cannot_access(action: str, path: Path, error: OSError) -> InputError:
    """An InputError for an `action` (read, write) on a file that failed."""
    reason = error.strerror or str(error)
    return InputError(f"cannot {action} {path}: {f'disk full ({reason})' if error.errno == errno.ENOSPC else reason}")


def shorten_path(path: str) -> str:
    """A path for a message, without the middle of a long one."""
    half = LONGEST_PATH // 2
    return path if len(path) <= LONGEST_PATH else f"{path[:half]} ... {path[-half:]}"


def some_of(names: Sequence[object], most: int = 3, separator: str = ", ") -> str:
    """The first `most` names, in quotes if one has the separator, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return join_names(names[:most], separator) + more


def join_names(names: Sequence[object], separator: str = ", ") -> str:
    """The names, in quotes if one has the separator."""
    shown = [*map(str, names)]
    return separator.join([f"'{name}'" for name in shown] if any(separator in name for name in shown) else shown)


def unknown_name(kind: str, name: str, valid: Iterable[str], all_of: str = "") -> InputError:
    """An InputError for an unknown name that lists the valid ones, the most similar first; of many the nearest.

    all_of: the command or file that lists all.
    """
    names = sorted(valid)
    ranked = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=0.0)
    if len(ranked) <= LISTED:
        return InputError(f"unknown {kind} '{name}'; valid: {join_names(ranked) or 'none'}")
    rest = f"{all_of} names all" if all_of else f"of {len(ranked)}"
    return InputError(f"unknown {kind} '{name}'; nearest: {join_names(ranked[:NEAREST])} ({rest})")


def describe_error(error: BaseException, *preferred: Callable[[str], bool]) -> str:
    """`FILE:LINE: TYPE: MESSAGE` of the last executed line in a preferred file, else of the last executed line.

    preferred: predicates of a file's path, in order of preference. A syntax error names its own file and line.
    """
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {kind}: {error.msg}"
    message = f"{kind}: {' '.join(str(error).split())}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return message
    last = next((frame for is_of in preferred for frame in reversed(frames) if is_of(frame.filename)), frames[-1])
    return f"{last.filename}:{last.lineno}: {message}"


GPU_MEMORY, HOST_MEMORY = "GPU", "host"
GPU_MESSAGES = ("CUDA error: out of memory", "_STATUS_ALLOC_FAILED")  # from CUDA, cuBLAS and cuDNN
HOST_MESSAGE = "DefaultCPUAllocator"


def exhausted_memory(error: BaseException) -> str | None:
    """GPU or HOST, whichever memory ran out; None for other errors."""
    if isinstance(error, MemoryError):
        return HOST_MEMORY
    if type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in GPU_MESSAGES):
        return GPU_MEMORY
    return HOST_MEMORY if isinstance(error, RuntimeError) and HOST_MESSAGE in str(error) else None


FULL_BELOW = 2**20  # free bytes below which a disk counts as full


def error_place(error: OSError) -> str:
    """The error's file; else those of the results, temporary and shared-memory folders that are on a full disk; else
    the results folder."""
    if error.filename:
        return str(error.filename)
    folders = (str(results_root()), os.environ.get("TMPDIR") or "/tmp", "/dev/shm")
    return (
        " and ".join(folder for folder in dict.fromkeys(folders) if _is_full(folder)) or f"results folder {folders[0]}"
    )


def _is_full(folder: str) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_BELOW
