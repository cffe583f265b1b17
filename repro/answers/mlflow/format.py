"""How a run looks in MLflow: the names and values of its metrics, tags and parameters. No MLflow needed.

Names before a slash are the sections of MLflow's chart page; the curve's metrics have none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from repro.experiment import papers
from repro.records import identity, kinds, variants

TARGET = "target"  # section of the targets' lines
# What says where a value is from, or names the run: no configured value.
NOT_PARAMETERS = (
    *("changed", "sources", "inputs", "bounds", "claims", "paper", "experiment", "config"),
    *("key", "run", "hardware", "provenance", "started_at"),
)


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


def experiment_name(record: Mapping[str, Any]) -> str:
    """The MLflow experiment of a run: its experiment, and its kind, for kinds never meet in one chart."""
    kind = kind_of(record)
    return place(record) + (f" ({kind})" if kind else "")


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


def final_metrics(summary: dict[str, Any]) -> dict[str, float]:
    """The numbers of a finished run. The part before the slash is the section in which the UI shows it."""
    if "metrics" in summary:  # a probe's
        return {_name(key): float(value) for key, value in summary["metrics"].items() if math.isfinite(value)}
    found: dict[str, Any] = {f"final/{key}": value for key, value in summary["final"].items()}
    for target, reached in summary["targets"].items():
        # A target that was not reached has no metric: MLflow would turn infinity into a number.
        found[f"time_to/{target}_s"] = reached and reached["train_s"]
    for group, unit in (("step", "_s"), ("phases", ""), ("server_phases", ""), ("communication", "_s")):
        for key, seconds in (summary.get(group) or {}).items():
            found[f"{group}/{key.removesuffix(unit)}_ms"] = None if seconds is None else 1000 * seconds
    found |= {f"counters/{key}": total for key, total in (summary.get("counters") or {}).items()}
    for rank, histogram in enumerate(summary.get("staleness") or []):
        found |= {f"staleness/rank_{rank}_{name}": value for name, value in staleness(histogram).items()}
    mean_s = summary["step"]["mean_s"]
    found["speed/samples_per_s"] = summary["batch"] / mean_s if mean_s else None
    found["speed/bytes_sent_per_step"] = summary.get("bytes_sent")
    if memory := summary.get("memory"):
        found["memory/peak_mb"] = 1e-6 * max(memory["peak_bytes"])
    found["speed/wall_s"] = (summary.get("wall") or {}).get("total_s")
    numbers = {_name(key): value for key, value in found.items() if isinstance(value, int | float)}
    return {key: float(value) for key, value in numbers.items() if math.isfinite(value)}


def staleness(histogram: dict[str, int]) -> dict[str, float]:
    """{mean, late}: of one rank's gradients, mean staleness and the share that came late; {} where there are none."""
    total = sum(histogram.values())
    if not total:
        return {}
    mean = sum(int(rounds) * count for rounds, count in histogram.items()) / total
    return {"mean": mean, "late": 1 - histogram.get("0", 0) / total}


def named(record: Mapping[str, Any], key: str, name: str = "name") -> Any:
    """The name of a part: a configuration has {name: ..., options} where a summary has just the name."""
    value = record.get(key)
    return value.get(name) if isinstance(value, dict) else value


def kind_of(record: Mapping[str, Any]) -> str | None:
    """One of `repro.records.kinds.KINDS`, of a summary or of a resolved configuration; None of neither."""
    return record.get("kind") or (kinds.of_config(record) if isinstance(record.get("testbed"), dict) else None)


def run_name(record: Mapping[str, Any]) -> str:
    """`Pipe-SGD + T, 3 epochs, seed 0`: the variant, what differs from the experiment's own, and the seed."""
    parts = record.get("variant") or named(record, "strategy"), _changed(record), f"seed {record.get('seed', 0)}"
    return ", ".join(str(part) for part in parts if part)


def place(record: Mapping[str, Any]) -> str:
    """`pipesgd/fig4-mnist`"""
    return f"{record['paper']}/{record['experiment']}"


def tags(record: dict[str, Any]) -> dict[str, str]:
    """What runs are grouped and filtered by. `group` is the same for the seeds of one variant in one configuration;
    `figure` is what the paper's file says that the experiment shows."""
    summarised = isinstance(record.get("dataset"), dict) and isinstance(record["dataset"].get("standin"), bool)
    plain = ("paper", "experiment", "variant", "seed", "scale", "breakdown", "workers", "fabric", "launcher")
    found = {"kind": kind_of(record)} | {key: record.get(key) for key in plain}
    shown = {entry.experiment: entry.shows for entry in papers.entries(record["paper"])}
    found |= {"figure": shown.get(record["experiment"]), SOURCE: f"repro run {place(record)}"}
    found[SOURCE_TYPE] = "JOB" if record.get("launcher") == "srun" else "LOCAL"
    found["imbalance"] = named(record, "imbalance")
    found |= {key: named(record, key) for key in ("strategy", "testbed", "dataset")}
    found |= {
        # A configuration says "auto": what that came to is known from the summary.
        "stand_in": named(record, "dataset", "standin") if summarised else None,
        "hardware": named(record, "hardware", "class"),
        "group": " / ".join(str(part) for part in _group(record) if part),
        "repro.key": record["key"],
        "repro.run": record.get("run"),
    }
    found[COMMIT] = (record.get("provenance") or {}).get("commit")
    return {key: str(value) for key, value in found.items() if value is not None}


def _group(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Variant, testbed, scale, where the configuration is not the experiment's own, and the data; last a digest of the
    whole configuration, for what the name of a variant stands for may change."""
    exact = "breakdown" if record.get("breakdown") else None  # its steps are synchronised: no run like the others
    which = record.get("variant"), named(record, "testbed"), record.get("scale"), exact, _changed(record)
    return *which, named(record, "dataset"), variants.digest(identity.values_of(record.get("config") or record))


def _changed(record: Mapping[str, Any]) -> str:
    """What is not as the experiment has it: `H=40, 9 epochs`."""
    config = record.get("config") or record
    paths = [path for path in config.get("changed") or () if path not in identity.MINOR]
    return identity.described(identity.values_of(config), paths)


def parameters(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
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
