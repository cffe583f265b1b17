"""What `ps` and /proc show as a process's command line: of a forked one, what it runs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
RANK = "rank="
ROOM = "-" * 1500  # an argument that leaves space for longer words


def rank_of(environment: Mapping[str, str]) -> list[str]:
    """As in ["rank=1"], of a process that a launcher gave a rank: /proc shows no more of a forked one's environment."""
    return [f"{RANK}{environment[name]}" for name in RANK_VARIABLES if name in environment][:1]


def show(words: Sequence[str]) -> None:
    """Write the words over this process's own, as far as there is room."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # arg_start, arg_end of proc(5), 0 where one may not look
    if not 0 < begin < end:
        return
    text = b"\0".join(word.encode(errors="surrogateescape") for word in words)[: end - begin - 1]
    # no byte may stay of what stood there; in one argument, so that it ends no word list
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)
