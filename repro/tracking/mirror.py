"""One run in MLflow. Errors are MLflow's own: who calls this decides what they stop.

One MLflow experiment a figure (`<paper>/<experiment>`), one MLflow run a run, found again by its tag `repro.key`.
Runs are flat (the UI collapses nested ones and leaves them out of its charts); tags group them.

Every call may be the last (the server or this process is killed), and `start` goes on from whatever there is: it sends
what is missing, and never twice. The tag `repro.mirrored`, a digest of what the run's folder held, is set after
everything else, and taken away before anything: it is there only on a run that is complete.

Time axis: MLflow draws a metric over "relative time" as the time since that metric's first point. So a curve point
gets the timestamp `base + train_s`, where base is the start of the run, and each metric a first point at base: the
evaluation before training if there is one, else NaN, which the charts leave out. Relative time is then the training
clock: without evaluation, checkpoints and logging, in virtual seconds if the run is simulated.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from repro.records.events import EventTail, superseded
from repro.records.store import read_summary
from repro.tracking.format import (
    SHARED_VIEW,
    Point,
    curve_points,
    final_metrics,
    kind_of,
    named,
    parameters,
    shared_view,
    tags,
)
from repro.tracking.store import Store

METRICS_A_CALL, PARAMETERS_A_CALL = 1000, 100  # MLflow's limits
ARTIFACTS = ("summary.json", "config.yaml", "events.jsonl")
STALENESS = "staleness.json"  # an artifact: each rank's histogram
MIRRORED = "repro.mirrored"


class Mirror:
    """Mirrors one run: start, sync now and then, and one of finish, fail, kill."""

    def __init__(self, store: Store):
        self.store = store

    def has(self, record: dict[str, Any], digest: str) -> bool:
        """Whether the run was mirrored to its end in the state of that digest (see `digest_of`)."""
        experiment = self.store.client.get_experiment_by_name(_experiment_name(record))
        if not experiment:
            return False
        self._experiment = experiment.experiment_id
        # A retried request may have made a run twice, which only `start` mends.
        return len(found := self._runs(record["key"])) == 1 and found[0].data.tags.get(MIRRORED) == digest

    def start(self, record: dict[str, Any]) -> None:
        """Open the run in MLflow, or go on with that of an earlier try.

        record: a resolved configuration with `key`, `cell`, `hardware` and `provenance` added, or a summary with the
        configuration as `config`: that becomes the run's parameters. Needed: key, paper, experiment (or figure). The
        run starts at provenance.started_at, else now.
        """
        self._record = {"config": record, **record}
        self._tail: EventTail | None = None
        self._evaluations: list[dict[str, Any]] = []
        self._experiment = self._open_experiment(_experiment_name(record))
        run, *doubles = self._runs(record["key"]) or [None]
        for double in doubles:
            self.store.client.delete_run(double.info.run_id)
        if run:
            self._go_on(run)
        else:
            started = (record.get("provenance") or {}).get("started_at")
            self._create(_milliseconds(started) or round(1000 * time.time()))

    def sync(self, folder: Path) -> None:
        """Log the curve points that came since the last call. The caller sees to it that this is not too often."""
        if self._tail is None:
            self._tail = EventTail(folder / "events.jsonl")
        new = [event for event in self._tail.read() if event["event"] in ("evaluation", "resume")]
        self._evaluations = superseded(self._evaluations + new)
        self._log_curve([event for event in self._evaluations if event["event"] == "evaluation"])

    def finish(self, folder: Path, summary: dict[str, Any]) -> None:
        """Log the rest of the curve, the final numbers and the run's files; it is then FINISHED."""
        final = final_metrics(summary)
        if any(self._final.get(key, value) != value for key, value in final.items()):
            self._replace()  # made again with --force: of two values at one place MLflow would show the larger
        if (folder / "events.jsonl").is_file():
            self.sync(folder)
        else:  # summaries are committed, events are not
            self._log_curve(summary.get("curve", []))
        # At step 0 of the base: the UI draws a metric without any later step as bars.
        self._send([Point(key, 0, self._base, value) for key, value in final.items() if key not in self._final])
        for name in ARTIFACTS:
            if (folder / name).is_file():
                self.store.client.log_artifact(self._run, str(folder / name))
        if summary.get("staleness"):
            self.store.client.log_dict(self._run, {"ranks": summary["staleness"]}, STALENESS)
        self._tag(tags(summary))  # now with all that only the ranks knew, such as the stand-in
        end = _milliseconds(summary.get("provenance", {}).get("finished_at"))
        self._end("FINISHED", digest(summary), end)

    def fail(self, folder: Path, reason: str) -> None:
        """The curve so far and why there is no more; the run is then FAILED."""
        state = digest_of(folder)
        self.sync(folder)
        self._tag({"failed": reason[:500]})
        self._end("FAILED", state)

    def kill(self, folder: Path) -> None:
        """The run was stopped from outside; the same command continues it, and this MLflow run with it."""
        state = digest_of(folder)
        self.sync(folder)
        self._end("KILLED", state)

    def _end(self, status: str, state: str, end_time: int | None = None) -> None:
        self.store.client.set_terminated(self._run, status, end_time)
        self.store.client.set_tag(self._run, MIRRORED, state)

    def _log_curve(self, evaluations: list[dict[str, Any]]) -> None:
        points = curve_points(evaluations, self._base)
        if self._logged - {point.place for point in points}:
            # A resume (or --force) did some iterations again, at other times of the training clock. MLflow cannot
            # take a point back, so a new run takes this one's place.
            self._replace()
        self._send([point for point in points if point.place not in self._logged])
        self._logged |= {point.place for point in points}

    def _send(self, points: list[Point]) -> None:
        from mlflow.entities import Metric

        for batch in _batches(points, METRICS_A_CALL):
            metrics = [Metric(key, value, timestamp, step) for key, step, timestamp, value in batch]
            self.store.client.log_batch(self._run, metrics=metrics)

    def _tag(self, values: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        self.store.client.log_batch(self._run, tags=[RunTag(key, value) for key, value in values.items()])

    def _go_on(self, run: Any) -> None:
        client = self.store.client
        self._run, self._base = run.info.run_id, run.info.start_time
        if MIRRORED in run.data.tags:
            client.delete_tag(self._run, MIRRORED)
        client.update_run(self._run, status="RUNNING")
        self._send_parameters(run.data.params)
        self._final = {key: value for key, value in run.data.metrics.items() if "/" in key}
        self._logged = {
            (point.key, point.step, point.timestamp)
            for key in run.data.metrics.keys() - self._final.keys()
            for point in client.get_metric_history(self._run, key)
        }

    def _replace(self) -> None:
        self.store.client.delete_run(self._run)
        self._create(self._base)

    def _create(self, base: int) -> None:
        self._base, self._logged, self._final = base, set(), {}
        parts = [self._record.get("setting") or named(self._record, "strategy"), kind_of(self._record)]
        name = ", ".join([str(part) for part in parts if part] + [f"seed {self._record.get('seed', 0)}"])
        # all of the tags with it, or a run that gets no further would not be found again
        run = self.store.client.create_run(self._experiment, start_time=base, tags=tags(self._record), run_name=name)
        self._run = run.info.run_id
        self._send_parameters({})

    def _send_parameters(self, there: dict[str, str]) -> None:
        from mlflow.entities import Param

        missing = [(key, value) for key, value in parameters(self._record["config"]).items() if key not in there]
        for batch in _batches(missing, PARAMETERS_A_CALL):
            self.store.client.log_batch(self._run, params=[Param(key, value) for key, value in batch])

    def _runs(self, key: str) -> list[Any]:
        """The runs in MLflow with this key, the fullest first: more than one where a request was made twice."""
        found = self.store.client.search_runs([self._experiment], f"tags.`repro.key` = '{key}'", max_results=100)
        return sorted(found, key=lambda run: (-len(run.data.metrics), -len(run.data.params), run.info.run_id))

    def _open_experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        client = self.store.client
        found = client.get_experiment_by_name(name)
        if not found:
            # A server has its own place for files; a file needs one, absolute, or it follows the current folder.
            place = (self.store.root / "mlflow-artifacts" / name).resolve().as_uri()
            try:
                client.create_experiment(name, artifact_location=None if self.store.is_server else place)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # by another command, meanwhile
                    raise
            found = client.get_experiment_by_name(name)
        if found.lifecycle_stage != "active":
            client.restore_experiment(found.experiment_id)
        view = json.dumps(shared_view(self._record.get("metric", "top1")))
        for key, value in {
            # Without this the UI greets with its page for language-model projects.
            "mlflow.experimentKind": "custom_model_development",
            f"mlflow.sharedViewState.{SHARED_VIEW}": view,
        }.items():
            if key not in found.tags:
                client.set_experiment_tag(found.experiment_id, key, value)
        return found.experiment_id


def digest_of(folder: Path) -> str:
    """What stands for all that there is to mirror of a run's folder now."""
    if summary := read_summary(folder):
        return digest(summary)
    events = folder / "events.jsonl"
    return hashlib.sha256(events.read_bytes() if events.is_file() else b"").hexdigest()[:16]


def digest(summary: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(summary, sort_keys=True).encode()).hexdigest()[:16]


def _experiment_name(record: dict[str, Any]) -> str:
    return f"{record['paper']}/{record.get('experiment') or record['figure']}"


def _batches(items: list[Any], size: int) -> Iterable[list[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _milliseconds(iso: str | None) -> int | None:
    return round(1000 * datetime.fromisoformat(iso).timestamp()) if iso else None
