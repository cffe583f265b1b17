"""The names and values of a run's metrics, tags and parameters in MLflow, without importing MLflow.

The part of a metric's name before the slash is its section on MLflow's chart page; metrics of the curve have none.

Time axis: MLflow draws a metric over "relative time", the time since the metric's first point. A curve point has the
timestamp `base + train_s`, where base is the start of the run, and each metric has a first point at base: the
evaluation before training, or NaN, which charts leave out. Relative time is then the training clock: without
evaluation, checkpoints and logging, and in virtual seconds for simulated runs. Samples of the machine
(`repro.answers.mlflow.machine`) have the time of the wall clock.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from repro.answers.mlflow.machine import SAMPLES
from repro.answers.mlflow.source import Source
from repro.core import safe_files
from repro.experiment import papers
from repro.records import variants
from repro.records.busy import SEVERAL_MACHINES
from repro.records.configured import ABOUT_ENTRIES
from repro.records.identity import Identity
from repro.records.record import Data, Record, TrainResult
from repro.records.units import METADATA

TO_TARGET = ("time_to/", "epochs_to/")  # beginnings of the names of metrics
WARNINGS = "warnings"  # tag: why a run's numbers may be wrong
# entries that name the run or the origin of values, and configure nothing
NOT_PARAMETERS = (*ABOUT_ENTRIES, *METADATA, "paper", "experiment")


class Point(NamedTuple):
    """One value of one metric; timestamp in milliseconds since 1970."""

    key: str
    step: int
    timestamp: int
    value: float


# sections of the metrics of a finished run, in the order of the chart page
SECTIONS = (
    *("final", "time_to", "epochs_to", "step", "phases", "communication", "speed", "staleness", "counters"),
    *("server_phases", "memory"),
)


def experiment_name(identity: Identity, kind: str) -> str:
    """The MLflow experiment of a run; each kind has its own, so that charts never mix kinds."""
    return f"{experiment_path(identity)} ({kind})"


def curve_points(evaluations: Iterable[Mapping[str, Any]], base: int) -> list[Point]:
    """The points of the curve; base: the timestamp, in milliseconds, of 0 on the training clock."""
    points, anchored = [], set()
    for evaluation in evaluations:
        timestamp = base + round(1000 * evaluation["train_s"])
        for name, value in evaluation.items():
            if name in ("event", "iteration") or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            key = "train_loss" if name == "loss" else _name(name)
            if key not in anchored and timestamp > base:
                points.append(Point(key, 0, base, math.nan))
            anchored.add(key)
            points.append(Point(key, evaluation["iteration"], timestamp, float(value)))
    return points


def sampled_points(folder: Path | None) -> list[Point]:
    """The samples of the machine in a run's folder, a step each; an incomplete line is ignored."""
    try:
        lines = safe_files.read_safely(folder / SAMPLES).decode("utf-8").splitlines() if folder else []
    except (OSError, UnicodeDecodeError):
        return []
    points = []
    for step, line in enumerate(lines):
        with contextlib.suppress(ValueError):
            values: dict[str, float] = json.loads(line)
            timestamp = round(values.pop("time"))
            points += [Point(f"system/{name}", step, timestamp, float(value)) for name, value in values.items()]
    return points


def final_points(record: Record, base: int) -> list[Point]:
    """The numbers of a finished run, at step 0: the UI draws metrics without other steps as bars."""
    return [Point(key, 0, base, value) for key, value in final_metrics(record).items()]


def final_metrics(record: Record) -> dict[str, float]:
    """The numbers of a finished run."""
    result = record.result
    metrics = _of_training(result, record) if isinstance(result, TrainResult) else dict(result.metrics)
    numbers = {_name(key): value for key, value in metrics.items() if isinstance(value, int | float)}
    return {key: float(value) for key, value in numbers.items() if math.isfinite(value)}


def _of_training(result: TrainResult, record: Record) -> dict[str, Any]:
    metrics: dict[str, Any] = {f"final/{key}": value for key, value in result.final.items()}
    # a missed target has no metric: MLflow would store a number for infinity
    metrics |= {f"time_to/{target}_s": reached.train_s for target, reached in result.targets.items() if reached}
    metrics |= {f"epochs_to/{target}": reached.epoch for target, reached in result.targets.items() if reached}
    parts = result.model_dump(include={"step", "phases", "server_phases", "communication"})
    for group, unit in (("step", "_s"), ("phases", ""), ("server_phases", ""), ("communication", "_s")):
        for key, seconds in (parts[group] or {}).items():
            metrics[f"{group}/{key.removesuffix(unit)}_ms"] = None if seconds is None else 1000 * seconds
    metrics |= {f"counters/{key}": total for key, total in result.counters.items()}
    for rank, histogram in enumerate(result.staleness):
        metrics |= {f"staleness/rank_{rank}_{name}": value for name, value in staleness(histogram).items()}
    metrics["speed/samples_per_s"] = result.step.rate(record.identity.batch)
    metrics |= {"speed/bytes_sent_per_step": result.bytes_sent, "speed/wall_s": record.wall.get("total_s")}
    return metrics | ({"memory/peak_mb": result.memory.peak_mb} if result.memory else {})


def describe_seeds(seeds: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """`time_to/0.97_s` -> `1.5 to 2 (3 of 5 seeds)`, of the metrics of a variant's runs: what each target took in the
    runs that reach it."""
    names = sorted({name for metrics in seeds for name in metrics if name.startswith(TO_TARGET)})
    texts = {}
    for name in names:
        values = [metrics[name] for metrics in seeds if name in metrics]
        ends = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (min(values), max(values))))
        texts[name] = f"{ends} ({len(values)} of {len(seeds)} seeds)"
    return texts


def staleness(histogram: dict[str, int]) -> dict[str, float]:
    """{mean, late}: the mean staleness of one rank's gradients and the share of late ones; {} without gradients."""
    total = sum(histogram.values())
    if not total:
        return {}
    mean = sum(int(rounds) * count for rounds, count in histogram.items()) / total
    return {"mean": mean, "late": 1 - histogram.get("0", 0) / total}


def run_name(identity: Identity) -> str:
    """`Pipe-SGD + T, 3 epochs, seed 0`: the variant, changes of the experiment's configuration, and the seed."""
    return f"{variants.label(identity)}, seed {identity.seed}"


def experiment_path(identity: Identity) -> str:
    """`pipesgd/fig4-mnist`"""
    return f"{identity.paper}/{identity.experiment}"


def tags(source: Source) -> dict[str, str]:
    """The tags for grouping and filtering."""
    return {key: str(value) for key, value in tag_values(source).items() if value is not None}


def tag_values(source: Source) -> dict[str, Any]:
    """The values of all tags, None where a run has none. Seeds of a variant with equal configuration and data share
    `group`; `figure` is what the experiment shows by the paper's file; `dataset` is the configured name, also where a
    stand-in is used.
    """
    identity, record, launcher = source.identity, source.record, source.identity.testbed.launcher
    shown = {entry.experiment: entry.shows for entry in papers.read_entries(identity.paper)}
    data = record and record.result.dataset
    # the record resolves a stand-in that is "auto" in the configuration
    standin = data.standin if isinstance(data, Data) else None
    plain = ("paper", "experiment", "seed", "scale", "breakdown", "workers")
    return {key: getattr(identity, key) for key in plain} | {
        "kind": source.kind,
        "figure": shown.get(identity.experiment),
        "variant": variants.label(identity),
        "launcher": launcher,
        "imbalance": identity.imbalance.name,
        "strategy": identity.strategy.name,
        "testbed": identity.testbed.name,
        "dataset": data_name(source),
        "stand_in": standin,
        WARNINGS: source.warnings,
        "fabric": record and record.fabric,
        "hardware": record and record.hardware.class_,
        "group": f"{name_group(identity)} / stand-in data" if standin else name_group(identity),
        "repro.key": source.key,
        "repro.run": source.run,
        "mlflow.source.name": f"repro run {experiment_path(identity)}",
        "mlflow.source.type": "JOB" if launcher == SEVERAL_MACHINES else "LOCAL",
        "mlflow.source.git.commit": source.provenance.get("commit"),
    }


def data_name(source: Source) -> str | None:
    """The configured data set; of a record without one that of its data."""
    data = source.identity.dataset or (source.record and source.record.result.dataset)
    return data.name if data else None


def name_group(run: Identity) -> str:
    """Label, testbed, scale, data set and digest of the whole configuration, as the meaning of a name may change."""
    exact = "breakdown" if run.breakdown else None  # its steps are synchronised, unlike those of other runs
    data = run.dataset.name if run.dataset else None
    parts = variants.label(run), run.testbed.name, run.scale, exact, data, variants.configuration_of(run)
    return " / ".join(part for part in parts if part)


def parameters(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The flat configuration, {"optimizer.lr": "0.1", ...}, without NOT_PARAMETERS and entries without a value."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if key in NOT_PARAMETERS or value is None:
            continue
        if isinstance(value, dict):
            flat |= parameters(value, f"{prefix}{key}.")
        else:
            flat[_name(f"{prefix}{key}")] = str(value)[:500]
    return flat


def shared_parameters(identity: Identity) -> dict[str, str]:
    """The parameters that are equal in all runs of a variant (`name_group`)."""
    compared = {*map(_name, identity.values)}
    return {name: text for name, text in parameters(identity.plain()).items() if name in compared}


def _name(text: str) -> str:
    """A name with the characters that MLflow allows: letters, digits, and _ - . space : /"""
    return re.sub(r"[^\w\-. :/]", "_", text)
