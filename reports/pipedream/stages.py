"""What runs with a model in stages say of throughput and configuration, by experiment (a row of Table 1) and variant.

An iteration is a minibatch of each worker, in every strategy (a pipeline takes them one after another), so that samples
a second compare. Only summaries of pipelines have `pipeline` and `per_rank`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repro.experiment.config import own_file
from repro.reporting.stats import spread
from repro.reports.loading import Summary

SINGLE, BSP, ALLREDUCE, PIPEDREAM, ASP = "single", "bsp", "bsp-allreduce", "pipedream", "asp"
BASELINES = (BSP, ALLREDUCE)  # BSP's gradients through a sharded server, and through a ring allreduce
MIXED = "replicated pipeline"

Rates = Mapping[tuple[str, str], float]  # (experiment, variant) -> samples a second


def samples_s(run: Summary) -> float:
    """Samples a second of all machines."""
    return run["batch"] / run["step"]["mean_s"]


def stalled(run: Summary) -> float:
    """Share of a step in which a machine stands still for communication or for others (mean over machines)."""
    return (run["phases"]["communicate"] + run["phases"]["wait"]) / run["step"]["mean_s"]


def rates(runs: Iterable[Summary]) -> Rates:
    """Samples a second of every variant, medians over seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        found.setdefault((run["experiment"], run["setting"]), []).append(samples_s(run))
    return {place: spread(values).median for place, values in found.items()}


def fastest(of: Rates, row: str, variants: Sequence[str] = BASELINES) -> float | None:
    """The most samples a second of some variants of a row; None where one of them was not run."""
    if any((row, variant) not in of for variant in variants):
        return None
    return max(of[row, variant] for variant in variants)


def pipeline(run: Summary) -> Mapping[str, Any]:
    """What a summary says of its stages; empty where it had none."""
    return run.get("pipeline") or {}


def configuration(run: Summary) -> str:
    """`7-1`; nothing where a run had no stages."""
    return str(pipeline(run).get("config") or "")


def replicas(config: str) -> list[int]:
    """Replicas of each stage of `7-1`."""
    return [int(part) for part in config.split("-")]


def shape(config: str) -> str:
    """What kind of parallelism a configuration is."""
    counts = replicas(config)
    return "data parallelism" if len(counts) == 1 else "straight pipeline" if max(counts) == 1 else MIXED


def noam(config: str) -> int:
    """Section 3.2: machines over machines in the input stage, rounded up."""
    counts = replicas(config)
    return math.ceil(sum(counts) / counts[0])


def machines(row: str) -> int:
    """How many machines a row of Table 1 has, as its experiment's file says."""
    return own_file(f"pipedream/{row}")["workers"]


def cluster(row: str) -> str:
    """On which cluster a row of Table 1 stands, A or B: the last letter of its testbed's name."""
    return str(next(iter(own_file(f"pipedream/{row}")["testbeds"])))[-1].upper()
