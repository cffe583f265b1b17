"""What launchers print about the end of ranks, for ranks that leave no reason (`repro.rank.ends`): those that are
killed, and those that cannot write their file."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

# how mpirun (prterun breaks the line), torchrun and srun name a rank that a signal ended
KILLED = re.compile(
    r"process rank (?P<mpirun>\d+)\s[\s\S]{0,200}?exited\s+on\s+signal\s+(?P<mpirun_signal>\d+)"
    r"|rank\s*:\s*(?P<torchrun>\d+) [^\n]*\n\s*exitcode\s*:\s*-(?P<torchrun_signal>\d+)"
    r"|srun: error: (?P<node>\S+): tasks? (?P<srun>\d+)\S*: (?P<srun_signal>[A-Z][a-z ]+?)(?: \(core dumped\))?\n"
)
NAMES = {word: each.name for each in signal.Signals for word in (str(int(each)), signal.strsignal(each))}
BY_LAUNCHERS = ("SIGTERM", "SIGABRT")  # with which they end those that are left
REFUSED = re.compile(r"repro-error\[(\d)\] (.*)")  # a rank that cannot write its file, a node that cannot start one
LONGEST = 300  # characters
ERROR = re.compile(r"[\w.]*(Error|Exception)\b|srun: error")
RULE = re.compile(r"-{20,}")  # before and behind a message of Open MPI
# messages of Open MPI that say no more than that something else has happened
EMPTY = re.compile(
    r"WARNING|By default|Primary job|(mpirun|prterun) (detected|has exited|noticed)|MPI_ABORT was invoked"
)
FRAME = re.compile(r"Traceback|File \"|\[[\w.-]+:\d+\] |[\W\d]*$")  # of tracebacks and of Open MPI's own code


def killed(text: str) -> tuple[str, str] | None:
    """The rank that was lost first, with its node where there are several, and the signal that ended it."""
    for found in KILLED.finditer(text):
        rank = found["mpirun"] or found["torchrun"] or found["srun"]
        sign = found["mpirun_signal"] or found["torchrun_signal"] or found["srun_signal"]
        name = NAMES.get(sign, None if found["srun"] else f"signal {sign}")
        if name and name not in BY_LAUNCHERS:
            return f"rank {rank}" + (f" on node {found['node']}" if found["node"] else ""), name
    return None


def refused(text: str) -> tuple[str, str] | None:
    """The status and the reason in the first line of our own."""
    found = REFUSED.search(text)
    return (found[1], found[2]) if found else None


def reason(lines: Iterable[str]) -> str | None:
    """The first error of Python's or srun's; else the first message of Open MPI's, what went wrong and where; else the
    last line that says something. None where nothing does."""
    plain, messages = _apart(line.strip() for line in lines)
    found = next((line for line in plain if ERROR.match(line)), None)
    found = found or next((message for message in messages if not EMPTY.match(message)), None)
    found = found or next((line for line in reversed(plain) if not FRAME.match(line)), None)
    return found if found is None or len(found) <= LONGEST else f"{found[:LONGEST]} ..."


def _apart(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Lines outside of Open MPI's messages, and of each of these the first two paragraphs, as one line."""
    plain: list[str] = []
    messages: list[str] = []
    message: list[str] | None = None
    for line in lines:
        if RULE.fullmatch(line):
            if message is not None:
                paragraphs = "\n".join(message).strip().split("\n\n")[:2]
                messages.append(" ".join(" ".join(paragraphs).split()))
            message = [] if message is None else None
        else:
            (plain if message is None else message).append(line)
    return plain + (message or []), messages
