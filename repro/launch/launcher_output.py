"""Parser of launchers' messages about ranks that ended without writing a reason (`repro.rank.ends`): they were killed,
or could not write the file."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

# messages of mpirun (prterun breaks the line), torchrun and srun about a rank that a signal terminated
KILLED = re.compile(
    r"process rank (?P<mpirun>\d+)\s[\s\S]{0,200}?exited\s+on\s+signal\s+(?P<mpirun_signal>\d+)"
    r"|rank\s*:\s*(?P<torchrun>\d+) [^\n]*\n\s*exitcode\s*:\s*-(?P<torchrun_signal>\d+)"
    r"|srun: error: (?P<node>\S+): tasks? (?P<srun>\d+)\S*: (?P<srun_signal>[A-Z][a-z ]+?)(?: \(core dumped\))?\n"
)
NAMES = {word: each.name for each in signal.Signals for word in (str(int(each)), signal.strsignal(each))}
BY_LAUNCHERS = ("SIGTERM", "SIGABRT")  # signals that launchers send to the remaining ranks
REFUSED = re.compile(r"repro-error\[(\d)\] (.*)")  # from a rank that cannot write its file, or a node without a rank
LONGEST = 300  # characters
ERROR = re.compile(r"[\w.]*(Error|Exception)\b|srun: error")
RULE = re.compile(r"-{20,}")  # before and after a message of Open MPI
# messages of Open MPI that name no cause
UNINFORMATIVE = re.compile(
    r"WARNING|By default|Primary job|(mpirun|prterun) (detected|has exited|noticed)|MPI_ABORT was invoked"
)
FRAME = re.compile(r"Traceback|File \"|\[[\w.-]+:\d+\] |[\W\d]*$")  # of tracebacks and of Open MPI's own code


def find_killed(text: str) -> tuple[str, str] | None:
    """The first rank that a signal terminated, with its node under srun, and the signal's name."""
    for match in KILLED.finditer(text):
        rank = match["mpirun"] or match["torchrun"] or match["srun"]
        number = match["mpirun_signal"] or match["torchrun_signal"] or match["srun_signal"]
        name = NAMES.get(number, None if match["srun"] else f"signal {number}")
        if name and name not in BY_LAUNCHERS:
            return f"rank {rank}" + (f" on node {match['node']}" if match["node"] else ""), name
    return None


def find_refused(text: str) -> tuple[str, str] | None:
    """Exit status and reason of the first `repro-error` line."""
    match = REFUSED.search(text)
    return (match[1], match[2]) if match else None


def find_reason(lines: Iterable[str]) -> str | None:
    """The first error of Python or srun; else the first informative message of Open MPI; else the last line that is no
    traceback. None if there is none of these."""
    plain, messages = _split(line.strip() for line in lines)
    candidates = (
        *(line for line in plain if ERROR.match(line)),
        *(message for message in messages if not UNINFORMATIVE.match(message)),
        *(line for line in reversed(plain) if not FRAME.match(line)),
    )
    first = next(iter(candidates), None)
    return first if first is None or len(first) <= LONGEST else f"{first[:LONGEST]} ..."


def _split(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """The lines outside Open MPI's messages, and the first two paragraphs of each message as one line."""
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
