"""Supervision of a run's ranks: read rank 0's messages, detect stalls, report the cause of a failure in one line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from repro.core import safe_files
from repro.core.errors import Crashed, Diverged, FaultError, InputError, OutOfMemory, ReproError, TooBusy
from repro.core.not_none import not_none
from repro.core.processes import StopWatch, end_with_parent
from repro.rank import ends
from repro.rank.ends import End

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


KEPT_LINES = 400
GRACE_S = 5.0
LOOK_EVERY_S, STOPPED_LOOKS = 0.5, 60  # a simulation that is stopped at so many looks in a row is ended
CAUSES = {str(kind.mark): kind for kind in (Crashed, Diverged, OutOfMemory, TooBusy)}  # explain the other ranks' errors
KINDS = {str(InputError.status): InputError, **CAUSES}  # all others are FaultError

_running: set[Ranks] = set()


def stop_everything() -> None:
    """On an interrupt, end the ranks of all runs of this process, and interrupt the threads that follow them."""
    for ranks in list(_running):
        ranks.interrupted = True
        ranks.stop()


def live_descendants(*pids: int) -> list[int]:
    """Those of these processes that still run, and all their descendants, zombies excepted. Read from /proc, because
    torchrun starts each rank in its own session."""
    children: dict[int, list[int]] = {}
    running = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                running.add(int(stat.parent.name))
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    tree = list(running.intersection(pids))
    for each in tree:
        tree += [child for child in children.get(each, []) if child not in tree]
    return tree


class Ranks:
    """The processes of one run; `stop` ends all of them."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        log: Path | None,
        keep_open: Sequence[int] = (),
        count: int = 0,
        alone: bool = False,
    ):
        """log: file for their output if they fail; keep_open: file descriptors that the command inherits; count: the
        number of ranks, which may be on other machines; alone: they are one process here, which no peer waits for."""
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.log = log
        self.last_output = time.monotonic()
        self.interrupted = self.stalled = self.stopped = False
        self._alone = alone
        self._ends = log.with_name(ends.FOLDER) if log else Path(tempfile.mkdtemp(prefix="repro-ranks-"))
        ends.prepare_ends(self._ends, count)
        self.process = subprocess.Popen(
            command,
            env=environment | {ends.VARIABLE: str(self._ends)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=end_with_parent,
            pass_fds=keep_open,
        )
        self._seen = {self.process.pid}  # running processes at the last look
        self._stderr = threading.Thread(target=self._keep_stderr, daemon=True)
        self._stderr.start()
        _running.add(self)

    def _keep_stderr(self) -> None:
        self.lines.extend(not_none(self.process.stderr))

    def follow(self, on_message: Callable[[dict], None], stall_s: float) -> None:
        """Call `on_message` with each message of rank 0 until the ranks end.

        Raises InputError or FaultError with the ranks' own reason, FaultError after `stall_s` seconds without output,
        KeyboardInterrupt after `stop_everything`.
        """
        threading.Thread(target=self._watch, args=(stall_s,), daemon=True).start()
        for line in not_none(self.process.stdout):
            self.last_output = time.monotonic()
            if line.startswith("@{"):
                with contextlib.suppress(ValueError):
                    on_message(json.loads(line[1:]))
            else:
                self.lines.append(line)
        status = self.process.wait()
        self._stderr.join(GRACE_S)
        if self.interrupted:
            raise KeyboardInterrupt
        if status != 0:
            raise self._reason(status, stall_s)

    def _watch(self, stall_s: float) -> None:
        first_end: float | None = None  # when a rank first reported a reason; the others then have GRACE_S to end
        watch = StopWatch(STOPPED_LOOKS)
        while self.process.poll() is None:
            now = time.monotonic()
            if first_end is None and ends.read_ends(self._ends):
                first_end = now
            self.stalled = now - self.last_output > stall_s
            if self._alone:
                self.stopped = bool(watch.stopped(ends.rank_processes(self._ends).values()))
            if self.stalled or self.stopped or (first_end is not None and now - first_end > GRACE_S):
                self._end_all()
                return
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        """End every process of the run by SIGTERM, then SIGKILL; returns when none is left.

        A second interrupt meanwhile only skips the wait after SIGTERM.
        """
        self._end_all()
        safe_files.remove_tree(self._ends)

    def _end_all(self) -> None:
        _running.discard(self)
        try:
            self._end(signal.SIGTERM)
        finally:
            self._end(signal.SIGKILL)

    def _end(self, sign: int) -> None:
        """Signal each process once, new ones too, until none is left or GRACE_S seconds have passed."""
        signalled: set[int] = set()
        until = time.monotonic() + GRACE_S
        while (left := self._left()) and time.monotonic() < until:
            for pid in left - signalled:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sign)
            signalled |= left
            time.sleep(0.02)

    def _left(self) -> set[int]:
        """Running processes, including those seen earlier whose parent has ended."""
        if self.process.poll() is not None:
            self._seen.discard(self.process.pid)  # its number may have been reused
        self._seen = set(live_descendants(*self._seen))
        return self._seen

    def _reason(self, status: int, stall_s: float) -> ReproError:
        text = "".join(self.lines)
        self._save(text)
        # one of CAUSES explains the other ranks' errors; otherwise the first error counts
        reasons = sorted(ends.read_ends(self._ends), key=lambda end: (end.kind not in CAUSES, end.at))
        if not reasons and (refused := find_refused(text)):
            reasons = [End(0, *refused, 0.0)]
        lost = find_killed(text)
        if reasons:
            kind = KINDS.get(reasons[0].kind, FaultError)
            also = " ({} had ended by {})".format(*lost) if lost and kind is FaultError else ""
            return kind(reasons[0].reason + also)
        if self.stopped:
            return FaultError("the simulation's process stayed stopped (SIGSTOP); it was ended")
        if self.stalled:
            return FaultError(f"no sign of life from the ranks for {stall_s:g} s; they were ended")
        if lost:
            return FaultError("{} was lost: ended by {}".format(*lost))
        where = f"; see {self.log}" if self.log and self.log.exists() else ""
        if status < 0:
            name = NAMES.get(str(-status), -status)
            return FaultError(f"the ranks were ended by {name}{where}")
        why = find_reason(self.lines) or "no reason given"
        return FaultError(f"the ranks ended with status {status}: {why}{where}")

    def _save(self, text: str) -> None:
        if self.log:
            with contextlib.suppress(OSError, InputError):  # the reason may be a full disk
                safe_files.write_safely(self.log, text.encode("utf-8", "replace"))
