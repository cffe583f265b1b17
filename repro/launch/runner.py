"""Run an experiment's cells: skip the finished, launch the rest one by one, mirror them, go on after a failure."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import Queue
from typing import Any

from repro import launch
from repro.common import locks
from repro.common.errors import Diverged, FaultError, InputError, ReproError
from repro.common.paths import reference_root, results_root
from repro.evaluation.metrics import METRICS
from repro.experiment import files
from repro.experiment.cell import Cell
from repro.launch.progress import Progress
from repro.launch.supervise import Ranks, stop_everything
from repro.rank import programs
from repro.rank.preemption import Preempted, judged
from repro.records import provenance
from repro.records.events import EventLog
from repro.records.store import read_summary
from repro.tracking.background import INTERRUPTED_WAIT_S, Background, CellMirror
from repro.tracking.store import Store

RANKS_END_S = 30.0  # that ranks of a killed command may take to end
SYNC_EVERY_S = 10.0  # MLflow is told at most this often while ranks run: they share the cores


def run_cells(
    cells: Sequence[Cell], force: bool = False, track: bool = True
) -> tuple[list[dict[str, Any]], FaultError | None]:
    """Run what is not finished; returns the summaries of all finished cells, and what went wrong, if anything did.

    An InputError ends the command. A fault in one cell does not stop the others; the first one is returned, with how
    many cells failed.
    """
    check_results_folder()
    store = Store(None, results_root()) if track else None  # a wrong URI is said before anything runs
    todo = [cell for cell in cells if force or not cell.finished]
    progress = Progress(len(todo), sys.stderr)
    if skipped := len(cells) - len(todo):
        progress.note(f"{skipped} of {len(cells)} cells are done already (--force runs them again)")
    mirrors = Background(store, progress.note) if store else None
    limit_s: float | None = INTERRUPTED_WAIT_S
    try:
        faults = run_all(todo, lambda cell, core: run_cell(cell, force, progress, mirrors, core), progress)
        limit_s = None
    finally:
        progress.close()
        if mirrors:
            mirrors.close(limit_s)
    failed = None
    if faults:
        cell, fault = faults[0]
        others = f" (and {len(faults) - 1} more cells failed)" if len(faults) > 1 else ""
        failed = type(fault)(f"{cell.label}: {fault}{others}; {fault.again}")
    return [summary for cell in cells if (summary := read_summary(cell.folder))], failed


def run_all(
    todo: Sequence[Cell], run: Callable[[Cell, int | None], None], progress: Progress
) -> list[tuple[Cell, FaultError]]:
    """Measured cells one by one, for nothing may disturb them; then simulated ones side by side, one a core."""
    faults: list[tuple[Cell, FaultError]] = []
    cores: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)

    def attempt(cell: Cell) -> None:
        core = cores.get() if cell.simulated else None
        try:
            run(cell, core)
        except FaultError as fault:
            word = "stopped" if isinstance(fault, Preempted) else "failed"
            progress.done(cell.label, f"{word}: {cell.label}: {fault}")
            faults.append((cell, fault))
        finally:
            if core is not None:
                cores.put(core)

    for cell in todo:
        if not cell.simulated:
            attempt(cell)
    with ThreadPoolExecutor(cores.qsize()) as pool:
        running = [pool.submit(attempt, cell) for cell in todo if cell.simulated]
        try:
            for future in as_completed(running):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in running):  # one may be about to start its ranks
                stop_everything()
                time.sleep(0.05)
            raise
    return faults


def check_results_folder() -> None:
    """InputError where the workspace cannot be written to, or is the committed results, which runs only read."""
    root = results_root()
    if root.is_relative_to(reference_root()):
        raise InputError(f"results folder {root}: committed results, only read; set REPRO_RESULTS to another")
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe = root / ".writable.tmp"
        probe.write_bytes(b"x" * 65536)
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"results folder {root}: {error.strerror}; set REPRO_RESULTS to another") from None


@contextlib.contextmanager
def cell_folder(cell: Cell, note: Callable[[str], None]) -> Iterator[int]:
    """The cell's folder, for this command alone. Yields the file descriptor that says so for its launcher and ranks.

    Locks go with their processes, however these end. Ranks may outlive a command that is killed: others start when
    they are gone too. Launchers hand no file descriptors on, so each rank takes the lock for itself
    (`repro.rank.main`).
    """
    cell.folder.mkdir(parents=True, exist_ok=True)
    path = cell.folder / locks.RANKS
    with contextlib.ExitStack() as held:
        if (own := locks.take(cell.folder / locks.CELL)) is None:
            raise InputError(f"{cell.label}: another command is running this cell ({cell.folder.name})")
        held.enter_context(own)
        if (ranks := locks.take(path)) is None:
            note(f"{cell.label}: ranks of an earlier command are still ending")
            if (ranks := locks.take(path, wait_s=RANKS_END_S)) is None:
                raise InputError(
                    f"{cell.label}: ranks of an earlier command have not ended within {RANKS_END_S:g} s "
                    f"({locks.users(path)}); end them first"
                )
        held.enter_context(ranks)
        fcntl.flock(ranks, fcntl.LOCK_SH)  # nobody else asks for it without the command's lock
        yield ranks.fileno()


def run_cell(
    cell: Cell, force: bool, progress: Progress, mirrors: Background | None = None, core: int | None = None
) -> None:
    """One cell from wherever it stands to its summary; `core`: where a simulation is to run."""
    if not force and (reason := cell.diverged):
        raise Diverged(reason)
    testbed = cell.config.testbed
    launcher, threads = launch.of(testbed), testbed.threads_per_rank
    program = ["-m", "repro.rank.main", launcher.fabric, str(cell.folder)]
    with (
        launcher.place(programs.ranks(cell.config), program, threads) as place,
        cell_folder(cell, progress.note) as lock,
    ):
        folder = cell.folder
        if force:
            clear(cell)
        # not finished, whatever a summary from elsewhere says: an interrupted run must not find itself done
        (folder / "summary.json").unlink(missing_ok=True)
        hardware = cell.hardware | ({"links": place.network} if place.network else {})
        recorded = {"key": cell.key, "hardware": hardware, "provenance": provenance.provenance()}
        config = cell.config.model_copy(update=recorded).plain()
        files.write_yaml(folder / "config.yaml", config)
        mirror = mirrors.cell() if mirrors else None
        if mirror:
            mirror.start(config | {"cell": cell.name})
        own_core = {"REPRO_CORE": str(core)} if core is not None else {}
        processes = Ranks(place.command, place.environment | own_core, folder / "ranks.log", keep_open=[lock])
        heard = Listener(cell, progress, mirror)
        try:
            # a rank's own time limit comes first and names the peer; this one is for when nobody is left to speak
            processes.follow(heard, 3 * cell.config.timeout_s + 60)
            if heard.left_at is not None:
                raise Preempted(f"asked to leave: checkpoint at iteration {heard.left_at}")
        except ReproError as error:
            if isinstance(error, FaultError):
                error = judged(error, heard.signalled, processes.lines)
            # a rank that is lost after its work, on its way out, has spoilt nothing
            if not (isinstance(error, FaultError) and (folder / "summary.json").exists()):
                if isinstance(error, Preempted):
                    if mirror:
                        mirror.kill(cell.folder)
                else:
                    note_failure(cell, error)
                    if mirror:
                        mirror.fail(cell.folder, str(error))
                raise error from None
            progress.note(f"{cell.label}: {error}; its result was complete by then")
        except BaseException:
            if mirror:
                mirror.kill(cell.folder)
            raise
        finally:
            processes.stop()
        summary = read_summary(cell.folder)
        if summary is None:
            raise FaultError("the ranks ended without a summary")
        shutil.rmtree(cell.folder / "checkpoints", ignore_errors=True)
        if mirror:
            mirror.finish(cell.folder, summary)
        progress.done(cell.label, heard.last_line(summary))


def note_failure(cell: Cell, error: ReproError) -> None:
    """The reason, in the event log; a full disk is perhaps that very reason."""
    with contextlib.suppress(ReproError):
        log = EventLog(cell.folder / "events.jsonl")
        if isinstance(error, Diverged):
            log.append("diverged", key=cell.key, reason=str(error))
        else:
            log.append("failed", reason=str(error))
        log.flush()


def clear(cell: Cell) -> None:
    """Forget an earlier run of this cell."""
    for name in ("events.jsonl", "summary.json", "ranks.log"):
        (cell.folder / name).unlink(missing_ok=True)
    shutil.rmtree(cell.folder / "checkpoints", ignore_errors=True)


class Listener:
    """What the parent does with each message of rank 0."""

    def __init__(self, cell: Cell, progress: Progress, mirror: CellMirror | None):
        self.cell, self.progress, self.mirror = cell, progress, mirror
        self.synced = time.monotonic()
        self.signalled = False  # whether rank 0 was asked to leave
        self.left_at: int | None = None  # the iteration at which all did

    def __call__(self, message: dict[str, Any]) -> None:
        if message["event"] == "start":
            label = METRICS[self.cell.config.metric].label
            self.progress.cell(self.cell.label, message["iterations"], label)
            if message["resumed"]:
                self.progress.note(f"resuming {self.cell.label} at iteration {message['resumed']}")
        elif message["event"] == "note":
            self.progress.note(f"{self.cell.label}: {message['line']}")
        else:
            if message["event"] == "signalled":
                self.signalled = True
                self.progress.note(f"{self.cell.label}: asked to leave at iteration {message['iteration']}")
            if message["event"] == "preempted":
                self.left_at = message["iteration"]
            self.progress.update(self.cell.label, message["iteration"], message.get(self.cell.config.metric))
        due = time.monotonic() - self.synced > SYNC_EVERY_S
        if self.mirror and due and message["event"] == "progress":
            self.mirror.sync(self.cell.folder)
            self.synced = time.monotonic()

    def last_line(self, summary: dict[str, Any]) -> str:
        if "line" in summary:  # a probe's
            return f"{self.cell.label}: {summary['line']} ({summary['kind']})"
        score = summary["final"][summary["metric"]]
        shown = "" if score is None else f"{summary['metric']} {score:.4f}, "
        step_ms = 1e3 * summary["step"]["mean_s"]
        times = f"{summary['final']['train_s']:.1f} s of training, {step_ms:.2f} ms a step"
        return f"{self.cell.label}: {shown}{times} ({summary['kind']})"
