"""A run's record, computed from its events: final scores, times to targets, step times, phases, communication."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.core.not_none import not_none
from repro.core.paths import EVENTS_FILE
from repro.core.phases import OVERLAPPED, PHASES, split_communication
from repro.experiment.schema import RunConfig
from repro.records import kinds, unfinished
from repro.records.events import read_events, warnings_in
from repro.records.record import SCHEMA, CpuTaken, Reached, Record
from repro.records.unfinished import other_scores
from repro.training.evaluation import metrics


def summarise_training(folder: Path, config: RunConfig, facts: dict[str, Any]) -> Record:
    """The record of a training run. facts: facts that only the ranks know."""
    events = read_events(folder / EVENTS_FILE)
    steps = [event for event in events if event["event"] == "steps"]
    evaluations = [event for event in events if event["event"] == "evaluation"]
    end = next(event for event in reversed(events) if event["event"] == "run_end")
    of_run = {name: facts[name] for name in ("fabric", "ranks")}
    of_result = {name: value for name, value in facts.items() if name not in of_run}
    iterations, metric = facts["iterations"], config.metric
    workers = not_none(per_iteration([event["workers"] for event in steps], iterations))
    servers = per_iteration([event["servers"] for event in steps if event["servers"]], iterations)
    others, curve = other_scores(evaluations, metric), unfinished.curve(events, metric)
    step_s = [seconds for event in steps for seconds in event["step_s"]]
    train_s = steps[-1]["train_s"]
    for group in filter(None, (workers, servers)):
        await_slowest(group["phases"], train_s / iterations)
    peaks = peak_bytes_by_rank(steps)
    result = of_result | {
        "memory": facts["memory"] | {"peak_bytes": peaks} if peaks else None,
        "curve": curve,
        "final": {name: curve[-1][name] for name in ("test_loss", metric, *others)} | {"train_s": train_s},
        "targets": {str(target): first_reaching(curve, metric, target) for target in config.targets},
        "step": {
            "mean_s": train_s / iterations,
            "median_s": statistics.median(step_s),
            "min_s": min(step_s),
            "max_s": max(step_s),
        },
        "phases": workers["phases"],
        "server_phases": servers["phases"] if servers else None,
        "communication": split_communication(workers["phases"], workers[OVERLAPPED]),
        "bytes_sent": sum(event["bytes_sent"] for event in steps) / iterations,
        "staleness": steps[-1].get("staleness", []),
        "counters": steps[-1].get("counters", {}),
        "weights_sha256": end["weights_sha256"],
        "warnings": warnings_in(events),
        "trace": steady_trace(events),
    }
    wall_s = wall_seconds(end["wall"], train_s, sum(event["event"] == "resume" for event in events))
    if len(attempts := unfinished.attempts(events)) > 1:
        config = config.model_copy(update={"provenance": config.provenance | {"attempts": attempts}})
    return make_record(folder, config, result, wall=wall_s, cpu_taken=all_taken(steps), **of_run)


def of_probe(folder: Path, config: RunConfig, facts: dict[str, Any], result: dict[str, Any]) -> Record:
    """The record of a probe. facts: as in `summarise_training`, and `cpu_taken`; result: the entries of
    `ProbeResult`."""
    of_run = {name: facts[name] for name in ("fabric", "ranks", "cpu_taken") if name in facts}
    more = {name: facts[name] for name in ("model", "dataset") if name in facts}
    made = make_record(folder, config, result | more, **of_run)
    made.check_probe_result()
    return made


def make_record(folder: Path, config: RunConfig, result: dict[str, Any], **of_run: Any) -> Record:
    """The record of a run with this result."""
    computation = result.get("found", {}).get("computation")
    entries = {
        "schema": SCHEMA,
        "run": folder.name,
        "key": config.key,
        "kind": kinds.kind(config.testbed.kind, computation, config.min_compute_s),
        "identity": config.identity,
        "hardware": config.hardware,
        "result": result,
        "provenance": config.provenance | {"finished_at": datetime.now(UTC).isoformat(timespec="seconds")},
    }
    return Record.of(entries | of_run)


def peak_bytes_by_rank(steps: list[dict[str, Any]]) -> list[int]:
    """Each rank's peak memory over all attempts of the run; [] if it was not measured."""
    return [max(peaks) for peaks in zip(*(event["peak_bytes"] for event in steps if "peak_bytes" in event))]


def all_taken(steps: list[dict[str, Any]]) -> CpuTaken | None:
    """The CPU time that others took between all stops of the run; None if it was not measured."""
    if not (parts := [event["cpu_taken"] for event in steps if "cpu_taken" in event]):
        return None
    return CpuTaken(**{name: sum(part[name] for part in parts) for name in CpuTaken.model_fields})


def per_iteration(sums: list[dict[str, Any]], iterations: int) -> dict[str, Any] | None:
    """Sums between stops, as means per iteration; None without sums (no servers)."""
    if not sums:
        return None
    return {
        "phases": {name: sum(s["phases"][name] for s in sums) / iterations for name in PHASES},
        OVERLAPPED: sum(s[OVERLAPPED] for s in sums) / iterations,
    }


def await_slowest(phases: dict[str, float], step_s: float) -> None:
    """Make the phases sum to the step, by the time that a rank waits at stops for the slowest, its clock paused."""
    phases["wait"] += max(0.0, step_s - sum(phases.values()))


def first_reaching(curve: list[dict[str, Any]], metric: str, target: float) -> dict[str, Any] | None:
    """The first evaluation at which the metric is as good as the target, or better."""
    for point in curve:
        if point[metric] is not None and metrics.reaches_target(metric, point[metric], target):
            return {name: point[name] for name in Reached.model_fields}
    return None


def steady_trace(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The intervals recorded at the middle stop; times count from the start of the first."""
    traces = [event["intervals"] for event in events if event["event"] == "trace"]
    if not traces:
        return []
    intervals = traces[len(traces) // 2]
    zero = min(interval["start"] for interval in intervals)
    return [i | {"start": i["start"] - zero, "end": i["end"] - zero} for i in intervals]


def wall_seconds(booked: dict[str, float], train_s: float, resumes: int) -> dict[str, Any]:
    """Real seconds of rank 0 by activity; synchronisation is waiting for other ranks while the clock is paused."""
    names = ("training", "evaluation", "checkpoint", "synchronisation", "logging")
    return {
        "train_s": train_s,
        **{f"{name}_s": booked.get(name, 0.0) for name in names},
        "total_s": sum(booked.values()),
        "resumes": resumes,
    }
