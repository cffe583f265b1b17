"""Send one run to MLflow: `send_run`. Errors are MLflow's own.

Each kind of an experiment's runs has an MLflow experiment (`<paper>/<experiment> (<kind>)`), because MLflow draws all
its runs in one chart. Each run has one MLflow run, which the tags `repro.key` and `repro.run` identify, a child of the
MLflow run of its variant, which has no metrics, the parameters that its seeds share and the worst of their statuses;
its tags say what they took to each target, warned of and failed for, and whether data are a stand-in. The UI leaves
children of collapsed runs out of charts, but not where it groups runs, as our view does (`repro.answers.mlflow.view`).

A run is a list of points that grows with its event log. The tag `repro.log`, set before points are sent, says which
list that is: while MLflow's is the beginning of ours, the run goes on in its MLflow run, and MLflow itself ignores a
point that it has. Else (repeated iterations, a repetition with other numbers) a new MLflow run replaces the old one,
because MLflow cannot delete a point, and keeps its name and the tags and notes that a user added. The last request of
a run that is over sets the tag `repro.mirrored`, a digest of its content.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import zip_longest
from typing import Any

from repro.answers.mlflow.artifacts import send_files
from repro.answers.mlflow.format import (
    WARNINGS,
    Point,
    curve_points,
    data_name,
    describe_seeds,
    experiment_name,
    experiment_path,
    final_points,
    name_group,
    parameters,
    run_name,
    sampled_points,
    shared_parameters,
    tag_values,
    tags,
)
from repro.answers.mlflow.source import Source
from repro.answers.mlflow.store import NOTE, Store
from repro.answers.mlflow.view import VIEW, shared_view
from repro.core.not_none import not_none
from repro.experiment import config
from repro.records import variants
from repro.records.record import Data

METRICS_A_CALL, PARAMETERS_A_CALL = 900, 100  # MLflow's limits are 1000 in total, 100 of them parameters
MOST_RUNS = 1000  # of an experiment, to make its view
LOG, MIRRORED, FAILED = "repro.log", "repro.mirrored", "failed"  # tags; the last: the reason of a failure
OF_SEEDS = (WARNINGS, FAILED, "stand_in", "group")  # tags of a variant's run that say what those of its seeds say
KEY, PARENT, USER = "repro.key", "mlflow.parentRunId", "mlflow.user"
VARIANT = "repro.variant"  # tag of the run of a variant: a digest of what its seeds have in common
SHARED = ("paper", "experiment", "figure", "variant", "kind", "strategy", "testbed", "workers", "dataset", "scale")
WARNED = ". Warning: "  # in a note
STATUSES = ("FAILED", "KILLED", "RUNNING", "FINISHED")  # the worst first
DIGEST = 36  # MLflow's limit of characters in a data set's digest


def send_run(store: Store, source: Source, running: bool = False) -> str | None:
    """Bring the run in MLflow up to date; the id of its MLflow experiment, or None if MLflow had all of it.

    running: a command carries it out now; else its status becomes that of the source: FINISHED, FAILED or KILLED.
    """
    client, name = store.client, experiment_name(source.identity, source.kind)
    experiment = store.experiment(
        name, {NOTE: read_title(experiment_path(source.identity)), VIEW: view_tag(source.identity.metric)}
    )
    run, *twins = find_runs(client, experiment, source) or [None]
    if run and not twins and not running and run.data.tags.get(MIRRORED) == source.digest:
        return None
    for twin in twins:  # of a request that was repeated
        client.log_batch(run.info.run_id, tags=as_tags(added_by_hand(twin, source)))
        client.delete_run(twin.info.run_id)
    if run is None:
        run = create_run(store, experiment, source, running)
    elif not is_continued(run, source, running):
        old, run = run, create_run(store, experiment, source, running, run)
        client.delete_run(old.info.run_id)
    run_id = run.info.run_id
    gone = {MIRRORED, FAILED, *({WARNINGS} - tags(source).keys())} & run.data.tags.keys()
    for tag in gone:
        client.delete_tag(run_id, tag)
    if running and run.info.status != "RUNNING":
        client.update_run(run_id, status="RUNNING")
    send_values(store, run, source, running)
    wanted = tags(source) | {PARENT: (variant := parent_id(store, experiment, source))}
    if not running:
        if source.record:
            send_files(store, name, run.info, source)
            for each in (run_id, variant):  # MLflow ignores an input that a run has
                send_dataset(client, each, source)
        client.set_terminated(run_id, source.status, _milliseconds(source.provenance.get("finished_at")))
        wanted |= ({FAILED: source.failure[:500]} if source.failure else {}) | {MIRRORED: source.digest}
        wanted |= {NOTE: note_of(run.info.run_name, source)} if is_own_note(run, source) else {}
    known = {tag: text for tag, text in run.data.tags.items() if tag not in gone}
    client.log_batch(run_id, tags=as_tags({tag: text for tag, text in wanted.items() if known.get(tag) != text}))
    return experiment


def show_experiment(store: Store, experiment: str, metric: str) -> None:
    """Update the shared view of an MLflow experiment from all its runs, and the runs of its variants."""
    runs = store.client.search_runs([experiment], max_results=MOST_RUNS)
    data = [run.data for run in runs if KEY in run.data.tags]
    store.client.set_experiment_tag(experiment, VIEW, view_tag(metric, data))
    for variant in (run for run in runs if VARIANT in run.data.tags):
        seeds = [run for run in runs if run.data.tags.get(PARENT) == variant.info.run_id]
        finished = [run.data.metrics for run in seeds if f"final/{metric}" in run.data.metrics]
        ended = max((run.info.end_time for run in seeds if run.info.end_time), default=None)
        of_seeds = {run.info.status for run in seeds}
        status = next((each for each in STATUSES if each in of_seeds), None)
        if ended and (ended, status) != (variant.info.end_time, variant.info.status):
            store.client.set_terminated(variant.info.run_id, status, ended)
        texts = describe_seeds(finished)
        for tag in OF_SEEDS:
            if values := dict.fromkeys(run.data.tags[tag] for run in seeds if tag in run.data.tags):
                texts[tag] = "; ".join(values)
            elif tag in variant.data.tags:
                store.client.delete_tag(variant.info.run_id, tag)
        if texts := {tag: text for tag, text in texts.items() if variant.data.tags.get(tag) != text}:
            store.client.log_batch(variant.info.run_id, tags=as_tags(texts))


def view_tag(metric: str, runs: Sequence[Any] = ()) -> str:
    return json.dumps(shared_view(metric, runs), separators=(",", ":"))


def find_runs(client: Any, experiment: str, source: Source) -> list[Any]:
    """The MLflow runs of this run. Two runs of equal configuration have one key."""
    runs = client.search_runs([experiment], f"tags.`{KEY}` = '{source.key}'", max_results=100)
    return [run for run in runs if run.data.tags.get("repro.run") == source.run]


def create_run(store: Store, experiment: str, source: Source, running: bool, old: Any = None) -> Any:
    """Create the MLflow run; old: the one that it replaces."""
    name = old.info.run_name if old else run_name(source.identity)
    # with all tags, so that it is found if the next request fails
    wanted = tags(source) | {PARENT: parent_id(store, experiment, source)} | _user()
    wanted |= {NOTE: note_of(name, source)} | (added_by_hand(old, source) if old else {})
    begun = _milliseconds(source.provenance.get("started_at")) or round(1000 * time.time())
    wanted |= {LOG: log_state(points_of(source, begun, running))}
    return store.client.create_run(experiment, start_time=begun, tags=wanted, run_name=name)


def note_of(name: str, source: Source) -> str:
    """A run's description: its name, the experiment's title, and its warnings."""
    note = f"{name}. {read_title(experiment_path(source.identity))}"
    return f"{note}{WARNED}{source.warnings}" if source.warnings else note


def is_own_note(run: Any, source: Source) -> bool:
    """Whether nobody changed the description of an MLflow run."""
    note, plain = run.data.tags.get(NOTE, ""), note_of(run.info.run_name, replace(source, warnings=None))
    return note == plain or note.startswith(plain + WARNED)


def parent_id(store: Store, experiment: str, source: Source) -> str:
    """MLflow's id of the variant's run, whose children are the runs of its seeds; made if it does not exist."""
    from mlflow.entities import Param

    digest = hashlib.sha256(name_group(source.identity).encode()).hexdigest()[:DIGEST]
    if (experiment, digest) not in store.parents:
        runs = store.client.search_runs([experiment], f"tags.`{VARIANT}` = '{digest}'", max_results=1)
        if not runs:
            wanted = {tag: text for tag, text in tags(source).items() if tag in SHARED} | _user()
            wanted |= {VARIANT: digest, "group": name_group(source.identity)}
            name, begun = variants.label(source.identity), _milliseconds(source.provenance.get("started_at"))
            runs = [store.client.create_run(experiment, start_time=begun, tags=wanted, run_name=name)]
            store.client.set_terminated(runs[0].info.run_id)
        if not runs[0].data.params:
            shared = [Param(name, text) for name, text in shared_parameters(source.identity).items()]
            for batch in _batches(shared, PARAMETERS_A_CALL):
                store.client.log_batch(runs[0].info.run_id, params=batch)
        store.parents[experiment, digest] = runs[0].info.run_id
    return store.parents[experiment, digest]


def added_by_hand(run: Any, source: Source) -> dict[str, str]:
    """The tags of an MLflow run that a user added, and the note that a user wrote."""
    made = {*tag_values(source), LOG, MIRRORED, FAILED}
    added = {tag: text for tag, text in run.data.tags.items() if not (tag in made or tag.startswith("mlflow."))}
    return added if is_own_note(run, source) else added | {NOTE: run.data.tags.get(NOTE, "")}


def points_of(source: Source, base: int, running: bool) -> list[Point]:
    """The points that the event log and the record hold, in the order in which they came to be."""
    final = [] if running or not source.record else final_points(source.record, base)
    return curve_points(source.evaluations, base) + final


def is_continued(run: Any, source: Source, running: bool) -> bool:
    """Whether all that MLflow has of the run is still true."""
    points = points_of(source, run.info.start_time, running)
    count, _, _ = (state := run.data.tags.get(LOG, "")).partition(" ")
    has_true_points = state == log_state(points[: int(count)]) if count.isdecimal() else not run.data.metrics
    configured = parameters(source.identity.plain())
    return has_true_points and all(configured.get(name, text) == text for name, text in run.data.params.items())


def log_state(points: Sequence[Point]) -> str:
    """The number of points, and a digest of them."""
    return f"{len(points)} {hashlib.sha256(repr([*points]).encode()).hexdigest()[:16]}"


def send_values(store: Store, run: Any, source: Source, running: bool) -> None:
    """Send metrics and parameters that this process has not sent, in few requests."""
    from mlflow.entities import Metric, Param

    client, run_id = store.client, run.info.run_id
    points = points_of(source, run.info.start_time, running)
    if (state := log_state(points)) != run.data.tags.get(LOG):
        client.set_tag(run_id, LOG, state)
    sent = store.sent.pop(run_id, set())
    new = [point for point in (*points, *sampled_points(source.folder)) if point not in sent]
    metrics = [Metric(key, value, timestamp, step) for key, step, timestamp, value in new]
    configured = parameters(source.identity.plain())
    params = [Param(name, text) for name, text in configured.items() if name not in run.data.params]
    batches = _batches(metrics, METRICS_A_CALL), _batches(params, PARAMETERS_A_CALL)
    for batch in zip_longest(*batches, fillvalue=()):
        client.log_batch(run_id, *batch)
    if running:
        store.sent[run_id] = sent.union(new)


def send_dataset(client: Any, run_id: str, source: Source) -> None:
    """Log the data set as input of the run, if it has a checksum (bare shapes have none)."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    data = source.record and source.record.result.dataset
    if not isinstance(data, Data) or not (checksum := (data.model_extra or {}).get("checksum")):
        return
    profile = json.dumps(data.model_dump(exclude={"name", "checksum"}))
    origin = json.dumps({"dataset": data.name, "sha256": checksum})
    entity = Dataset(not_none(data_name(source)), checksum[:DIGEST], "local", origin, profile=profile)
    client.log_inputs(run_id, [DatasetInput(entity, [InputTag("mlflow.data.context", "training")])])


@cache
def read_title(experiment: str) -> str:
    """The title of an experiment; its name if it does not exist any more."""
    return config.read_titles([experiment])[experiment] if experiment in config.experiment_names() else experiment


def as_tags(texts: dict[str, str]) -> list[Any]:
    from mlflow.entities import RunTag

    return [RunTag(name, text) for name, text in texts.items()]


def _user() -> dict[str, str]:
    """The tag of the user, as MLflow's own loggers set it."""
    try:
        return {USER: getpass.getuser()}
    except (OSError, KeyError):  # the user has no name
        return {}


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _milliseconds(iso: str | None) -> int | None:
    return round(1000 * datetime.fromisoformat(iso).timestamp()) if iso else None
