"""What runs with a model in stages say: throughput, bytes, configurations; from summaries, by experiment and variant.

An iteration is a minibatch of each worker, in every strategy (a pipeline takes them one after another), so that samples
a second compare. `pipeline` and `per_rank` are in the summaries of pipelines alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.experiment.config import own_file
from repro.reporting.stats import TIMES, number, spread
from repro.reports import factors
from repro.reports.loading import Summary

SINGLE, BSP, ALLREDUCE, ASP = "single", "bsp", "bsp-allreduce", "asp"
PIPEDREAM, GIVEN, STRAIGHT, MODEL = "pipedream", "paper-config", "straight", "model-parallel"
GPIPE, FLUSH = "gpipe", "1f1b-flush"
BASELINES = (BSP, ALLREDUCE)  # BSP's gradients through a sharded server, and through a ring allreduce
STASHING, VERTICAL, NAIVE = "stashing", "vertical-sync", "naive"
# Table 1's rows and the two throughputs that stand in the text alone, as experiments.
TABLE1 = (
    *("table1-vgg16-4a", "table1-vgg16-8a", "table1-vgg16-16a", "table1-vgg16-8b"),
    *("table1-inception-8a", "table1-inception-8b", "table1-s2vt-4a"),
)
THROUGHPUT = ("throughput-alexnet-8b", "throughput-resnet50-8b")
ROWS = (*TABLE1, *THROUGHPUT)
CLUSTERS = {"paper/pipedream-a": "A", "paper/pipedream-b": "B"}  # by testbed
REPLICATED, DATA_PARALLEL, STRAIGHTLY = "replicated pipeline", "data parallelism", "straight pipeline"


def samples_s(run: Summary) -> float:
    """Samples a second of all machines."""
    return run["batch"] / run["step"]["mean_s"]


def sent_per_sample(run: Summary) -> float:
    """Bytes that all ranks together send for a sample."""
    return run["bytes_sent"] * run.get("ranks", run["workers"]) / run["batch"]


def overhead(run: Summary) -> float:
    """Share of a step in which a machine stands still for communication or for others (mean over machines)."""
    return (run["phases"]["communicate"] + run["phases"]["wait"]) / run["step"]["mean_s"]


def machines(row: str) -> int:
    """How many machines a row of Table 1 has, as its experiment's file says."""
    return own_file(f"pipedream/{row}")["workers"]


def cluster(row: str) -> str:
    """On which cluster a row of Table 1 stands, A or B: that of its experiment's testbed."""
    return CLUSTERS[next(iter(own_file(f"pipedream/{row}")["testbeds"]))]


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
    return DATA_PARALLEL if len(counts) == 1 else STRAIGHTLY if max(counts) == 1 else REPLICATED


def noam(config: str) -> int:
    """Section 3.2: machines over machines in the input stage, rounded up."""
    counts = replicas(config)
    return math.ceil(sum(counts) / counts[0])


@dataclass(frozen=True)
class Runs:
    """Runs of several experiments, found by experiment and variant."""

    summaries: Mapping[tuple[str, str], Sequence[Summary]]

    @classmethod
    def of(cls, runs: Iterable[Summary]) -> Runs:
        found: dict[tuple[str, str], list[Summary]] = {}
        for run in runs:
            found.setdefault((run["experiment"], run["setting"]), []).append(run)
        return cls(found)

    def one(self, row: str, variant: str) -> Summary | None:
        """The first seed's run."""
        return next(iter(self.summaries.get((row, variant), ())), None)

    def rate(self, row: str, variant: str) -> float | None:
        """Samples a second, median over seeds."""
        found = self.summaries.get((row, variant))
        return spread(map(samples_s, found)).median if found else None

    def strongest(self, row: str, variants: Sequence[str]) -> str:
        """Of several variants of a row the one with the most samples a second."""
        return max(variants, key=lambda name: self.rate(row, name) or 0.0)

    def speedup(self, row: str, variant: str, over: str | Sequence[str]) -> float | None:
        """Samples a second of one variant over those of another, or of the strongest of several, same row."""
        one, base = self.rate(row, variant), self.rate(row, self.strongest(row, several(over)))
        return one / base if one and base else None

    def reduction(self, row: str, variant: str, over: str) -> float | None:
        """Share of the bytes of `over` that `variant` does not send for the same samples; below 0: it sends more."""
        one, base = self.one(row, variant), self.one(row, over)
        if one is None or base is None or not sent_per_sample(base):
            return None
        return 1 - sent_per_sample(one) / sent_per_sample(base)

    def overhead(self, row: str, variant: str = BSP) -> float | None:
        """Communication overhead as a share of the step."""
        found = self.summaries.get((row, variant))
        return spread(map(overhead, found)).median if found else None

    def configuration(self, row: str, variant: str = PIPEDREAM) -> str:
        found = self.one(row, variant)
        return configuration(found) if found else ""

    def lacking(self, wanted: Iterable[tuple[str, str]]) -> str:
        """Which of (experiment, variant) there are no results of."""
        return ", ".join(f"{variant} of {row}" for row, variant in wanted if (row, variant) not in self.summaries)


def several(variants: str | Sequence[str]) -> Sequence[str]:
    """What a claim is judged against: one variant, or several of which the strongest counts."""
    return [variants] if isinstance(variants, str) else variants


def against(strongest: str, ratios: Mapping[str, float]) -> str:
    """`over bsp-allreduce, the stronger; over bsp 1.62×`; ratios: of every variant. Nothing to be said of one."""
    rest = [f"over {name} {number(ratio)}{TIMES}" for name, ratio in ratios.items() if name != strongest]
    return "; ".join([f"over {strongest}, the stronger", *rest]) if rest else ""


def series(runs: Iterable[Summary]) -> dict[tuple[str, str], dict[int, Summary]]:
    """(model, device) -> workers -> run, of Figure 1's runs; the device is the testbed's last word."""
    found: dict[tuple[str, str], dict[int, Summary]] = {}
    for run in runs:
        varied = factors.of(run)
        if {"model", "workers"} <= varied.keys():
            device = run["testbed"].rsplit("-", 1)[-1]
            found.setdefault((str(varied["model"]), device), {})[int(varied["workers"])] = run
    return {key: dict(sorted(by_workers.items())) for key, by_workers in found.items()}
