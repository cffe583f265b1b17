"""Program `batching`: iBatch's greedy algorithms against the optimum, on random profiles: how often, how far.

Nothing is trained or timed. Profiles are drawn from the run's seed (`draw`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field

from repro import probes
from repro.algorithms.batching.exact import exact, exact_exetime
from repro.algorithms.batching.greedy import algorithm1, algorithm2, greedy
from repro.algorithms.batching.modes import default, layerwise
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.ticks import joined
from repro.algorithms.batching.times import Batches, checked, executed, exetime
from repro.core.fields import Count, Model
from repro.core.not_none import not_none
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared.options import needs_one

# of random profiles for what the paper says layers look like
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
    "greedy": greedy,
    "algorithm1": algorithm1,
    "algorithm2": algorithm2,
    "constrained": exact_exetime,
    "default": default,
    "layerwise": layerwise,
}


def _once(given: list[Any]) -> list[Any]:
    if len(set(given)) < len(given):
        raise ValueError("must be a list of different entries")
    return given


Once = AfterValidator(_once)
Family = Literal["convolutional", "uniform", "communication", "computation"]


class Options(Model):
    """Of every family, number of layers and startup time so many profiles are drawn."""

    families: Annotated[list[Family], Field(min_length=1), Once]
    layers: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1), Once]
    # T_s over the mean T_t
    startups: Annotated[list[Annotated[float, Field(ge=0, le=1000)]], Field(min_length=1), Once]
    profiles: Count


def check(config: RunConfig) -> None:
    """InputError for more workers than it uses."""
    needs_one(config, "only computes")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """All of it."""
    probe = config.probe
    conditions = [(f, n, s) for f in probe.families for n in probe.layers for s in probe.startups]
    probes.start(fabric, len(conditions))
    rows, every = [], []
    for number, (family, layers, startup) in enumerate(conditions, 1):
        found = [compare(profile) for profile in draw(family, layers, startup, probe.profiles, config.seed)]
        rows.append({"family": family, "layers": layers, "startup": startup} | summed(found))
        every += found
        probes.progress(fabric, number)
    total = {"family": None, "layers": None, "startup": None} | summed(every)
    greedily = total["modes"]["greedy"]
    metrics = {
        **{
            f"{mode}/{what}": one[what]
            for mode, one in total["modes"].items()
            for what in ("optimal", "median", "p95", "max")
            if one["compared"]
        },
        "exetime_below": total["exetime_below"],
        "prefers_longer": total["prefers_longer"],
    }
    line = (
        f"{len(every)} profiles: greedy is optimal in {100 * greedily['optimal']:.3g} %, else up to "
        f"{100 * greedily['max']:.3g} % longer (median {100 * greedily['median']:.3g} %)"
    )
    return probes.Finding({"rows": [*rows, total]}, metrics, line)


def compare(profile: PullProfile) -> dict[str, Any]:
    """What is known of one profile: gaps {mode: gap or None}, no_pair [of Algorithm 1, of 2], exetime_below, longer.

    longer: by how much more time greedy's batches execute than those of the other algorithm, a fraction, 0 or more.
    """
    batches = {mode: decided(profile) for mode, decided in COMPARED.items()}
    best = exact(profile)
    ticks = checked(profile, best)
    least = executed(ticks, best)
    times = {mode: executed(ticks, one) for mode, one in batches.items() if one}
    layers, _ = joined(profile)
    uncovered = [layers.pull(one + 1, layers.layers) < layers.forward(one, one) for one in range(1, layers.layers)]
    return {
        "gaps": {mode: (times[mode] - least) / least if one else None for mode, one in batches.items()},
        # [1] against all the rest is the pair most easily met in Algorithm 1, in Algorithm 2 a single layer's batch
        "no_pair": [uncovered[0], all(uncovered)],
        "exetime_below": exetime(ticks, not_none(batches["greedy"])) < times["greedy"],
        "longer": times["greedy"] / min(times["algorithm1"], times["algorithm2"]) - 1,
    }


def summed(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of a result's row that comes from its profiles."""
    longer = [one["longer"] for one in found]
    return {
        "profiles": len(found),
        "modes": {mode: _gaps([one["gaps"][mode] for one in found]) for mode in COMPARED},
        "no_pair": {
            name: float(np.mean([one["no_pair"][index] for one in found]))
            for index, name in enumerate(("algorithm1", "algorithm2"))
        },
        "exetime_below": float(np.mean([one["exetime_below"] for one in found])),
        "prefers_longer": float(np.mean([one > 0 for one in longer])),
        "prefers_longer_max": max(longer),
    }


def _gaps(gaps: list[float | None]) -> dict[str, Any]:
    """Numbers over the gaps that there are; None where there is none."""
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


def draw(family: str, layers: int, startup: float, count: int, seed: int) -> Iterator[PullProfile]:
    """So many profiles, the same ones for the same arguments; startup: T_s over the mean T_t.

    Each time is uniform in (0, 1], times its layer's share of the decades; then all are scaled to the family's ratio.
    """
    rises, falls, ratio = FAMILIES[family]
    where = seed, list(FAMILIES).index(family), layers, round(1e6 * startup)
    random = np.random.default_rng(where)
    depth = np.linspace(0, 1, layers)
    for _ in range(count):
        transfers = (1 - random.random(layers)) * 10 ** (rises * depth)
        forwards = (1 - random.random(layers)) * 10 ** (-falls * depth)
        transfers *= layers * MEAN_TRANSFER_S / transfers.sum()
        forwards *= ratio * layers * MEAN_TRANSFER_S / forwards.sum()
        yield PullProfile(startup * MEAN_TRANSFER_S, tuple(transfers.tolist()), tuple(forwards.tolist()))
