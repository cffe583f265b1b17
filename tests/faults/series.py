"""Plans a series of trials from a seed, runs and records them one by one, and counts their outcomes in a table."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tabulate import tabulate

from repro import strategies
from repro.core import safe_files
from repro.core.errors import FaultError, InputError, NotHere
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.records.provenance import provenance
from tests.faults import baseline, damage, disks, running, servers
from tests.faults.training import EXPERIMENT, SCALE, overrides_of
from tests.faults.trial import Impossible, Lost, Trial

FAULTS = {**running.FAULTS, **running.TWICE, **damage.FAULTS, **disks.FAULTS, **servers.FAULTS}
# a round tries the faults of `running` on all strategies, each other fault on so many: over 250 trials
STRATEGIES_EACH = 8
TRIES = 5  # attempts until a fault comes before the end of the run
OUTCOMES = ("survived", "lost", "too late", "not possible here")


def run_keys(names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """(name -> run key of the strategies that can run here, name -> reason of the others)."""
    runs, reasons = {}, {}
    for name in names:
        try:
            (runs[name],) = expand_runs(EXPERIMENT, overrides_of(name), SCALE)
        except NotHere as error:
            reasons[name] = str(error)
    identify_runs(list(runs.values()))
    return {name: run.key for name, run in runs.items()}, reasons


def plan_round(names: Sequence[str], faults: Sequence[str], seed: int, number: int) -> list[tuple[str, str, str]]:
    """A shuffled round of (trial, strategy, fault); the trial's name seeds its random numbers."""
    dice = random.Random(f"{seed}/{number}")
    trials = [
        (f"{seed}/{number}/{name}/{fault}", name, fault)
        for fault in faults
        for name in (names if fault in running.FAULTS else dice.sample(names, min(STRATEGIES_EACH, len(names))))
    ]
    dice.shuffle(trials)
    return trials


def plan_trials(
    names: Sequence[str], faults: Sequence[str], seed: int, count: int | None
) -> list[tuple[str, str, str]]:
    """The first `count` trials of consecutive rounds; None: one whole round."""
    if count is None:
        return plan_round(names, faults, seed, 0)
    rounds = (plan_round(names, faults, seed, number) for number in itertools.count())
    return list(itertools.islice(itertools.chain.from_iterable(rounds), count))


def run_series(
    folder: Path, names: Sequence[str], faults: Sequence[str], seed: int, count: int | None, limit_s: float
) -> bool:
    """Run the first `count` trials of a plan (None: a whole round), but start none after `limit_s` seconds.

    As many run in parallel as there are cores, because a trial mostly starts processes. Trials with a record in
    `folder`, made with the same code, are skipped. Returns whether all are done.
    """
    began = time.monotonic()
    here, reasons = run_keys(names)
    for name, reason in reasons.items():
        print(f"skipped {name}: {reason}", file=sys.stderr)
    if not here:
        raise InputError("none of the strategies can run here")
    done = {(record["trial"], record["key"]) for record in read_records(folder)}
    todo = [trial for trial in plan_trials(list(here), faults, seed, count) if (trial[0], here[trial[1]]) not in done]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:

        def each(trial: tuple[str, str, str]) -> dict[str, Any] | None:
            return None if time.monotonic() - began > limit_s else attempt_trial(folder, *trial, here[trial[1]])

        try:
            for name in dict.fromkeys(name for _, name, _ in todo):  # once for each strategy
                pool.submit(baseline.find_baseline, name, folder / "baselines", here[name])
            made = [pool.submit(each, trial) for trial in todo]
            left = 0
            for number, future in enumerate(as_completed(made), 1):
                if (record := future.result()) is None:
                    left += 1
                    continue
                append_record(folder, record)
                what = f"{record['strategy']}, {record['fault']}: {record['outcome']}"
                why = f": {record['why']}" if record["why"] else ""
                print(f"{number}/{len(todo)} {what}{why}", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if left:
        print(f"{left} trials left; the same command continues", file=sys.stderr)
    return not left


def attempt_trial(folder: Path, trial: str, strategy: str, fault: str, key: str) -> dict[str, Any]:
    """Run a trial, repeatedly if its fault comes too late, and return its record; a lost trial's workspace is kept."""
    began = time.monotonic()
    undisturbed = baseline.find_baseline(strategy, folder / "baselines", key)
    workspace = folder / "workspaces" / trial.replace("/", "-").replace(" ", "-")
    dice = random.Random(trial)
    for _ in range(TRIES):
        safe_files.remove_tree(workspace)  # left by the same trial, lost with older code
        attempted = Trial(strategy, workspace, dice, undisturbed)
        outcome, why = inject_and_recover(attempted, FAULTS[fault])
        with contextlib.ExitStack() as last:
            last.callback(attempted.closing.close)
            if outcome != "lost":
                attempted.clear()
        if outcome != "too late":
            break
    return {
        "trial": trial,
        "strategy": strategy,
        "fault": fault,
        "outcome": outcome,
        "struck": attempted.struck,
        "why": why,
        "seconds": round(time.monotonic() - began, 1),
        "key": key,
        "commit": provenance()["commit"],
    }


def inject_and_recover(attempted: Trial, fault: Callable[[Trial], None]) -> tuple[str, str | None]:
    """Inject a fault and recover; returns one of `OUTCOMES`, and the reason."""
    try:
        fault(attempted)
        if not attempted.struck:
            return "too late", None
        attempted.recover()
    except Lost as lost:
        return "lost", str(lost)
    except Impossible as reason:
        return "not possible here", str(reason)
    return "survived", None


def append_record(folder: Path, record: dict[str, Any]) -> None:
    with safe_files.open_file(folder / "trials.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of a series, oldest first; InputError for a malformed file."""
    path = folder / "trials.jsonl"
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    except ValueError as error:
        raise InputError(f"{path}: not a record of trials ({error}); remove it to start again") from None


def outcome_tables(records: Sequence[dict[str, Any]]) -> str:
    """Markdown tables by fault and by strategy: trials, trials in which the fault struck the run, and their
    outcomes."""
    parts = []
    for what, order in (("fault", list(FAULTS)), ("strategy", strategies.strategy_names())):
        rows = []
        for name in order:
            trials = [record for record in records if record[what] == name]
            counted = Counter(record["outcome"] for record in trials)
            if trials:
                rows.append(
                    [name, len(trials), sum(record["struck"] for record in trials), *(counted[o] for o in OUTCOMES)]
                )
        total = [sum(row[column] for row in rows) for column in range(1, 3 + len(OUTCOMES))]
        parts.append(tabulate([*rows, ["all", *total]], [what, "tried", "struck", *OUTCOMES], "github"))
    seconds = sum(record["seconds"] for record in records) / max(1, len(records))
    return "\n\n".join([*parts, f"{seconds:.1f} s a trial; several run in parallel."])


def latest_records(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last record of each trial, which may have been repeated with newer code."""
    return list({record["trial"]: record for record in records}.values())


def check_outcomes(records: Sequence[dict[str, Any]]) -> None:
    """FaultError if a trial lost something, or if no fault struck."""
    if lost := [record for record in records if record["outcome"] == "lost"]:
        raise FaultError(f"{len(lost)} of {len(records)} trials lost something; the first: {lost[0]['trial']}")
    if not any(record["outcome"] == "survived" for record in records):
        why = next((record["why"] for record in records if record["why"]), "all came too late")
        raise FaultError(f"no fault struck in {len(records)} trials, so recovery was not tested: {why}")
