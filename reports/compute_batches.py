"""How ours is computed for iBatch's claims about layers, batches and decisions (Figures 3 and 4, Table 1, the gap)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from repro.reporting.stats import number
from repro.reports.batched_pulls import IBATCH, gap, mode_of, network, pipeline, profile, times
from repro.reports.compute import Outcome, function
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

FULLY_CONNECTED = "fc"
PULL, FORWARD = "pull", "forward"


def _run(group: ProbeGroup, variant: str) -> Summary | None:
    return next((run for run in group.summaries if run["setting"] == variant), None)


def _layer(group: ProbeGroup, variant: str, number_of: Callable[[Mapping[str, Any]], tuple[float, str] | None]
           ) -> Outcome:  # fmt: skip
    """(number, note) of a variant's profile."""
    if (run := _run(group, variant)) is None:
        return Outcome(reason=f"no results for {variant}")
    if (found := profile(run)) is None:
        return Outcome(reason=f"{variant} has no profile")
    if (value := number_of(found)) is None:
        return Outcome(reason="the profile has no such layer")
    return Outcome({run["seed"]: value[0]}, note=value[1])


def seconds_of(found: Mapping[str, Any], layer: int, what: str) -> float:
    """Of a layer (from 0): its pull alone, startup included, or its forward computation."""
    return found["forward_s"][layer] if what == FORWARD else found["startup_s"] + found["transfer_s"][layer]


@function
def layer_ratio(group: ProbeGroup, layer: int | str, above: str, below: str, setting: str = "default") -> Outcome:
    """Of one layer (from 1, or the last whose name begins with `layer`): its pull over its forward time, or reverse."""

    def ratio(found: Mapping[str, Any]) -> tuple[float, str] | None:
        names = found.get("layers") or []
        if isinstance(layer, str):
            places = [place for place, name in enumerate(names) if name.startswith(layer)]
        else:
            places = [layer - 1] if layer <= len(found["forward_s"]) else []
        if not places or not seconds_of(found, places[-1], below):
            return None
        place = places[-1]
        one, base = (seconds_of(found, place, what) for what in (above, below))
        name = f" ({names[place]})" if names else ""
        return one / base, f"layer {place + 1}{name}: {number(1e3 * one)} ms {above}, {number(1e3 * base)} ms {below}"

    return _layer(group, setting, ratio)


@function
def layers_vary(group: ProbeGroup, setting: str = "default") -> Outcome:
    """The lesser of two shares of the layers with parameters: those that pull longer than they compute, and others."""

    def share(found: Mapping[str, Any]) -> tuple[float, str] | None:
        places = [i for i, seconds in enumerate(found["transfer_s"]) if seconds > 0]
        if not places:
            return None
        longer = [i + 1 for i in places if seconds_of(found, i, PULL) > seconds_of(found, i, FORWARD)]
        return min(len(longer), len(places) - len(longer)) / len(places), f"pulls take longer in {longer}"

    return _layer(group, setting, share)


@function
def batches_count(group: ProbeGroup, setting: str = IBATCH) -> Outcome:
    """How many batches were decided on."""
    if (run := _run(group, setting)) is None:
        return Outcome(reason=f"no results for {setting}")
    if not (found := pipeline(run).get("batches")):
        return Outcome(reason="the summary has no batches")
    note = ", ".join(f"[{first}, {last}]" for first, last in found[:8]) + (" ..." if len(found) > 8 else "")
    return Outcome({run["seed"]: float(len(found))}, note=note)


@function
def forward_ends(group: ProbeGroup, over: str, setting: str = IBATCH) -> Outcome:
    """Seconds to the end of the forward pass, of `over` over those of a variant."""
    return _variants(group, setting, over, "forward_end_s")


@function
def pulls_of(group: ProbeGroup, setting: str, over: str) -> Outcome:
    """Seconds of all pulls of an iteration, of `setting` over those of `over`."""
    return _variants(group, over, setting, "pull_s")


def _variants(group: ProbeGroup, below: str, above: str, name: str) -> Outcome:
    base, one = _run(group, below), _run(group, above)
    if base is None or one is None:
        missing = [s for s, run in ((below, base), (above, one)) if run is None]
        return Outcome(reason=f"no results for {', '.join(missing)}")
    found = times(base), times(one)
    if None in found or not getattr(found[0], name):
        return Outcome(reason="the workers recorded no pulls")
    return Outcome({base["seed"]: getattr(found[1], name) / getattr(found[0], name)})


@function
def parameters_m(group: ProbeGroup, of: str) -> Outcome:
    """Millions of parameters of a network (as experiments' names end)."""
    run = next((run for run in group.summaries if network(run) == of), None)
    if run is None:
        return Outcome(reason=f"no results for {of}")
    count = run["model"].get("parameters")
    if not count:
        return Outcome(reason="the summary has no count")
    return Outcome({run["seed"]: 1e-6 * count}, note=f"{run['model']['name']}: {count:,} parameters")


@function
def least_gap(group: ProbeGroup) -> Outcome:
    """The least of executed time / least possible executed time - 1, over all runs with a profile."""
    each = {id(run): (value, run) for run in group.summaries if (value := gap(run)) is not None}
    if not each:
        return Outcome(reason="no run has a profile")
    value, run = min(each.values(), key=lambda one: one[0])
    return Outcome({group.seeds()[0]: value}, note=f"{len(each)} runs; least: {run['setting']}, {run['experiment']}")


@function
def largest_gap(group: ProbeGroup, setting: str = IBATCH) -> Outcome:
    """The largest of them, over the runs of a mode."""
    each = [(value, run) for run in group.summaries
            if mode_of(run) == setting and (value := gap(run)) is not None]  # fmt: skip
    if not each:
        return Outcome(reason=f"no run of {setting} has a profile")
    value, run = max(each, key=lambda one: one[0])
    return Outcome({group.seeds()[0]: value}, note=f"{len(each)} runs; largest: {run['setting']}, {network(run)}")
