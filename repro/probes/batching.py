"""Program `batching`: how often and how far iBatch's greedy algorithms miss the optimum, on random profiles.

Nothing is trained or timed. Profiles are drawn from the run's seed (`draw_profiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field

from repro import probes
from repro.algorithms.batching.decision import (
    algorithm1,
    algorithm2,
    best_batches,
    exact_exetime,
    greedy_batches,
    layer_batches,
    single_batch,
)
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches, check_batches, executed_ticks, exetime_ticks, join_groups
from repro.core.fields import Count, Model
from repro.core.not_none import not_none
from repro.experiment.schema import RunConfig
from repro.probes import ResultPart

# family: (decades by which a layer's transfer time rises from the first layer to the last, decades by which its forward
# time falls, all forward time over all transfer time)
FAMILIES = {
    "convolutional": (2.0, 1.0, 1.0),  # computation first, parameters last ("Case Study", second reason)
    "uniform": (0.0, 0.0, 1.0),
    "communication": (0.0, 0.0, 0.25),  # communication-bound: as uniform, with 4 times as much transfer
    "computation": (0.0, 0.0, 4.0),
}
MEAN_TRANSFER_S = 1e-3  # only ratios matter
COMPARED: dict[str, Callable[[PullProfile], Batches | None]] = {
    "greedy": greedy_batches,
    "algorithm1": algorithm1,
    "algorithm2": algorithm2,
    "constrained": exact_exetime,
    "default": single_batch,
    "layerwise": layer_batches,
}


def _distinct(entries: list[Any]) -> list[Any]:
    if len(set(entries)) < len(entries):
        raise ValueError("must be a list of different entries")
    return entries


Distinct = AfterValidator(_distinct)
Family = Literal["convolutional", "uniform", "communication", "computation"]


class Options(Model):
    """profiles: how many are drawn for each family, number of layers and startup time."""

    families: Annotated[list[Family], Field(min_length=1), Distinct]
    layers: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1), Distinct]
    # T_s over the mean T_t
    startups: Annotated[list[Annotated[float, Field(ge=0, le=1000)]], Field(min_length=1), Distinct]
    profiles: Count


class GapStatistics(ResultPart):
    """Statistics of the gap: a mode's executed time divided by that of `exact`, minus 1. compared: profiles with such
    batches (all, except for `constrained`); optimal: the fraction without a gap."""

    compared: int
    optimal: float | None
    median: float | None
    p95: float | None
    max: float | None


class FamilyStatistics(ResultPart):
    """Statistics of the profiles with one family, number of layers and startup time; null in the row of all profiles.

    modes: by mode; `constrained` is the optimum of (4) under (5) with two or more batches, if it exists. Fractions of
    profiles: no_pair: by algorithm, no pair meets (5) in its line 3; exetime_below: EXETime of greedy's batches is less
    than their executed time; prefers_longer: EXETime selects the one of Algorithms 1 and 2 that takes longer.
    prefers_longer_max: the largest excess, as a fraction of the other's time.
    """

    family: str | None
    layers: int | None
    startup: float | None
    profiles: int
    modes: dict[str, GapStatistics]
    no_pair: dict[str, float]
    exetime_below: float
    prefers_longer: float
    prefers_longer_max: float


class Result(ResultPart):
    rows: list[FamilyStatistics]


def run_alone(config: RunConfig) -> probes.Finding:
    probe = config.probe
    conditions = [(f, n, s) for f in probe.families for n in probe.layers for s in probe.startups]
    probes.announce_iterations(len(conditions))
    rows, every = [], []
    for number, (family, layers, startup) in enumerate(conditions, 1):
        compared = [
            compare_batches(profile) for profile in draw_profiles(family, layers, startup, probe.profiles, config.seed)
        ]
        rows.append({"family": family, "layers": layers, "startup": startup} | summarise_profiles(compared))
        every += compared
        probes.report_progress(number)
    total = {"family": None, "layers": None, "startup": None} | summarise_profiles(every)
    metrics = {
        f"{mode}/{statistic}": gaps[statistic]
        for mode, gaps in total["modes"].items()
        for statistic in ("optimal", "median", "p95", "max")
        if gaps["compared"]
    }
    metrics |= {name: total[name] for name in ("exetime_below", "prefers_longer")}
    of_greedy = total["modes"]["greedy"]
    line = (
        f"{len(every)} profiles: greedy is optimal in {100 * of_greedy['optimal']:.3g} %, else up to "
        f"{100 * of_greedy['max']:.3g} % longer (median {100 * of_greedy['median']:.3g} %)"
    )
    return probes.Finding({"rows": [*rows, total]}, metrics, line)


def compare_batches(profile: PullProfile) -> dict[str, Any]:
    """{gaps, no_pair, exetime_below, longer} of one profile.

    gaps: mode -> how much longer its batches execute than the optimum, a fraction; None if it finds no batches.
    no_pair: whether Algorithm 1, and Algorithm 2, finds no pair of batches. exetime_below: whether EXETime is below the
    executed time of greedy's batches. longer: how much longer greedy's batches execute than those of the better of the
    two algorithms, a fraction.
    """
    batches = {mode: decide(profile) for mode, decide in COMPARED.items()}
    best = best_batches(profile)
    ticks = check_batches(profile, best)
    least = executed_ticks(ticks, best)
    times = {mode: executed_ticks(ticks, partition) for mode, partition in batches.items() if partition}
    layers, _ = join_groups(profile)
    uncovered = [
        layers.pull(layer + 1, layers.layers) < layers.forward(layer, layer) for layer in range(1, layers.layers)
    ]
    return {
        "gaps": {mode: (times[mode] - least) / least if partition else None for mode, partition in batches.items()},
        # the pair that meets the constraint most easily: [1] or, in Algorithm 2, any single layer; and all the rest
        "no_pair": [uncovered[0], all(uncovered)],
        "exetime_below": exetime_ticks(ticks, not_none(batches["greedy"])) < times["greedy"],
        "longer": times["greedy"] / min(times["algorithm1"], times["algorithm2"]) - 1,
    }


def summarise_profiles(compared: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of a result's row that comes from its profiles."""
    longer = [profile["longer"] for profile in compared]
    no_pair = np.mean([profile["no_pair"] for profile in compared], axis=0).tolist()
    return {
        "profiles": len(compared),
        "modes": {mode: _gaps([profile["gaps"][mode] for profile in compared]) for mode in COMPARED},
        "no_pair": dict(zip(("algorithm1", "algorithm2"), no_pair)),
        "exetime_below": float(np.mean([profile["exetime_below"] for profile in compared])),
        "prefers_longer": float(np.mean([excess > 0 for excess in longer])),
        "prefers_longer_max": max(longer),
    }


def _gaps(gaps: list[float | None]) -> dict[str, Any]:
    """Statistics of the gaps that are not None."""
    compared = [gap for gap in gaps if gap is not None]
    if not compared:
        return {"compared": 0, "optimal": None, "median": None, "p95": None, "max": None}
    median, p95 = np.quantile(compared, [0.5, 0.95])
    return {
        "compared": len(compared),
        "optimal": float(np.mean([gap == 0 for gap in compared])),
        "median": float(median),
        "p95": float(p95),
        "max": max(compared),
    }


def draw_profiles(family: str, layers: int, startup: float, count: int, seed: int) -> Iterator[PullProfile]:
    """`count` profiles, the same ones for the same arguments; startup: T_s over the mean T_t.

    Each time is uniform in (0, 1], times its layer's share of the decades; all are then scaled to the family's ratio.
    """
    rises, falls, ratio = FAMILIES[family]
    random = np.random.default_rng((seed, list(FAMILIES).index(family), layers, round(1e6 * startup)))
    depth = np.linspace(0, 1, layers)
    for _ in range(count):
        transfers = (1 - random.random(layers)) * 10 ** (rises * depth)
        forwards = (1 - random.random(layers)) * 10 ** (-falls * depth)
        transfers *= layers * MEAN_TRANSFER_S / transfers.sum()
        forwards *= ratio * layers * MEAN_TRANSFER_S / forwards.sum()
        yield PullProfile(startup * MEAN_TRANSFER_S, tuple(transfers.tolist()), tuple(forwards.tolist()))
