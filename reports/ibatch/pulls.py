"""What runs of a parameter server with batched pulls say: modes, networks, nodes, overlap; from summaries.

A run's `pipeline` has the batches, the profile they were decided from and what the models of the time say of them;
`per_rank` what each worker's pulls and forward pass took, medians over the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from repro.reporting.stats import spread
from repro.reports import factors
from repro.reports.loading import Summary

SINGLE, DEFAULT, LAYERWISE, IBATCH = "single", "default", "layerwise", "ibatch"
MODES = (DEFAULT, LAYERWISE, IBATCH)
# how experiments' names end -> the network as the paper writes it
NETWORKS = {"googlenet": "GoogLeNet", "inception": "Inception-V3", "vgg19": "VGG19", "vgg19-22k": "VGG19-22K"}
OTHER = "other"
Place = tuple[str, str, int]  # network, mode, nodes


def network(run: Summary) -> str:
    """As the paper writes it: by the experiment's name, else by the model's."""
    return NETWORKS.get(run["experiment"].partition("-")[2]) or NETWORKS.get(str(run["model"]["name"]), OTHER)


def pipeline(run: Summary) -> Mapping[str, Any]:
    """What a summary says of its batches; empty where it says nothing."""
    return run.get("pipeline") or {}


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


class Lacking(LookupError):
    """No results of a network, mode and number of nodes."""

    def __str__(self) -> str:
        name, mode, nodes = self.args[0]
        return f"{mode} on {nodes} node{'s' if nodes > 1 else ''} of {name}"


class Scaling(dict[Place, float]):
    """(network, mode, nodes) -> seconds of an iteration, the median over seeds; Lacking where nothing was run."""

    @classmethod
    def of(cls, runs: Iterable[Summary]) -> Scaling:
        found: dict[Place, list[float]] = {}
        for run in runs:
            of = factors.of(run)
            nodes = 1 if of.get("method") == SINGLE else of.get("workers")
            if nodes is not None and "method" in of:
                found.setdefault((network(run), str(of["method"]), int(nodes)), []).append(run["step"]["mean_s"])
        return cls({place: spread(seconds).median for place, seconds in found.items()})

    def __missing__(self, place: Place) -> float:
        raise Lacking(place)

    def places(self) -> list[Place]:
        """Networks, modes and nodes that have a speed-up, in the paper's order."""
        names = [*NETWORKS.values(), OTHER]
        mine = [place for place in self if place[1] in MODES and (place[0], SINGLE, 1) in self]
        return sorted(mine, key=lambda place: (names.index(place[0]), MODES.index(place[1]), place[2]))

    def speedup(self, network: str, mode: str, nodes: int) -> float:
        """Samples a second over those of a single node: every node computes a minibatch of its own an iteration."""
        return nodes * self[network, SINGLE, 1] / self[network, mode, nodes]

    def gain(self, network: str, nodes: int, over: str) -> float:
        """iBatch's samples a second over those of another mode."""
        return self[network, over, nodes] / self[network, IBATCH, nodes]
