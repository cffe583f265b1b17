"""Execution of runs: skip finished ones, launch the others, mirror them in MLflow, continue after a failure."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import compress, groupby
from queue import Queue

from repro import launch
from repro.answers.mlflow import machine
from repro.answers.mlflow.best_effort import BestEffort
from repro.answers.mlflow.store import Store
from repro.core import locks, safe_files
from repro.core.errors import Diverged, FaultError, InputError, ReproError, TooBusy
from repro.core.not_none import not_none
from repro.core.paths import CONFIG_FILE, EVENTS_FILE, RECORD_FILE, reference_root, results_root
from repro.core.registry import TRAIN
from repro.core.worker_processes import usable_cores
from repro.experiment import files
from repro.experiment.launched import launch_digest
from repro.experiment.run import Run
from repro.launch.forecast import Planned
from repro.launch.listener import Listener, Preempted, as_preemption
from repro.launch.local import rank_environment
from repro.launch.namespaces import network
from repro.launch.pool import Pools
from repro.launch.progress import Progress
from repro.launch.resumable import adopt_unfinished, unfinished_run
from repro.launch.supervise import Ranks, stop_everything
from repro.records import store, unfinished
from repro.records.events import EventLog
from repro.records.record import Record

RANKS_END_S = 30.0  # time limit for the ranks of an earlier, killed command to end


def run_unfinished(
    runs: Sequence[Run],
    force: bool = False,
    track: bool = True,
    expected: Mapping[str, float | None] | None = None,
    pools: Pools | None = None,
) -> tuple[list[Record], ReproError | None]:
    """Run the unfinished ones; returns the records of all finished runs, and an error if any run failed.

    A failed run does not stop the others, whether the cause is a fault or an InputError; the first error is returned,
    with the number of failures; TooBusy only without others. A preempted run stops the command, and its error is the
    one returned. An InputError of a single run is raised. A run that diverged before fails without being begun, unless
    forced. expected: durations by title (`repro.launch.forecast`). pools: the command's, if it has any.
    """
    check_results_folder()
    tracking = Store(None, results_root()) if track else None  # raises for a wrong URI before anything runs
    finished = [not force and run.finished for run in runs]
    todo, refused = split_refused([run for run, done in zip(runs, finished, strict=True) if not done], force)
    for run in compress(runs, finished):
        clean_up(run)
    planned = {run.title: Planned((expected or {}).get(run.title), run.simulated) for run in todo}
    progress = Progress(planned, sys.stderr, usable_cores())
    if skipped := sum(finished):
        progress.note(f"{skipped} of {len(runs)} runs are done already (--force runs them again)")
        if edited := sorted({part for run in compress(runs, finished) for part in run.edited}):
            progress.note(
                f"{', '.join(edited)}: edited since its version, which these runs have (docs/design.md, Keys)"
            )
    for run, reason in refused if len(runs) > 1 else ():  # of a single run the command's last line says it
        progress.note(f"refused: {run.title}: {reason}")
    mirrors = BestEffort(tracking, progress.note) if tracking else None
    try:
        with contextlib.nullcontext(pools) if pools else Pools() as pools:
            faults = run_all(todo, lambda run, cores: run_one(run, force, progress, mirrors, cores, pools), progress)
    finally:
        progress.close()
    faults += refused
    failed = None
    if faults:
        run, fault = min(faults, key=lambda each: (not isinstance(each[1], Preempted), isinstance(each[1], TooBusy)))
        others = f" (and {len(faults) - 1} more runs failed)" if len(faults) > 1 else ""
        failed = type(fault)("; ".join([f"{run.label}: {fault}{others}", *remedy_for(run, fault)]))
    return [record for run in runs if (record := store.usable_record(run.folder))], failed


def split_refused(unfinished: Sequence[Run], force: bool) -> tuple[list[Run], list[tuple[Run, ReproError]]]:
    """The runs to execute; and those that diverged before and would again, with that error, unless forced."""
    refused: list[tuple[Run, ReproError]] = [
        (run, Diverged(reason)) for run in unfinished if not force and (reason := run.diverged)
    ]
    titles = {run.title for run, _ in refused}
    return [run for run in unfinished if run.title not in titles], refused


def run_all(
    todo: Sequence[Run], carry_out: Callable[[Run, Sequence[int] | None], None], progress: Progress
) -> list[tuple[Run, ReproError]]:
    """Measured runs one by one, undisturbed; then simulated ones side by side, each on its share of the cores.

    Simulations that compute on a GPU take their turn among the measured runs, those of an experiment side by side.
    A run for which the machine was too busy is carried out once more, after all others. Returns the failures; raises
    the InputError of a single run.
    """
    faults: list[tuple[Run, ReproError]] = []
    postponed: list[Run] = []
    cores = sorted(os.sched_getaffinity(0))

    def attempt(run: Run, shares: Queue[Sequence[int]] | None = None) -> None:
        if any(isinstance(fault, Preempted) for _, fault in faults):
            return  # the whole command is preempted
        share = shares.get() if shares else None
        try:
            carry_out(run, share)
        except ReproError as fault:
            if isinstance(fault, InputError) and len(todo) == 1:
                raise
            if isinstance(fault, TooBusy) and run not in postponed:
                progress.postponed(run.title, f"tried again at the end: {run.title}: {fault}")
                postponed.append(run)
                return
            word = "stopped" if isinstance(fault, Preempted) else "failed"
            # of a single run the command's last line says it
            progress.done(run.title, f"{word}: {run.title}: {fault}" if len(todo) > 1 else "", failed=True)
            faults.append((run, fault))
        finally:
            if shares and share is not None:
                shares.put(share)

    def side_by_side(some: Sequence[Run]) -> None:
        at_once = max(1, min(len(some), len(cores)))
        shares: Queue[Sequence[int]] = Queue()
        for place in range(at_once):
            shares.put(cores[place::at_once])
        with ThreadPoolExecutor(at_once) as pool:
            running = [pool.submit(attempt, run, shares) for run in some]
            try:
                for future in as_completed(running):
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                while not all(future.done() for future in running):  # a run may just be starting its ranks
                    stop_everything()
                    time.sleep(0.05)
                raise

    in_turn = [run for run in todo if computes_on_gpu(run) or not run.simulated]
    for (_, simulated), some in groupby(in_turn, lambda run: (run.experiment, run.simulated)):
        if simulated:
            side_by_side(list(some))
        else:
            for run in some:
                attempt(run)
    network.give_back()  # simulations may take hours, in which another command can use it
    side_by_side([run for run in todo if run.simulated and not computes_on_gpu(run)])
    for run in postponed[:]:
        attempt(run)
    network.give_back()
    return faults


def check_results_folder() -> None:
    """InputError if the workspace is not writable, or is the folder of the committed results. It is not created."""
    root = results_root()
    if root.is_relative_to(reference_root()):
        raise InputError(f"results folder {root}: committed results, only read; set REPRO_RESULTS to another")
    try:
        there = next(folder for folder in (root, *root.parents) if folder.exists())
        probe = there / ".writable.tmp"
        safe_files.write_safely(probe, b"x" * 65536)
        safe_files.remove_safely(probe)
    except OSError as error:
        raise InputError(f"results folder {root}: {error.strerror}; set REPRO_RESULTS to another") from None


@contextlib.contextmanager
def run_folder(run: Run, note: Callable[[str], None]) -> Iterator[int]:
    """Lock the run's folder; yields the file descriptor of the lock that its launcher and ranks hold as well.

    The kernel releases a lock when its processes end. Ranks may outlive a killed command, so a later command waits for
    them too. Launchers do not pass file descriptors on, so each rank takes the lock itself (`repro.rank.main`).
    """
    safe_files.make_folder(run.folder)
    safe_files.check_tree(run.folder)  # ranks and their libraries open files without these checks
    path = run.folder / locks.RANKS
    with contextlib.ExitStack() as held:
        if (lock := locks.take_lock(run.folder / locks.RUN)) is None:
            raise InputError(f"{run.label}: another command is at work on this run ({run.folder.name})")
        held.enter_context(lock)
        if (ranks := locks.take_lock(path)) is None:
            note(f"{run.label}: ranks of an earlier command are still ending")
            if (ranks := locks.take_lock(path, wait_s=RANKS_END_S)) is None:
                raise InputError(
                    f"{run.label}: ranks of an earlier command have not ended within {RANKS_END_S:g} s "
                    f"({locks.lock_users(path)}); end them first"
                )
        held.enter_context(ranks)
        fcntl.flock(ranks, fcntl.LOCK_SH)  # no race: others need the command's lock first
        yield ranks.fileno()


def run_one(
    run: Run,
    force: bool,
    progress: Progress,
    mirrors: BestEffort | None = None,
    cores: Sequence[int] | None = None,
    pools: Pools | None = None,
) -> None:
    """Execute one run, from its last checkpoint if there is one, to its summary; cores: of a simulation."""
    progress.starting(run.title)
    testbed = run.config.testbed
    launcher, threads = launch.launcher_for(testbed), testbed.threads_per_rank
    program = ["-m", "repro.rank.main", launcher.fabric, launch_digest(run), str(run.folder)]
    pools = pools if pools and launcher.pooled else Pools(fresh=True)
    with (
        pools.python(threads, rank_environment(threads)) as python,
        # before the folder is made: it may be impossible
        contextlib.nullcontext(launcher.allocate(ranks_of(run), program, threads, python)) as allocation,
        run_folder(run, progress.note) as lock,
    ):
        folder = run.folder
        if force:
            clear_run(run)
        elif run.config.program == TRAIN:
            adopt_unfinished(run, progress.note)
        safe_files.remove_safely(
            folder / RECORD_FILE
        )  # it may be another run's; an interrupted run must not look finished
        hardware = run.hardware | ({"links": allocation.network} if allocation.network else {})
        recorded = {"key": run.key, "hardware": hardware, "provenance": run.made_by()}
        files.write_resolved(folder / CONFIG_FILE, run.config.model_copy(update=recorded).plain())
        if run.config.program == TRAIN:
            unfinished.begin(folder, unfinished_run(run))
        if mirrors:
            mirrors.begin(folder)
        # on a GPU the threads of CUDA and autograd would share them
        pinned = "" if cores is None or computes_on_gpu(run) else ",".join(map(str, cores))
        environ = allocation.environment | ({"REPRO_CORES": pinned} if pinned else {})
        processes = Ranks(
            *(allocation.command, environ, folder / "ranks.log"),
            keep_open=[lock], count=ranks_of(run), alone=run.simulated,
        )  # fmt: skip
        listener = Listener(run, progress, mirrors)
        try:
            # the ranks' own time limit is shorter and names the peer; this one applies if no rank can report
            with machine.sampled(folder) if mirrors else contextlib.nullcontext():
                processes.follow(listener, 3 * run.config.timeout_s + 60)
            if listener.left_at is not None:
                raise Preempted(f"preempted: checkpoint at iteration {listener.left_at}")
            if (record := store.read(folder)) is None:
                raise FaultError("the ranks ended with status 0 and without a summary, as if their code called exit")
        except ReproError as error:
            if isinstance(error, FaultError):
                error = as_preemption(error, listener.signalled, processes.lines)
            if not (folder / EVENTS_FILE).exists():  # refused before it began
                unfinished.end(folder)
            # a rank that is lost after the summary is written does no harm
            if not (isinstance(error, FaultError) and (folder / RECORD_FILE).exists()):
                if not isinstance(error, Preempted):
                    note_failure(run, error)
                if isinstance(error, TooBusy):
                    safe_files.remove_tree(folder / "checkpoints")  # its times so far do not count
                if mirrors:
                    mirrors.end(folder)
                raise error from None
            progress.note(f"{run.label}: {error}; its result was complete by then")
            record = not_none(store.read(folder))
        except BaseException:
            processes.stop()  # first: an interrupted command has little time
            if mirrors:
                mirrors.end(folder, interrupted=True)
            raise
        finally:
            processes.stop()
        safe_files.remove_tree(folder / "checkpoints")
        unfinished.end(folder)
        if mirrors:
            mirrors.end(folder)
        progress.done(run.title, listener.last_line(record))


def clean_up(run: Run) -> None:
    """Remove the checkpoints of a finished run whose command was killed before it did so."""
    if not (run.folder / "checkpoints").is_dir() or (lock := locks.take_lock(run.folder / locks.RUN)) is None:
        return
    with lock:
        if run.finished:  # again, under the lock: another command may have restarted it
            safe_files.remove_tree(run.folder / "checkpoints")


def computes_on_gpu(run: Run) -> bool:
    return run.hardware.get("gpu") is not None


def ranks_of(run: Run) -> int:
    """The number of ranks of a run."""
    if run.ranks is None:
        from repro.experiment import needs

        return needs.count_ranks(run.config)
    return run.ranks


def remedy_for(run: Run, fault: ReproError) -> list[str]:
    """What may help after a failure: of a run that diverged, what it warned of; nothing where the error says it."""
    if not isinstance(fault, FaultError):
        return []
    return [fault.again.format(folder=run.folder, advice="; ".join(run.warnings) or Diverged.ADVICE)]


def note_failure(run: Run, error: ReproError) -> None:
    """Append the reason to the event log."""
    with contextlib.suppress(ReproError):  # the reason may be a full disk
        log = EventLog(run.folder / EVENTS_FILE)
        if isinstance(error, Diverged):
            log.append("diverged", key=run.key, reason=str(error))
        else:
            log.append("failed", reason=str(error))
        log.flush()


def clear_run(run: Run) -> None:
    """Remove the files of an earlier attempt at this run."""
    for name in (EVENTS_FILE, RECORD_FILE, unfinished.FILE, "ranks.log", machine.SAMPLES, "trace.rank*.json"):
        for path in run.folder.glob(name):
            safe_files.remove_safely(path)
    safe_files.remove_tree(run.folder / "checkpoints")
