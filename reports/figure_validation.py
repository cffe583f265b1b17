"""Drawing of the validation: simulated against measured step times, and their error by message size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.frames_validation import MEDIAN_GOAL, P95_GOAL

if TYPE_CHECKING:
    import pandas as pd


def scatter(found: pd.DataFrame, title: str) -> Any:
    """Left: simulated (y) against measured (x) step time; right: the error against the gradient's bytes."""
    plt, sns = style.plotting()
    figure, (equal, error) = plt.subplots(1, 2, figsize=(12.5, 6), layout="constrained", width_ratios=[1.1, 1])
    times = found[["measured_s", "simulated_s"]].to_numpy()
    ends = [1e3 * times.min() / 1.4, 1e3 * times.max() * 1.4]
    for goal, shade in ((P95_GOAL, 0.12), (MEDIAN_GOAL, 0.22)):
        low, high = ([(1 + sign * goal) * end for end in ends] for sign in (-1, 1))
        equal.fill_between(ends, low, high, color="#999999", alpha=shade, linewidth=0, label=f"within {goal:.0%}")
        error.axhspan(-100 * goal, 100 * goal, color="#999999", alpha=shade, linewidth=0)
    equal.plot(ends, ends, color="#777777", linestyle="--", linewidth=1, label="equal")
    variants = tuple(dict.fromkeys(found["setting"]))
    for i, variant in enumerate(variants):
        own, look = found[found["setting"] == variant], style.look(variant, variants)
        point = {"color": look["color"], "marker": look["marker"], "s": 24, "alpha": 0.7, "edgecolor": "white",
                 "linewidth": 0.4, "zorder": 3}  # fmt: skip
        equal.scatter(1e3 * own["measured_s"], 1e3 * own["simulated_s"], label=variant, **point)
        aside = 1 + 0.035 * (i - len(variants) / 2)  # so that strategies of one size stand beside each other
        error.scatter(own["bytes"] * aside, 100 * own["error"], **point)
    equal.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal",
              xlabel="measured step time (ms)", ylabel="simulated step time (ms)")  # fmt: skip
    error.axhline(0, color="#777777", linestyle="--", linewidth=1)
    error.set(xscale="log", xlabel="bytes of the gradient", ylabel="simulated over measured, less 1 (%)")
    equal.legend(loc="upper left", fontsize=7)
    for axis in (equal, error):
        sns.despine(ax=axis)
    style.titled(figure, title)
    return figure
