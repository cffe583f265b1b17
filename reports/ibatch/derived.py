"""How ours is computed where no verb reaches: overlap, batches and decisions, shares and orders of networks.

off: by which factor each ratio that is counted or compared may be wrong; the Court asks with that of the validation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from itertools import groupby
from operator import getitem
from typing import Any

from repro.common.known import known
from repro.reporting.evaluate import ratio
from repro.reports import factors
from repro.reports.compute import Outcome, function, probe_function
from repro.reports.groups import Group
from repro.reports.ibatch.pulls import (
    DEFAULT,
    IBATCH,
    LAYERWISE,
    MODES,
    SINGLE,
    Lacking,
    Scaling,
    Times,
    gap,
    network,
    pipeline,
    times,
)
from repro.reports.loading import Summary
from repro.reports.probes import AnyGroup, ProbeGroup

FORWARD, PULL = "forward", "pull"
ROUNDING = 1e-9


def over_networks(compute: Callable[..., float | tuple[float, str]]) -> Callable[..., Outcome]:
    """Make a function over `Scaling` known to the claims files; several seeds of a timing are one number.

    compute: gives the number, or the number and a note.
    """

    @function
    @wraps(compute)
    def outcome(group: ProbeGroup, *given: Any, **named: Any) -> Outcome:
        try:
            found = compute(Scaling.of(group.summaries), *given, **named)
        except Lacking as place:
            return Outcome(reason=f"no results for {place}")
        value, note = found if isinstance(found, tuple) else (found, "")
        return Outcome({group.seeds()[0]: value}, note=note)

    return outcome


# --- Figures 5 and 6: several networks


@over_networks
def least_efficiency(
    runs: Scaling, networks: Sequence[str], least_nodes: int, most_nodes: int, modes: Sequence[str] = MODES
) -> tuple[float, str]:
    """The least speed-up over nodes of some networks and modes, over all sizes from `least_nodes` to `most_nodes`."""
    each = {place: runs.speedup(*place) / place[2] for place in runs.places()
            if place[0] in networks and place[1] in modes and least_nodes <= place[2] <= most_nodes}  # fmt: skip
    for name in networks:
        for mode in modes:
            if not any((name, mode) == place[:2] for place in each):
                raise Lacking((name, mode, most_nodes))
    (name, mode, nodes), least = min(each.items(), key=lambda one: (one[1], one[0]))
    return least, f"{name}, {mode}, {nodes} nodes"


@over_networks
def wins_everywhere(runs: Scaling, networks: Sequence[str], nodes: int, off: float = 1.0) -> float:
    """Share of the networks in which iBatch's iteration is the shortest of the three."""
    won = [all(runs.gain(name, nodes, other) * off >= 1 - ROUNDING for other in (DEFAULT, LAYERWISE))
           for name in networks]  # fmt: skip
    return sum(won) / len(won)


@over_networks
def gain_grows(
    runs: Scaling, networks: Sequence[str], small: int, large: int, over: str, off: float = 1.0
) -> float:  # fmt: skip
    """Share of the networks in which iBatch gains more on `large` nodes than on `small`."""
    grown = [runs.gain(name, large, over) * off > runs.gain(name, small, over) / off for name in networks]
    return sum(grown) / len(grown)


@over_networks
def largest_gain(
    runs: Scaling, network: str, others: Sequence[str], nodes: int, over: str, off: float = 1.0
) -> float:  # fmt: skip
    """iBatch's improvement in a network less the largest of it in the others."""
    return runs.gain(network, nodes, over) * off - max(runs.gain(name, nodes, over) for name in others) / off


@over_networks
def scales_worse(
    runs: Scaling, heavy: Sequence[str], light: Sequence[str], nodes: int, mode: str, off: float = 1.0
) -> float:
    """The least speed-up of the networks `light` less the largest of `heavy`."""
    least, most = (
        pick(runs.speedup(name, mode, nodes) for name in some) for pick, some in ((min, light), (max, heavy))
    )
    return least * off - most / off


# --- Figures 3, 4 and 7: what pulls and forward passes took


@function
def pulled(
    group: AnyGroup, part: str, of: str, over: str | None = None, over_part: str = "", experiment: str = "",
    off: float = 1.0,
) -> Outcome:  # fmt: skip
    """A part of pulls and forward pass (`Times`) of a variant over that of another one, or over another part of its."""
    sides = [(of, part, off if over else 1.0), (over or of, over_part or part, 1 / off if over else 1.0)]
    found: list[dict[int, float]] = []
    for variant, name, by in sides:
        runs = [run for run in group.used() if run["setting"] == variant and not run.get("breakdown")
                and experiment in ("", run["experiment"])]  # fmt: skip
        if not runs:
            return Outcome(reason=f"no results for {' of '.join(filter(None, (variant, experiment)))}")
        took = {run["seed"]: times(run) for run in runs}
        if None in took.values():
            return Outcome(reason=f"the workers of {variant} recorded no pulls")
        found.append({seed: wrong_by(known(one), name, by) for seed, one in took.items()})
    above, below = found
    if off == 1 and not any(below.values()):
        return Outcome(reason=f"{sides[1][1]} of {sides[1][0]} is nothing")
    return Outcome({seed: ratio(above[seed], below[seed]) for seed in sorted({*above} & {*below})})


def wrong_by(took: Times, part: str, by: float) -> float:
    """A part where times are wrong by a factor: what is a rest of two of them is off by that share of the whole."""
    value = getattr(took, part)
    if part in ("pull_s", "forward_s", "forward_end_s"):
        return value * by**0.5  # of either side, so that their ratio is wrong by the factor
    return max(0.0, value + (by - 1) * took.forward_end_s)


@function
def layer_ratio(group: ProbeGroup, layer: int | str, above: str, below: str, setting: str = DEFAULT) -> Outcome:
    """Of one layer (from 1, or the last whose name begins with `layer`): its pull over its forward time, or reverse."""
    run = _variant(group, setting)
    if isinstance(run, Outcome):
        return run
    if not (found := pipeline(run).get("profile")):
        return Outcome(reason=f"{setting} has no profile")
    names = found.get("layers") or [""] * len(found["forward_s"])
    places = [
        i for i, name in enumerate(names) if (name.startswith(layer) if isinstance(layer, str) else i + 1 == layer)
    ]
    if not places:
        return Outcome(reason="the profile has no such layer")
    took = {FORWARD: found["forward_s"][places[-1]], PULL: found["startup_s"] + found["transfer_s"][places[-1]]}
    note = f"layer {places[-1] + 1} ({names[places[-1]]})"
    return Outcome({run["seed"]: took[above] / took[below]}, note=note)


def _variant(group: ProbeGroup, variant: str) -> Summary | Outcome:
    found = next((run for run in group.summaries if run["setting"] == variant), None)
    return found or Outcome(reason=f"no results for {variant}")


# --- batches and decisions, Table 1


@function
def batches_count(group: ProbeGroup, setting: str = IBATCH) -> Outcome:
    """How many batches were decided on."""
    run = _variant(group, setting)
    if isinstance(run, Outcome):
        return run
    if not (found := pipeline(run).get("batches")):
        return Outcome(reason="the summary has no batches")
    return Outcome({run["seed"]: float(len(found))}, note=", ".join(f"[{first}, {last}]" for first, last in found))


@function
def gap_to_exact(group: ProbeGroup, which: str, modes: Sequence[str] = (SINGLE, *MODES)) -> Outcome:
    """The least or largest of executed time / least possible executed time - 1, over the runs with a profile."""
    each = [(value, run) for run in group.summaries
            if factors.of(run).get("method") in modes and (value := gap(run)) is not None]  # fmt: skip
    if not each:
        return Outcome(reason="no run has a profile")
    value, run = {"least": min, "largest": max}[which](each, key=lambda one: one[0])
    return Outcome({group.seeds()[0]: value}, note=f"{len(each)} runs; {which}: {run['setting']}, {network(run)}")


@probe_function("batching")
def of_all_profiles(group: ProbeGroup, entry: str) -> Outcome:
    """An entry of the probe's row over all random profiles: a share."""
    found = {
        run["seed"]: next(row for row in run["result"]["rows"] if row["family"] is None) for run in group.summaries
    }
    return Outcome({seed: reduce(getitem, entry.split("."), row) for seed, row in found.items()})


# --- measured


@function
def equal_weights(group: Group) -> Outcome:
    """Share of the numbers of workers at which all three modes end with the same weights, bit for bit."""

    def key(run: Summary) -> tuple[int, int]:
        return run["seed"], run["workers"]

    same: dict[int, list[bool]] = {}
    runs = sorted((run for run in group.used() if not run["breakdown"]), key=key)
    for (seed, _), of in groupby(runs, key=key):
        ends = [run.get("weights_sha256") for run in of]
        if len(ends) == len(MODES):
            same.setdefault(seed, []).append(all(ends) and len(set(ends)) == 1)
    values = {seed: sum(found) / len(found) for seed, found in same.items()}
    return Outcome(values) if values else Outcome(reason="no number of workers with all three modes")
