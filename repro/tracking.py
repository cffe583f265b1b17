"""The MLflow mirror of the event logs, run by the launching process: ranks never import mlflow or wait for it.

One MLflow experiment a figure (`<paper>/<experiment>`), one run a cell, found again by its tag `repro.key`. Runs are
flat (the UI collapses nested ones and leaves them out of its charts); tags group them. The mirror may always be
deleted: `sync_all` makes it again from `results/`.

Time axis: MLflow draws a metric over "relative time" as the time since that metric's first point. So a curve point
gets the timestamp `base + train_s`, where base is the start of the run, and each metric a first point at base: the
evaluation before training if there is one, else NaN, which the charts leave out. Relative time is then the training
clock: without evaluation, checkpoints and logging, in virtual seconds if the run is simulated.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import io
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from repro.errors import FaultError
from repro.events import EventTail, read_events, superseded
from repro.paths import results_root
from repro.results import read_summary
from repro.track_format import (
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

# Redirecting is process-wide: two cells side by side must not put back each other's.
STDOUT = threading.RLock()
METRICS_A_CALL, PARAMETERS_A_CALL = 1000, 100  # MLflow's limits
ARTIFACTS = ("summary.json", "config.yaml", "events.jsonl")


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    """Do nothing while the mirror is off; an error switches it off with one warning line, and never stops training."""

    @functools.wraps(method)
    def guarded(self: Mirror, *arguments: Any) -> None:
        if not self.on:
            return
        try:
            # MLflow prints links on standard output, which may be somebody's --json.
            with STDOUT, contextlib.redirect_stdout(io.StringIO()):
                method(self, *arguments)
        except Exception as error:
            self.on = False
            text = f"warning: no MLflow mirror of this run from here on ({self.uri}): {_first_line(error)}"
            self.warn(public(text))

    return guarded


class Mirror:
    """Mirrors one cell at a time: start, sync now and then, and one of finish, fail, kill."""

    def __init__(self, uri: str | None = None, root: Path | None = None, warn: Callable[[str], None] | None = None):
        """uri: a tracking URI (None: see `tracking_uri`); root: the results folder; warn: default standard error."""
        self.root = root or results_root()
        self.uri = tracking_uri(uri, self.root)
        self.warn = warn or (lambda text: print(text, file=sys.stderr, flush=True))
        self.on = False  # whether a cell is being mirrored
        self._client: Any = None

    def has(self, summary: dict[str, Any]) -> bool:
        """Whether this very summary was mirrored to its end. Unlike the others this passes MLflow's errors on."""
        self._client = self._client or open_store(self.uri, self.root)
        experiment = self._client.get_experiment_by_name(f"{summary['paper']}/{summary['experiment']}")
        if not experiment:
            return False
        self._experiment = experiment.experiment_id
        return self._find(f"tags.`repro.mirrored` = '{_digest(summary)}'") is not None

    def start(self, cell: dict[str, Any]) -> None:
        """Open the cell's run, or go on with the one of an earlier try.

        cell: a resolved configuration with `key`, `cell`, `hardware` and `provenance` added, or a summary with the
        configuration as `config`: that becomes the run's parameters. Needed: key, paper, experiment (or figure). The
        run starts at provenance.started_at, else now.
        """
        self.on = True
        self._start({"experiment": cell.get("figure"), "config": cell, **cell})

    @_guarded
    def _start(self, cell: dict[str, Any]) -> None:
        self._cell = cell
        self._tail: EventTail | None = None
        self._evaluations: list[dict[str, Any]] = []
        self._client = self._client or open_store(self.uri, self.root)
        self._experiment = self._open_experiment(f"{cell['paper']}/{cell['experiment']}")
        if run := self._find(f"tags.`repro.key` = '{cell['key']}'"):
            self._run, self._base = run.info.run_id, run.info.start_time
            self._client.update_run(self._run, status="RUNNING")
            curves = [key for key in run.data.metrics if "/" not in key]
            self._logged = {
                (point.key, point.step, point.timestamp)
                for key in curves
                for point in self._client.get_metric_history(self._run, key)
            }
        else:
            started = (cell.get("provenance") or {}).get("started_at")
            self._create(_milliseconds(started) or round(1000 * time.time()))

    @_guarded
    def sync(self, folder: Path) -> None:
        """Log the curve points that came since the last call. The caller sees to it that this is not too often."""
        self._sync(folder)

    @_guarded
    def finish(self, folder: Path, summary: dict[str, Any]) -> None:
        """Log the rest of the curve, the final numbers and the cell's files; the run is then FINISHED."""
        if (folder / "events.jsonl").is_file():
            self._sync(folder)
        else:  # summaries are committed, events are not
            self._log_curve(summary.get("curve", []))
        # At step 0 of the base: the UI draws a metric without any later step as bars.
        self._send([Point(key, 0, self._base, value) for key, value in final_metrics(summary).items()])
        for name in ARTIFACTS:
            if (folder / name).is_file():
                self._client.log_artifact(self._run, str(folder / name))
        for key, value in tags(summary).items():  # now with all that only the ranks knew, such as the stand-in
            self._client.set_tag(self._run, key, value)
        self._client.set_tag(self._run, "repro.mirrored", _digest(summary))
        end = _milliseconds(summary.get("provenance", {}).get("finished_at"))
        self._client.set_terminated(self._run, "FINISHED", end)
        self.on = False

    @_guarded
    def fail(self, reason: str) -> None:
        self._client.set_tag(self._run, "failed", reason[:500])
        self._client.set_terminated(self._run, "FAILED")
        self.on = False

    @_guarded
    def kill(self) -> None:
        """The run was stopped from outside; the same command continues it, and this MLflow run with it."""
        self._client.set_terminated(self._run, "KILLED")
        self.on = False

    def _sync(self, folder: Path) -> None:
        if self._tail is None:
            self._tail = EventTail(folder / "events.jsonl")
        new = [event for event in self._tail.read() if event["event"] in ("evaluation", "resume")]
        self._evaluations = superseded(self._evaluations + new)
        self._log_curve([event for event in self._evaluations if event["event"] == "evaluation"])

    def _log_curve(self, evaluations: list[dict[str, Any]]) -> None:
        points = curve_points(evaluations, self._base)
        if self._logged - {point.place for point in points}:
            # A resume (or --force) did some iterations again, at other times of the training clock. MLflow cannot
            # take a point back, so a new run takes this one's place.
            self._client.delete_run(self._run)
            self._create(self._base)
        self._send([point for point in points if point.place not in self._logged])
        self._logged |= {point.place for point in points}

    def _send(self, points: list[Point]) -> None:
        from mlflow.entities import Metric

        for batch in _batches(points, METRICS_A_CALL):
            metrics = [Metric(key, value, timestamp, step) for key, step, timestamp, value in batch]
            self._client.log_batch(self._run, metrics=metrics)

    def _create(self, base: int) -> None:
        from mlflow.entities import Param

        self._base, self._logged = base, set()
        parts = [self._cell.get("setting") or named(self._cell, "strategy"), kind_of(self._cell)]
        name = ", ".join([str(part) for part in parts if part] + [f"seed {self._cell.get('seed', 0)}"])
        run = self._client.create_run(self._experiment, start_time=base, tags=tags(self._cell), run_name=name)
        self._run = run.info.run_id
        for batch in _batches(list(parameters(self._cell["config"]).items()), PARAMETERS_A_CALL):
            self._client.log_batch(self._run, params=[Param(key, value) for key, value in batch])

    def _find(self, filter_string: str) -> Any:
        runs = self._client.search_runs([self._experiment], filter_string, max_results=1)
        return runs[0] if runs else None

    def _open_experiment(self, name: str) -> str:
        if found := self._client.get_experiment_by_name(name):
            if found.lifecycle_stage != "active":
                self._client.restore_experiment(found.experiment_id)
            return found.experiment_id
        # A server has its own place for files; the SQLite file needs one, absolute, or it follows the current folder.
        place = None if is_server(self.uri) else (self.root / "mlflow-artifacts" / name).resolve().as_uri()
        made = self._client.create_experiment(name, artifact_location=place)
        # Without this the UI greets with its page for language-model projects.
        self._client.set_experiment_tag(made, "mlflow.experimentKind", "custom_model_development")
        metric = self._cell.get("metric", "top1")
        self._client.set_experiment_tag(made, f"mlflow.sharedViewState.{SHARED_VIEW}", json.dumps(shared_view(metric)))
        return made


def sync_all(root: Path | None = None, uri: str | None = None) -> tuple[int, int]:
    """Mirror every cell folder below `root` that is not in MLflow as it is now: (mirrored now, already there).

    Finished cells come from their summary and, where it is still there, their event log. A cell without a summary gets
    its curve so far and the status KILLED or FAILED; if it is in fact still running, its own mirror corrects that.
    """

    def stop(warning: str) -> None:
        raise FaultError(warning)

    root = root or results_root()
    mirror = Mirror(uri, root, warn=stop)
    folders = {path.parent for name in ("summary.json", "events.jsonl") for path in root.glob(f"*/*/*/{name}")}
    done = already = 0
    for folder in sorted(folders):
        summary, events = read_summary(folder), read_events(folder / "events.jsonl")
        cell = describe(folder, summary, events)
        if "key" not in cell:
            continue  # nothing but a torn first line
        if summary and mirror.has(summary):
            already += 1
            continue
        mirror.start(cell)
        if summary:
            mirror.finish(folder, summary)
        else:
            mirror.sync(folder)
            failures = [event["reason"] for event in events[-1:] if event["event"] == "failed"]
            if failures:
                mirror.fail(str(failures[0]))
            else:
                mirror.kill()
        done += 1
    return done, already


def describe(folder: Path, summary: dict[str, Any] | None, events: list[dict[str, Any]]) -> dict[str, Any]:
    """What `Mirror.start` wants to know of a cell, from its folder `<paper>/<experiment>/<cell>`."""
    from omegaconf import OmegaConf

    cell: dict[str, Any] = dict(zip(("paper", "experiment", "cell"), folder.parts[-3:]))
    config: dict[str, Any] = {}
    if (folder / "config.yaml").is_file():
        config = dict(OmegaConf.to_container(OmegaConf.load(folder / "config.yaml")))
    started = [event for event in events if event["event"] == "run_start"]
    return cell | {"config": config} | config | (started[-1] if started else {}) | (summary or {})


def tracking_uri(uri: str | None = None, root: Path | None = None) -> str:
    """`uri`, else $MLFLOW_TRACKING_URI, else the SQLite file `mlflow.db` in the results folder."""
    return uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(root or results_root()).resolve()}/mlflow.db"


def open_store(uri: str, root: Path) -> Any:
    """An MlflowClient, the SQLite file made, or brought to this MLflow's schema. Errors are MLflow's own."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read on import, which looks up a host otherwise
    # By default a server that is down is asked for some minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "15")
    import mlflow.store.db.utils as database
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    for name in ("mlflow", "alembic"):  # they tell of each table that they make
        logging.getLogger(name).setLevel(logging.WARNING)
    if not uri.startswith("sqlite:"):
        return MlflowClient(uri)
    root.mkdir(parents=True, exist_ok=True)
    # Several processes that make the same new database at once destroy it for one another.
    with open(root / "mlflow.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return _opened(MlflowClient(uri))
        except MlflowException as error:
            if "out-of-date" not in str(error):
                raise
            database._upgrade_db(database.create_sqlalchemy_engine_with_retry(uri))
            return _opened(MlflowClient(uri))


def _opened(client: Any) -> Any:
    client.search_experiments(max_results=1)  # the first call is the one that connects
    return client


def _batches(items: list[Any], size: int) -> Iterable[list[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _digest(summary: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(summary, sort_keys=True).encode()).hexdigest()[:16]


def _milliseconds(iso: str | None) -> int | None:
    return round(1000 * datetime.fromisoformat(iso).timestamp()) if iso else None


def is_server(uri: str) -> bool:
    return not uri.startswith(("sqlite:", "file:", "/"))


def public(text: str) -> str:
    """The text without the names and passwords that may stand in URIs."""
    return re.sub(r"//[^/@\s]*@", "//", text)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
