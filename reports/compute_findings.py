"""How ours is computed for the findings about K and about what lossy compression does to gradients and parameters."""

from __future__ import annotations

from repro.reporting.stats import number, spread
from repro.reports import factors
from repro.reports.compute import Outcome, _paired, _ratio, final, function, metric_gap
from repro.reports.groups import Group
from repro.reports.loading import Summary


def step_s(run: Summary) -> float:
    """Median seconds of an iteration: the steady state, without a pipeline's fill and drain."""
    return run["step"].get("median_s", run["step"]["mean_s"])


def K_variants(group: Group) -> dict[int, str]:
    """K -> its variant, of those that have results and a constant learning rate."""
    known = {name: factors.of(group.one(name)) for name in group.covered()}
    return {
        int(varied["strategy.K"]): name
        for name, varied in known.items()
        if "strategy.K" in varied and "rate" not in varied
    }


@function
def best_K(group: Group) -> Outcome:
    """Median step time of K = 2 / that of the fastest K above 2: at most 1 where larger K gains nothing."""
    known = K_variants(group)
    larger = [name for K, name in known.items() if K > 2]
    if 2 not in known or not larger:
        return Outcome(reason="no results for K = 2 and a larger K")
    best = min(larger, key=lambda name: spread(map(step_s, group.runs(name).values())).median)
    return _paired(
        group,
        [known[2], best],
        lambda two, more: _ratio(step_s(two), step_s(more)),
        note=f"fastest above 2: {best} (of {', '.join(larger)})",
    )


@function
def staleness_harm(group: Group, setting: str, over: str) -> Outcome:
    """Final metric of `setting` (a larger K) minus that of `over`, seed by seed; below 0: staleness harms."""
    return metric_gap(group, setting, over)


@function
def tolerance(group: Group, codec: str = "T") -> Outcome:
    """(metric lost by compressing parameters) - (metric lost by compressing gradients); above 0: parameters lose more.

    codec: T (truncation) or Q (quantization), as in the variants' names.
    """
    names = ["Gradients", f"Gradients + {codec}", "Parameters", f"Parameters + {codec}"]
    found = _paired(group, names, lambda g, gc, p, pc: (final(p) - final(pc)) - (final(g) - final(gc)))
    if not found.values:
        return found
    lost = []
    for what in ("Gradients", "Parameters"):
        pair = _paired(group, [what, f"{what} + {codec}"], lambda plain, lossy: final(plain) - final(lossy))
        lost.append(f"{what.lower()}: {number(spread(pair.values.values()).median)}")
    return Outcome(found.values, note=f"lost by compressing {', '.join(lost)}")
