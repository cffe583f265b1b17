"""What runs of a parameter server with batched pulls say: modes, networks, nodes, speed-ups, overlap; from summaries.

A run's `pipeline` has the batches, the profile they were decided from and what the models of the time say of them;
`per_rank` what each worker's pulls and forward pass took, medians over the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from repro.reporting.stats import spread
from repro.reports import factors
from repro.reports.loading import Summary

SINGLE, DEFAULT, LAYERWISE, IBATCH, EXACT = "single", "default", "layerwise", "ibatch", "exact"
MODES = (DEFAULT, LAYERWISE, IBATCH)
# experiments' endings -> the network as the paper writes it
NETWORKS = {"googlenet": "GoogLeNet", "inception": "Inception-V3", "vgg19": "VGG19", "vgg19-22k": "VGG19-22K"}
GOOGLENET, INCEPTION, VGG19, VGG19_22K = NETWORKS.values()
LARGE = 2e8  # parameters: above it a VGG19 is the one with 21,841 classes
KINDS_OF_PUSH = ("after", "layerwise", "batches")
Place = tuple[str, str, int]  # network, mode, nodes


def mode_of(run: Summary) -> str:
    """How a run pulls; nothing of a run that is of no mode."""
    return str(factors.of(run).get("method", ""))


def sized(run: Summary) -> tuple[str, int] | None:
    """(mode, nodes); None of a run whose number of nodes is no factor."""
    return place(factors.of(run))


def place(of: factors.Factors) -> tuple[str, int] | None:
    """The same by the factors; one node of a single one."""
    if of.get("method") == SINGLE:
        return SINGLE, 1
    return (str(of["method"]), int(of["workers"])) if {"method", "workers"} <= of.keys() else None


def network(run: Summary) -> str:
    """Which network a run is of, as experiments' names end: by its experiment, else by its model."""
    name, model = run["experiment"], run["model"]
    for ending in sorted(NETWORKS, key=len, reverse=True):
        if name.endswith(f"-{ending}"):
            return ending
    known = str(model.get("name") or "").replace("_", "-")
    if known.startswith("vgg"):
        large = "22k" in known or (model.get("parameters") or 0) > LARGE
        return "vgg19-22k" if large else "vgg19"
    return next((ending for ending in NETWORKS if known.startswith(ending)), known)


def implied(run: Summary) -> bool:
    """Did the run take its computation from one of the paper's results?"""
    return "implied" in run["testbed"]


def pipeline(run: Summary) -> Mapping[str, Any]:
    """What a summary says of its batches; empty where it says nothing."""
    return run.get("pipeline") or {}


def profile(run: Summary) -> Mapping[str, Any] | None:
    """The profile behind the batches, None where none was measured."""
    return pipeline(run).get("profile")


def batches_text(run: Summary) -> str:
    """As the paper writes them: `[1, 5], [6, 10], [11, 12]`; many are counted."""
    found = pipeline(run).get("batches") or []
    if len(found) > 6:
        return f"{len(found)} batches"
    return ", ".join(f"[{first}, {last}]" for first, last in found)


def gap(run: Summary) -> float | None:
    """Executed time of the batches over that of the optimal ones, less 1; None where there is no profile."""
    found = pipeline(run)
    if found.get("executed_s") is None or not found.get("exact_s"):
        return None
    return found["executed_s"] / found["exact_s"] - 1


@dataclass(frozen=True)
class Times:
    """Seconds of an iteration's pulls and forward pass: means over the workers of their medians over the steps."""

    forward_end_s: float  # from the first pull asked to the end of the forward pass
    pull_s: float
    forward_s: float
    overlap_s: float

    @property
    def communication_s(self) -> float:
        """Not overlapping."""
        return self.pull_s - self.overlap_s

    @property
    def computation_s(self) -> float:
        """Not overlapping."""
        return self.forward_s - self.overlap_s


def times(run: Summary) -> Times | None:
    """None of a run whose workers recorded nothing.

    Where servers are nodes of their own, of the first step: a later pull waits there for other workers' gradients,
    which no worker can tell from its own pull's time.
    """
    workers = [one for one in run.get("per_rank") or () if one.get("role") == "worker" and one.get("steps")]
    if not workers:
        return None
    if pipeline(run).get("servers"):
        workers = [one["first_step"] for one in workers]
    return Times(*(fmean(one[name] for one in workers) for name in Times.__dataclass_fields__))


@dataclass(frozen=True)
class Scaling:
    """Runs by network, mode and number of nodes."""

    summaries: Mapping[Place, Sequence[Summary]]

    @classmethod
    def of(cls, runs: Iterable[Summary]) -> Scaling:
        found: dict[Place, list[Summary]] = {}
        for run in runs:
            if where := sized(run):
                found.setdefault((NETWORKS.get(network(run), network(run)), *where), []).append(run)
        return cls(found)

    @property
    def networks(self) -> list[str]:
        """In the paper's order."""
        there = {name for name, *_ in self.summaries}
        return [name for name in NETWORKS.values() if name in there] + sorted(there - set(NETWORKS.values()))

    def nodes(self, network: str, mode: str) -> list[int]:
        return sorted(n for name, of, n in self.summaries if (name, of) == (network, mode))

    def one(self, network: str, mode: str, nodes: int) -> Summary | None:
        """The first seed's."""
        return next(iter(self.summaries.get((network, mode, nodes), ())), None)

    def seconds(self, network: str, mode: str, nodes: int) -> float | None:
        """Of an iteration, median over seeds."""
        found = self.summaries.get((network, mode, nodes))
        return spread(run["step"]["mean_s"] for run in found).median if found else None

    def speedup(self, network: str, mode: str, nodes: int) -> float | None:
        """Samples a second over those of a single node: every node computes a minibatch of its own an iteration."""
        one, some = self.seconds(network, SINGLE, 1), self.seconds(network, mode, nodes)
        return nodes * one / some if one and some else None

    def times(self, network: str, mode: str, nodes: int) -> Times | None:
        run = self.one(network, mode, nodes)
        return times(run) if run else None

    def lacking(self, wanted: Iterable[Place]) -> str:
        """Which of (network, mode, nodes) there are no results of."""
        missing = [where for where in wanted if where not in self.summaries]
        return ", ".join(f"{mode} on {nodes} node{'s' if nodes > 1 else ''} of {name}" for name, mode, nodes in missing)
