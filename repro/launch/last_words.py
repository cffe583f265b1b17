"""Why ranks ended, of what they and their launcher have printed, where no rank has given a reason in our own words."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 300  # characters
ERROR = re.compile(r"[\w.]*(Error|Exception)\b|srun: error")
RULE = re.compile(r"-{20,}")  # before and behind a message of Open MPI
# messages of Open MPI that say no more than that something else has happened
EMPTY = re.compile(
    r"WARNING|By default|Primary job|(mpirun|prterun) (detected|has exited|noticed)|MPI_ABORT was invoked"
)
FRAME = re.compile(r"Traceback|File \"|\[[\w.-]+:\d+\] |[\W\d]*$")  # of tracebacks and of Open MPI's own code


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
