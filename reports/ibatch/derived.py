"""How ours is computed where no verb reaches: orders and shares of networks, rests of times, decisions, weights.

off: by which factor each ratio that is counted or compared may be wrong; the Court asks with that of the validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from repro.reporting.columns import computed
from repro.reporting.evaluate import ratio
from repro.reports.compute import Outcome, function, rates
from repro.reports.evidence import of_run
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

MODES = ("default", "layerwise", "ibatch")
ROUNDING = 1e-9
WHOLE = "per_rank.forward_end_s"  # from the first pull asked to the end of the forward pass
Rates = Mapping[tuple[str, str], float]  # (experiment of a network, variant) -> samples a second


def over_networks(compute: Callable[..., float]) -> Callable[..., Outcome]:
    """Make a function over `Rates` known to the claims files; several seeds of a timing are one number."""

    @function
    @wraps(compute)
    def outcome(group: ProbeGroup, *given: Any, **named: Any) -> Outcome:
        try:
            return Outcome({group.seeds()[0]: compute(rates(group.summaries), *given, **named)})
        except KeyError as lacking:
            network, variant = lacking.args[0]
            return Outcome(reason=f"no results for {variant} of {network}")

    return outcome


# --- Figures 5 and 6: several networks, each an experiment


@over_networks
def least(of: Rates, networks: Sequence[str], variants: Sequence[str], over: str, nodes: int) -> float:
    """The least speed-up of some variants over another one, over networks, in shares of linear."""
    return min(of[name, variant] / of[name, over] for name in networks for variant in variants) / nodes


@over_networks
def fastest(of: Rates, networks: Sequence[str], variant: str, others: Sequence[str], off: float = 1.0) -> float:
    """Share of the networks in which no other variant is faster."""
    won = [all(of[name, variant] / of[name, other] * off >= 1 - ROUNDING for other in others) for name in networks]
    return sum(won) / len(won)


@over_networks
def grows(of: Rates, networks: Sequence[str], small: Sequence[str], large: Sequence[str], off: float = 1.0) -> float:
    """Share of the networks in which the ratio of two variants on many nodes is above that of two on few."""
    ratios = [[of[name, variant] / of[name, over] for variant, over in (small, large)] for name in networks]
    return sum(on_many * off > on_few / off for on_few, on_many in ratios) / len(ratios)


@over_networks
def lead(
    of: Rates, ahead: Sequence[str], behind: Sequence[str], variant: str, over: str, off: float = 1.0
) -> float:  # fmt: skip
    """A variant's speed-up over another one: the least of the networks `ahead` less the largest of those `behind`."""
    first, last = ([of[name, variant] / of[name, over] for name in networks] for networks in (ahead, behind))
    return min(first) * off - max(last) / off


# --- Figures 3, 4 and 7: what pulls and forward passes took, and what was decided


@function
def ratio_of_rests(group: ProbeGroup, experiment: str, of: str, over: str, column: str, off: float = 1.0) -> Outcome:
    """A time of a variant over another one's that is a rest of two (what overlaps of pulls and forward pass, or what
    does not): it is wrong by that share of `WHOLE`."""
    sides = []
    for variant, by in ((of, off), (over, 1 / off)):
        runs = [of_run(run) for run in group.used() if (run["experiment"], run["setting"]) == (experiment, variant)]
        if not runs or WHOLE not in runs[0]:
            return Outcome(reason=f"no pulls recorded by {variant} of {experiment}")
        each = zip(runs, computed(runs, column), computed(runs, WHOLE), strict=True)
        sides.append({run["seed"]: max(0.0, rest + (by - 1) * whole) for run, rest, whole in each})
    above, below = sides
    return Outcome({seed: ratio(above[seed], below[seed]) for seed in sorted({*above} & {*below})})


@function
def layer_ratio(group: ProbeGroup, layer: str, above: str, below: str) -> Outcome:
    """Of a layer: its pull over its forward pass, or the reverse; by the profile that the default's run measured."""
    found = {run["seed"]: waits(run).get(layer) for run in group.summaries if run["setting"] == "default"}
    values = {seed: took[above] / took[below] for seed, took in found.items() if took}
    return Outcome(values) if values else Outcome(reason=f"no profile of default with a layer {layer}")


def waits(run: Summary) -> dict[str, dict[str, float]]:
    """Layer -> seconds of its pull, alone, and of its forward pass; of a run that measured its profile."""
    if not (of := (run.get("pipeline") or {}).get("profile")):
        return {}
    each = zip(of["layers"], of["transfer_s"], of["forward_s"], strict=True)
    return {name: {"pull": of["startup_s"] + transfer, "forward": forward} for name, transfer, forward in each}


@function
def batches_count(group: ProbeGroup) -> Outcome:
    """How many batches iBatch decided on."""
    found = {run["seed"]: batches(run) for run in group.summaries if run["setting"] == "ibatch"}
    values = {seed: float(len(of)) for seed, of in found.items() if of}
    return Outcome(values) if values else Outcome(reason="no batches of ibatch")


def batches(run: Summary) -> Sequence[tuple[int, int]]:
    """First and last layer of each batch, from 1."""
    return (run.get("pipeline") or {}).get("batches") or ()


# --- measured


@function
def equal_weights(group: Group) -> Outcome:
    """Share of the numbers of workers at which all three modes end with the same weights, bit for bit."""
    import pandas as pd

    names = ["seed", "workers", "weights_sha256"]
    ends = [[run.get(name) for name in names] for run in group.used() if not run["breakdown"]]
    of = pd.DataFrame(ends, columns=names).groupby(names[:2])["weights_sha256"].agg(["size", "nunique"])
    same = of.loc[of["size"] == len(MODES), "nunique"] == 1
    values = {int(seed): float(share) for seed, share in same.groupby("seed").mean().items()}
    return Outcome(values) if values else Outcome(reason="no number of workers with all three modes")
