"""One run in MLflow. Errors are MLflow's own: who calls this decides what they stop.

One MLflow experiment for the runs of one kind of an experiment (`<paper>/<experiment> (<kind>)`), because all that it
holds meets in one chart; one MLflow run a run, found again by its tag `repro.key`. Runs are flat (the UI collapses
nested ones and leaves them out of its charts); tags group them.

The run's folder holds all that a mirror sends. So `start` makes the MLflow run anew, in the place of what an earlier
try left, and a run that is complete has the tag `repro.mirrored`, a digest of what the folder held, from the last
request. What `sync` sends meanwhile is for those who watch.

Time axis: MLflow draws a metric over "relative time" as the time since that metric's first point. So a curve point
gets the timestamp `base + train_s`, where base is the start of the run, and each metric a first point at base: the
evaluation before training if there is one, else NaN, which the charts leave out. Relative time is then the training
clock: without evaluation, checkpoints and logging, in virtual seconds if the run is simulated. What is sampled of the
machine (`repro.answers.mlflow.machine`) has the wall clock's time instead.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from repro.answers.mlflow.format import (
    Point,
    curve_points,
    experiment_name,
    final_metrics,
    kind_of,
    named,
    parameters,
    tags,
    target_lines,
)
from repro.answers.mlflow.machine import SAMPLES, sampled_points
from repro.answers.mlflow.store import Store
from repro.answers.mlflow.view import SHARED_VIEW, shared_view
from repro.core import safe_files
from repro.records import store
from repro.records.events import EventTail, superseded
from repro.records.flat import flat

METRICS_A_CALL, PARAMETERS_A_CALL = 800, 100  # MLflow's limits: 1000 of all together, 100 of them tags
MOST_RUNS = 1000  # of an experiment, that its view is made from
ARTIFACTS = ("summary.json", "config.yaml", "events.jsonl", SAMPLES, "trace.rank*.json")  # the last of `profile_steps`
STALENESS = "staleness.json"  # an artifact: each rank's histogram
MIRRORED = "repro.mirrored"
VIEW = f"mlflow.sharedViewState.{SHARED_VIEW}"


class Mirror:
    """Mirrors one run: start, sync now and then, and one of finish, fail, kill."""

    def __init__(self, store: Store):
        self.store = store
        self.experiment = ""  # MLflow's id of it, once the run is opened

    def has(self, record: dict[str, Any], digest: str) -> bool:
        """Whether the run was mirrored to its end in the state of that digest (see `digest_of`)."""
        experiment = self.store.find(experiment_name(record))
        # a retried request may have made a run twice, which only `start` mends
        found = self._runs(record, experiment.experiment_id) if experiment else []
        return [run.data.tags.get(MIRRORED) for run in found] == [digest]

    def start(self, record: dict[str, Any]) -> None:
        """Make the run in MLflow, in the place of that of an earlier try.

        record: a resolved configuration with `key`, `run`, `hardware` and `provenance` added, or a summary with the
        configuration as `config`: that becomes the run's parameters. Needed: key, paper, experiment. The
        run starts at provenance.started_at, else now.
        """
        viewed = self._open(record)
        self._flush()
        if not viewed:
            self.show()  # for a link to it must not lead nowhere

    def sync(self, folder: Path) -> None:
        """Log the points that came since the last call. The caller sees to it that this is not too often."""
        self._read(folder)
        self._flush()

    def finish(self, folder: Path, summary: dict[str, Any]) -> None:
        """Log the rest of the curve, the final numbers and the run's files; it is then FINISHED, and seen in the view
        of its experiment."""
        self._complete(folder, summary)
        self.show()

    def send(self, record: dict[str, Any], folder: Path, summary: dict[str, Any]) -> None:
        """`start` and `finish` in fewer requests, for a run that is over; the view of its experiment is left to
        `show`."""
        self._open(record)
        self._complete(folder, summary)

    def fail(self, folder: Path, reason: str) -> None:
        """The curve so far and why there is no more; the run is then FAILED."""
        self._stop(folder, "FAILED", {"failed": reason[:500]})

    def kill(self, folder: Path) -> None:
        """The run was stopped from outside; the same command continues it."""
        self._stop(folder, "KILLED", {})

    def show(self) -> None:
        """Make the shared view of the run's experiment from all runs that it has by now."""
        client = self.store.client
        runs = client.search_runs([self.experiment], max_results=MOST_RUNS)
        metric = self._record["config"].get("metric") or self._record.get("metric") or "top1"
        view = shared_view(metric, [run.data for run in runs])
        client.set_experiment_tag(self.experiment, VIEW, json.dumps(view, separators=(",", ":")))

    def _open(self, record: dict[str, Any]) -> bool:
        """Whether the experiment had a shared view before."""
        self._record = {"config": record, **record}
        self._tail: EventTail | None = None
        self._evaluations: list[dict[str, Any]] = []
        name = experiment_name(self._record)
        experiment = self.store.find(name) or self.store.make(name)
        self.experiment = experiment.experiment_id
        for run in self._runs(record, self.experiment):
            self.store.client.delete_run(run.info.run_id)
        started = (record.get("provenance") or {}).get("started_at")
        self._create(_milliseconds(started) or round(1000 * time.time()))
        return VIEW in experiment.tags

    def _create(self, base: int) -> None:
        parts = [self._record.get("variant") or named(self._record, "strategy"), kind_of(self._record)]
        name = ", ".join([str(part) for part in parts if part] + [f"seed {self._record.get('seed', 0)}"])
        # all of the tags with it, or a run that gets no further would not be found again
        known = tags(self._record)
        run = self.store.client.create_run(self.experiment, start_time=base, tags=known, run_name=name)
        self._run, self._artifacts, self._base = run.info.run_id, run.info.artifact_uri, base
        # what is still to be sent, and the places of the points that were
        self._points: list[Point] = []
        self._parameters, self._tags = parameters(self._record["config"]), dict[str, str]()
        self._logged: set[tuple[str, int, int]] = set()

    def _runs(self, record: Mapping[str, Any], experiment: str) -> list[Any]:
        """What MLflow has of this run: more than one where a request was made twice.

        Two runs of a sweep may have one configuration, and so one key: an end of an input that is what was guessed.
        """
        if experiment in self.store.made:
            return []
        found = self.store.client.search_runs([experiment], f"tags.`repro.key` = '{record['key']}'", max_results=100)
        return [run for run in found if run.data.tags.get("repro.run") == record.get("run")]

    def _read(self, folder: Path, over: bool = False) -> None:
        """What the run's folder has of the curve and of the machine; `over`: there will be no more."""
        self._tail = self._tail or EventTail(folder / "events.jsonl")
        new = [event for event in self._tail.read() if event["event"] in ("evaluation", "resume")]
        self._evaluations = superseded(self._evaluations + new)
        self._log([event for event in self._evaluations if event["event"] == "evaluation"], folder, over)

    def _log(self, evaluations: list[dict[str, Any]], folder: Path, over: bool = False) -> None:
        curve = curve_points(evaluations, self._base)
        targets = self._record["config"].get("targets") or self._record.get("targets") or ()
        points = curve + target_lines(curve, targets, over) + sampled_points(folder)
        if self._logged - {point.place for point in points}:
            # A resume did some iterations again, at other times of the training clock. MLflow cannot take a point back,
            # so a new run takes this one's place.
            self.store.client.delete_run(self._run)
            self._create(self._base)
        self._points += [point for point in points if point.place not in self._logged]
        self._logged |= {point.place for point in points}

    def _complete(self, folder: Path, summary: dict[str, Any]) -> None:
        if (folder / "events.jsonl").is_file():
            self._read(folder, over=True)
        else:  # summaries are committed, events are not
            self._log(summary.get("curve", []), folder, over=True)
        # at step 0 of the base: the UI draws a metric without any later step as bars
        self._points += [Point(key, 0, self._base, value) for key, value in final_metrics(summary).items()]
        self._send_files(folder, summary)
        # now with all that only the ranks knew, such as the stand-in
        known = tags({"config": self._record["config"], **summary})
        self._end("FINISHED", known | {MIRRORED: digest(summary)}, summary.get("provenance", {}).get("finished_at"))

    def _send_files(self, folder: Path, summary: dict[str, Any]) -> None:
        """MLflow takes a folder: of copies, for it would follow links of the run's folder."""
        with tempfile.TemporaryDirectory() as wanted:
            for pattern in ARTIFACTS:
                for path in folder.glob(pattern):
                    with safe_files.open_file(path) as file, open(Path(wanted, path.name), "xb") as copy:
                        shutil.copyfileobj(file, copy)
            if summary.get("staleness"):
                Path(wanted, STALENESS).write_text(json.dumps({"ranks": summary["staleness"]}, indent=1))
            if any(Path(wanted).iterdir()):
                self.store.put_files(self._artifacts, wanted)

    def _stop(self, folder: Path, status: str, more: dict[str, str]) -> None:
        state = digest_of(folder)
        self._read(folder)
        self._end(status, more | {MIRRORED: state})

    def _end(self, status: str, last_tags: dict[str, str], ended_at: str | None = None) -> None:
        self.store.client.set_terminated(self._run, status, _milliseconds(ended_at))
        self._tags |= last_tags  # which MLflow stores last of a request
        self._flush()

    def _flush(self) -> None:
        """Send what is waiting, in as few requests as may be."""
        from mlflow.entities import Metric, Param, RunTag

        metrics = [Metric(key, value, timestamp, step) for key, step, timestamp, value in self._points]
        values = [Param(key, value) for key, value in self._parameters.items()]
        batches = _batches(metrics, METRICS_A_CALL), _batches(values, PARAMETERS_A_CALL)
        *first, last = list(zip_longest(*batches, fillvalue=())) or [((), ())]
        for batch in first:
            self.store.client.log_batch(self._run, *batch)
        if any(last) or self._tags:
            self.store.client.log_batch(self._run, *last, [RunTag(key, value) for key, value in self._tags.items()])
        self._points, self._parameters, self._tags = [], {}, {}


def digest_of(folder: Path) -> str:
    """What stands for all that there is to mirror of a run's folder now."""
    if record := store.read(folder):
        return digest(flat(record))
    try:
        events = safe_files.read(folder / "events.jsonl")
    except FileNotFoundError:
        events = b""
    return hashlib.sha256(events).hexdigest()[:16]


def digest(summary: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(summary, sort_keys=True).encode()).hexdigest()[:16]


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _milliseconds(iso: str | None) -> int | None:
    return round(1000 * datetime.fromisoformat(iso).timestamp()) if iso else None
