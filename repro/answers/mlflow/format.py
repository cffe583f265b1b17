"""How a run looks in MLflow: the names and values of its metrics, tags and parameters. No MLflow needed.

Names before a slash are the sections of MLflow's chart page; the curve's metrics have none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from repro.answers.mlflow.source import Source
from repro.experiment import papers
from repro.records import identity, variants
from repro.records.identity import Identity
from repro.records.record import Data, Record, TrainResult

TARGET = "target"  # section of the targets' lines
# What says where a value is from, or names the run: no configured value.
NOT_PARAMETERS = ("changed", "sources", "inputs", "bounds", "claims", "paper", "experiment")


class Point(NamedTuple):
    """One value of one metric; timestamp in milliseconds since 1970."""

    key: str
    step: int
    timestamp: int
    value: float

    @property
    def place(self) -> tuple[str, int, int]:
        return self[:3]


# sections of the metrics that a run ends with, in their order on the chart page
SECTIONS = (
    *("final", "time_to", "step", "phases", "communication", "speed", "staleness", "counters"),
    *("server_phases", "memory"),
)
SOURCE, SOURCE_TYPE, COMMIT = "mlflow.source.name", "mlflow.source.type", "mlflow.source.git.commit"
OWN_TAGS = (
    *("paper", "experiment", "figure", "variant", "seed", "scale", "breakdown", "workers", "fabric", "launcher"),
    *("kind", "imbalance", "strategy", "testbed", "dataset", "stand_in", "hardware", "group", "repro.key", "repro.run"),
    *(SOURCE, SOURCE_TYPE, COMMIT),
)


def is_own_metric(name: str) -> bool:
    """Whether a mirror makes a metric of that name, of whichever run; of others see `curve_points`."""
    section, slash, _ = name.partition("/")
    return bool(slash) and section in (*SECTIONS, TARGET)


def experiment_name(identity: Identity, kind: str) -> str:
    """The MLflow experiment of a run: its experiment, and its kind, for kinds never meet in one chart."""
    return f"{place(identity)} ({kind})"


def curve_points(evaluations: Iterable[Mapping[str, Any]], base: int) -> list[Point]:
    """The curve metrics' points; base: the timestamp, in milliseconds, at which the training clock stood at 0."""
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


def target_lines(curve: Sequence[Point], targets: Iterable[float | str], over: bool) -> list[Point]:
    """A metric for each target, constant from the curve's first point on, to its last once the run is over."""
    places = dict.fromkeys((point.step, point.timestamp) for point in curve)
    ends = list(places)[:1] + (list(places)[-1:] if over and len(places) > 1 else [])
    return [Point(_name(f"{TARGET}/{target}"), *place, float(target)) for target in targets for place in ends]


def final_metrics(record: Record) -> dict[str, float]:
    """The numbers of a finished run. The part before the slash is the section in which the UI shows it."""
    result = record.result
    found = _of_training(result, record) if isinstance(result, TrainResult) else dict(result.metrics)
    numbers = {_name(key): value for key, value in found.items() if isinstance(value, int | float)}
    return {key: float(value) for key, value in numbers.items() if math.isfinite(value)}


def _of_training(result: TrainResult, record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {f"final/{key}": value for key, value in result.final.items()}
    # A target that was not reached has no metric: MLflow would turn infinity into a number.
    found |= {f"time_to/{target}_s": reached.train_s for target, reached in result.targets.items() if reached}
    parts = result.model_dump(include={"step", "phases", "server_phases", "communication"})
    for group, unit in (("step", "_s"), ("phases", ""), ("server_phases", ""), ("communication", "_s")):
        for key, seconds in (parts[group] or {}).items():
            found[f"{group}/{key.removesuffix(unit)}_ms"] = None if seconds is None else 1000 * seconds
    found |= {f"counters/{key}": total for key, total in result.counters.items()}
    for rank, histogram in enumerate(result.staleness):
        found |= {f"staleness/rank_{rank}_{name}": value for name, value in staleness(histogram).items()}
    found["speed/samples_per_s"] = record.identity.batch / result.step.mean_s if result.step.mean_s else None
    found |= {"speed/bytes_sent_per_step": result.bytes_sent, "speed/wall_s": record.wall.get("total_s")}
    return found | ({"memory/peak_mb": 1e-6 * max(result.memory.peak_bytes)} if result.memory else {})


def staleness(histogram: dict[str, int]) -> dict[str, float]:
    """{mean, late}: of one rank's gradients, mean staleness and the share that came late; {} where there are none."""
    total = sum(histogram.values())
    if not total:
        return {}
    mean = sum(int(rounds) * count for rounds, count in histogram.items()) / total
    return {"mean": mean, "late": 1 - histogram.get("0", 0) / total}


def run_name(identity: Identity) -> str:
    """`Pipe-SGD + T, 3 epochs, seed 0`: the variant, what differs from the experiment's own, and the seed."""
    return ", ".join(filter(None, [identity.variant, _changed(identity), f"seed {identity.seed}"]))


def place(identity: Identity) -> str:
    """`pipesgd/fig4-mnist`"""
    return f"{identity.paper}/{identity.experiment}"


def tags(source: Source) -> dict[str, str]:
    """What runs are grouped and filtered by. `group` is the same for the seeds of one variant in one configuration;
    `figure` is what the paper's file says that the experiment shows."""
    own, record, launcher = source.identity, source.record, source.identity.testbed.launcher
    plain = ("paper", "experiment", "variant", "seed", "scale", "breakdown", "workers")
    shown = {entry.experiment: entry.shows for entry in papers.entries(own.paper)}
    # A configuration says of a stand-in "auto": what that came to is known from the record.
    data = (record and record.result.dataset) or own.dataset
    name = data.name if data else None
    found = {key: getattr(own, key) for key in plain} | {"kind": source.kind, "figure": shown.get(own.experiment)}
    found |= {SOURCE: f"repro run {place(own)}", SOURCE_TYPE: "JOB" if launcher == "srun" else "LOCAL"}
    found |= {"launcher": launcher, "imbalance": own.imbalance.name, "strategy": own.strategy.name}
    found |= {"testbed": own.testbed.name, "dataset": name, "group": _group(own, name)}
    found |= {"repro.key": source.key, "repro.run": source.run, COMMIT: source.provenance.get("commit")}
    if record:
        found |= {"fabric": record.fabric, "hardware": record.hardware.class_}
    if isinstance(data, Data):
        found["stand_in"] = data.standin
    return {key: str(value) for key, value in found.items() if value is not None}


def _group(own: Identity, data: str | None) -> str:
    """Variant, testbed, scale, where the configuration is not the experiment's own, and the data; last a digest of the
    whole configuration, for what the name of a variant stands for may change."""
    exact = "breakdown" if own.breakdown else None  # its steps are synchronised: no run like the others
    parts = own.variant, own.testbed.name, own.scale, exact, _changed(own), data, variants.digest(own.values)
    return " / ".join(part for part in parts if part)


def _changed(own: Identity) -> str:
    """What is not as the experiment has it: `H=40, 9 epochs`."""
    return identity.described(own.values, own.changes)


def parameters(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The configuration, flattened: {"optimizer.lr": "0.1", ...}; without what describes the whole experiment, and what
    has no value."""
    found: dict[str, str] = {}
    for key, value in config.items():
        if key in NOT_PARAMETERS or value is None:
            continue
        if isinstance(value, dict):
            found |= parameters(value, f"{prefix}{key}.")
        else:
            found[_name(f"{prefix}{key}")] = str(value)[:500]
    return found


def _name(text: str) -> str:
    """As MLflow allows names: letters, digits, and _ - . space : /"""
    return re.sub(r"[^\w\-. :/]", "_", text)
