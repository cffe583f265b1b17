"""Create or update one run in MLflow from its folder. Errors are MLflow's own.

Each kind of an experiment's runs has an MLflow experiment (`<paper>/<experiment> (<kind>)`), because MLflow draws all
its runs in one chart. Each run has one MLflow run, which the tag `repro.key` identifies, a child of the MLflow run of
its variant (`_parent`), which has no numbers. The UI leaves children of collapsed runs out of charts, but not where it
groups runs, as our view does (`repro.answers.mlflow.view`).

A resumed or repeated run updates its MLflow run. MLflow cannot delete a point: if it has one that the record lacks
(repeated iterations, other numbers of a repetition), a new MLflow run replaces the old one and keeps its name and the
tags and notes that a user added. The last request of a complete run sets the tag `repro.mirrored`, a digest of the
folder's content.

Time axis: MLflow draws a metric over "relative time", the time since the metric's first point. A curve point has the
timestamp `base + train_s`, where base is the start of the run, and each metric has a first point at base: the
evaluation before training, or NaN, which charts leave out. Relative time is then the training clock: without
evaluation, checkpoints and logging, and in virtual seconds for simulated runs. Samples of the machine
(`repro.answers.mlflow.machine`) have the time of the wall clock.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from repro.answers.mlflow.artifacts import put_files
from repro.answers.mlflow.format import (
    OWN_TAGS,
    Point,
    curve_points,
    data_name,
    experiment_name,
    final_metrics,
    group,
    is_own_metric,
    parameters,
    place,
    run_name,
    tags,
)
from repro.answers.mlflow.machine import SAMPLES, SECTION, sampled_points
from repro.answers.mlflow.source import Source
from repro.answers.mlflow.store import NOTE, Store
from repro.answers.mlflow.view import SHARED_VIEW, shared_view
from repro.core import safe_files
from repro.core.not_none import not_none
from repro.experiment import config
from repro.records import variants
from repro.records.record import Data

METRICS_A_CALL, PARAMETERS_A_CALL = 800, 100  # MLflow's limits are 1000 in total, 100 of them tags
MOST_RUNS = 1000  # of an experiment, to make its view
ARTIFACTS = ("summary.json", "config.yaml", "events.jsonl", SAMPLES, "trace.rank*.json")  # traces: `profile_steps`
MIRRORED, FAILED = "repro.mirrored", "failed"  # tags: digest of a complete run's source; reason of a failure
KEY, PARENT, USER = "repro.key", "mlflow.parentRunId", "mlflow.user"
VARIANT = "repro.variant"  # tag of the run of a variant: a digest of what its seeds have in common
OF_VARIANTS = ("paper", "experiment", "figure", "variant", "kind", "strategy", "testbed", "workers", "dataset", "scale")
DIGEST = 36  # MLflow's limit of characters in a data set's digest
VIEW = f"mlflow.sharedViewState.{SHARED_VIEW}"


class Mirror:
    """Mirrors one run: call `update` while it runs, and once when it is over."""

    def __init__(self, store: Store):
        self.store = store
        self.experiment = ""  # MLflow's id, once the run is open
        self.viewed = False  # whether the experiment has a shared view
        self._run: str | None = None  # MLflow's id
        self._twice = False  # whether a repeated request had created it twice
        # the state of the run in MLflow
        self._status = ""
        self._points: dict[tuple[str, int, int], float] | None = None  # not loaded yet
        self._parameters: dict[str, str] = {}
        self._tags: dict[str, str] = {}

    def is_complete(self, source: Source) -> bool:
        """Whether MLflow has all content of a finished run, once."""
        self._source = source
        if self._run is None:
            self._open()
        return self._tags.get(MIRRORED) == source.digest and not self._twice

    def update(self, source: Source, running: bool = False) -> None:
        """Bring MLflow up to date.

        running: a command runs it now; else its status is that of the source: FINISHED, FAILED or KILLED.
        """
        self._source = source
        if self._run is None:
            self._open()
        client = self.store.client
        if self._tags.pop(MIRRORED, None):
            client.delete_tag(self._run, MIRRORED)
        if running and self._status != "RUNNING":
            client.update_run(self._run, status="RUNNING")
            self._status = "RUNNING"
        wanted = self._wanted_points(running)
        if self._is_contradicted_by(wanted):
            self._replace()
            wanted = self._wanted_points(running)  # the start of the run may differ
        last_tags: dict[str, str] = {}
        if not running:
            if source.record:
                self._send_files()
                self._send_dataset(source.record.result.dataset)
            client.set_terminated(self._run, source.status, _milliseconds(source.provenance.get("finished_at")))
            last_tags = ({FAILED: source.failure[:500]} if source.failure else {}) | {MIRRORED: source.digest}
            self._status = source.status
        self._send(wanted, tags(source) | {PARENT: self._parent()} | last_tags)
        self._twice = False

    def show(self) -> None:
        """Update the shared view of the run's experiment from all its runs."""
        client = self.store.client
        runs = client.search_runs([self.experiment], max_results=MOST_RUNS)
        view = shared_view(self._source.identity.metric, [run.data for run in runs if KEY in run.data.tags])
        client.set_experiment_tag(self.experiment, VIEW, json.dumps(view, separators=(",", ":")))

    def _open(self) -> None:
        """Find the run in MLflow, or create it."""
        identity = self._source.identity
        experiment = self.store.experiment(experiment_name(identity, self._source.kind), title(place(identity)))
        self.experiment, self.viewed = experiment.experiment_id, VIEW in experiment.tags
        first, *others = self._existing() or [None]
        if first is None:
            self._create({})
            return
        self._info, self._run, self._base = first.info, first.info.run_id, first.info.start_time
        self._status, self._tags, self._parameters = first.info.status, dict(first.data.tags), dict(first.data.params)
        self._keys = list(first.data.metrics)
        self._twice = bool(others)
        for other in others:
            for key, value in added_by_hand(other).items():
                self.store.client.set_tag(self._run, key, value)
            self.store.client.delete_run(other.info.run_id)

    def _existing(self) -> list[Any]:
        """The MLflow runs of this run. Two runs of equal configuration have one key."""
        if self.experiment in self.store.made:
            return []
        key = f"tags.`repro.key` = '{self._source.key}'"
        runs = self.store.client.search_runs([self.experiment], key, max_results=100)
        return [run for run in runs if run.data.tags.get("repro.run") == self._source.run]

    def _create(self, by_hand: dict[str, str], name: str | None = None) -> None:
        source = self._source
        name = name or run_name(source.identity)
        base = _milliseconds(source.provenance.get("started_at")) or round(1000 * time.time())
        # with all tags, so that it can be identified if the next request fails
        self._tags = tags(source) | {PARENT: self._parent()} | _user()
        self._tags |= {NOTE: f"{name}. {title(place(source.identity))}"} | by_hand
        run = self.store.client.create_run(self.experiment, start_time=base, tags=self._tags, run_name=name)
        self._info, self._run, self._base = run.info, run.info.run_id, base
        self._status, self._points, self._parameters = "RUNNING", {}, {}

    def _parent(self) -> str:
        """MLflow's id of the variant's run, whose children are the runs of its seeds; made if it does not exist."""
        own, client, known = self._source.identity, self.store.client, self.store.parents
        which = self.experiment, hashlib.sha256(group(own).encode()).hexdigest()[:DIGEST]
        if which not in known:
            made = client.search_runs([self.experiment], f"tags.`{VARIANT}` = '{which[1]}'", max_results=1)
            if not made:
                shared = {key: value for key, value in tags(self._source).items() if key in OF_VARIANTS}
                shared |= {VARIANT: which[1], "group": group(own)} | _user()
                made = [client.create_run(self.experiment, tags=shared, run_name=variants.label(own))]
                client.set_terminated(made[0].info.run_id)
            known[which] = made[0].info.run_id
        return known[which]

    def _replace(self) -> None:
        old = self.store.client.get_run(self._run)  # with what users added
        self._create(added_by_hand(old), old.info.run_name)
        self.store.client.delete_run(old.info.run_id)

    def _wanted_points(self, running: bool) -> list[Point]:
        source = self._source
        curve = curve_points(source.evaluations, self._base)
        points = curve + sampled_points(source.folder)
        if source.record and not running:
            # at step 0: the UI draws metrics without other steps as bars
            points += [Point(key, 0, self._base, value) for key, value in final_metrics(source.record).items()]
        return points

    def _is_contradicted_by(self, wanted: Sequence[Point]) -> bool:
        """Whether MLflow has points or parameters that differ from the record and cannot be deleted."""
        if self._points is None:
            history = self.store.client.get_metric_history
            points = [point for key in self._keys for point in history(self._run, key)]
            self._points = {(point.key, point.step, point.timestamp): point.value for point in points}
        values = {point.place: point.value for point in wanted}
        keys = {point.key for point in wanted}
        for point, value in self._points.items():
            mirrored = point[0] in keys or is_own_metric(point[0])
            if mirrored and not point[0].startswith(SECTION) and not _same(values.get(point), value):
                return True
        own = parameters(self._source.identity.plain())
        return any(key in self._parameters and self._parameters[key] != value for key, value in own.items())

    def _send_files(self) -> None:
        """Send copies of the run's files: MLflow would follow links in the folder."""
        with tempfile.TemporaryDirectory() as wanted:
            for pattern in ARTIFACTS:
                for path in self._source.folder.glob(pattern):
                    with safe_files.open_file(path) as file, open(Path(wanted, path.name), "xb") as copy:
                        shutil.copyfileobj(file, copy)
            if any(Path(wanted).iterdir()):
                name = experiment_name(self._source.identity, self._source.kind)
                put_files(self.store, name, self._info, Path(wanted))

    def _send_dataset(self, data: Data | None) -> None:
        """Log the data set as input of the run, if it has a checksum (bare shapes have none)."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        if data is None or not (checksum := (data.model_extra or {}).get("checksum")):
            return
        profile = json.dumps(data.model_dump(exclude={"name", "checksum"}))
        source = json.dumps({"dataset": data.name, "sha256": checksum})
        entity = Dataset(not_none(data_name(self._source)), checksum[:DIGEST], "local", source, profile=profile)
        self.store.client.log_inputs(self._run, [DatasetInput(entity, [InputTag("mlflow.data.context", "training")])])

    def _send(self, points: Sequence[Point], wanted_tags: Mapping[str, str]) -> None:
        """Send what MLflow lacks, in few requests."""
        from mlflow.entities import Metric, Param, RunTag

        client, sent = self.store.client, not_none(self._points)
        for key in self._tags.keys() & {*OWN_TAGS, FAILED} - wanted_tags.keys():
            client.delete_tag(self._run, key)
        new = {point.place: point for point in points if point.place not in sent}
        wanted = parameters(self._source.identity.plain())
        metrics = [Metric(key, value, timestamp, step) for key, step, timestamp, value in new.values()]
        values = [Param(key, value) for key, value in wanted.items() if key not in self._parameters]
        changed = [RunTag(key, value) for key, value in wanted_tags.items() if self._tags.get(key) != value]
        batches = _batches(metrics, METRICS_A_CALL), _batches(values, PARAMETERS_A_CALL)
        *first, last = list(zip_longest(*batches, fillvalue=())) or [((), ())]
        for batch in first:
            client.log_batch(self._run, *batch)
        if any(last) or changed:
            client.log_batch(self._run, *last, changed)  # MLflow stores the tags of a request last
        sent |= {place: point.value for place, point in new.items()}
        self._parameters |= wanted
        self._tags = dict(wanted_tags)


def _user() -> dict[str, str]:
    """The tag of the user, as MLflow's own loggers set it."""
    try:
        return {USER: getpass.getuser()}
    except (OSError, KeyError):  # the user has no name
        return {}


@cache
def title(experiment: str) -> str:
    """The title of an experiment; its name if it does not exist any more."""
    return config.titles([experiment])[experiment] if experiment in config.experiment_names() else experiment


def added_by_hand(run: Any) -> dict[str, str]:
    """The tags of an MLflow run that a user added, and its note."""
    own = {*OWN_TAGS, MIRRORED, FAILED}
    every = run.data.tags.items()
    return {key: value for key, value in every if key == NOTE or (key not in own and not key.startswith("mlflow."))}


def _same(one: float | None, other: float) -> bool:
    return one is not None and (one == other or (math.isnan(one) and math.isnan(other)))


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _milliseconds(iso: str | None) -> int | None:
    return round(1000 * datetime.fromisoformat(iso).timestamp()) if iso else None
