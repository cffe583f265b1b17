"""What was measured here, and the synchronisations, as data frames."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from repro.reports import compute
from repro.reports.batched_pulls import DEFAULT, batches_text, pipeline, sized, times
from repro.reports.compute_eager import staleness
from repro.reports.compute_ibatch import equal_weights, measured_speedup
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reporting.stats import DASH, TIMES, show, spread
from repro.reports.style import metric_name

if TYPE_CHECKING:
    import pandas as pd


def iterations(group: Group) -> pd.DataFrame:
    """A row a mode and number of workers: milliseconds an iteration with their interval over seeds."""
    import pandas as pd

    rows = []
    for name in group.covered():
        if (place := sized(group.one(name))) is None:
            continue
        found = spread(1e3 * run["step"]["mean_s"] for run in group.runs(name).values())
        rows.append({"kind": group.kind, "testbed": group.first["testbed"], "mode": place[0], "workers": place[1],
                     "seeds": found.n, "iteration_ms": found.median, "low_ms": found.low,
                     "high_ms": found.high})  # fmt: skip
    columns = ["kind", "testbed", "mode", "workers", "seeds", "iteration_ms", "low_ms", "high_ms"]
    return pd.DataFrame(rows, columns=columns).sort_values(["workers"], kind="stable").reset_index(drop=True)


def runs(group: Group) -> pd.DataFrame:
    """A row a variant: batches, time of an iteration, over the default, pulls and overlap, prediction, weights."""
    import pandas as pd

    rows = []
    for name in sorted(group.covered(), key=lambda s: (sized(group.one(s)) or ("", 0))[1]):
        summaries, (mode, workers) = list(group.runs(name).values()), sized(group.one(name)) or (name, 0)
        ratio = measured_speedup(group, workers, mode, DEFAULT).values
        rows.append(
            {
                "workers": str(workers or summaries[0]["workers"]),
                "mode": mode,
                "seeds": str(len(summaries)),
                "batches": batches_text(summaries[0]) or DASH,
                "iteration (ms)": show(spread(1e3 * c["step"]["mean_s"] for c in summaries), seeds=False),
                "throughput over default": show(spread(ratio.values()), seeds=False, unit=TIMES) if ratio else DASH,
                "all pulls (ms)": _of(summaries, "pull_s"),
                "forward (ms)": _of(summaries, "forward_s"),
                "overlapping (ms)": _of(summaries, "overlap_s"),
                "end of the forward pass (ms)": _of(summaries, "forward_end_s"),
                "predicted (ms)": _said(summaries, "executed_s"),
                "EXETime (ms)": _said(summaries, "exetime_s"),
                "least possible (ms)": _said(summaries, "exact_s"),
                "weights (SHA-256)": ", ".join(
                    dict.fromkeys(str(c.get("weights_sha256") or DASH)[:8] for c in summaries)
                ),
            }
        )
    return pd.DataFrame(rows)


def _of(summaries: list[Summary], name: str) -> str:
    known = [1e3 * getattr(took, name) for run in summaries if (took := times(run))]
    return show(spread(known), seeds=False)


def _said(summaries: list[Summary], name: str) -> str:
    known = [1e3 * value for run in summaries if (value := pipeline(run).get(name)) is not None]
    return show(spread(known), seeds=False)


def weights(group: Group) -> str:
    """Whether the three modes end with the same weights, in words."""
    found = equal_weights(group)
    if not found.values:
        return f"Weights: {found.reason}."
    same = all(value == 1 for value in found.values.values())
    word = "the same weights, bit for bit, at every number of workers" if same else "DIFFERENT WEIGHTS"
    return f"The three modes end with {word} ({found.note})."


def synchronisations(group: Group) -> pd.DataFrame:
    """A row a synchronisation: final metric, seconds an iteration, over BSP, stalls and staleness."""
    import pandas as pd

    rows = []
    for name in group.covered():
        summaries = list(group.runs(name).values())
        ratio = compute.speedup(group, name, "bsp").values if group.runs("bsp") else {}
        stalled = spread(
            100 * (c["phases"]["communicate"] + c["phases"]["wait"]) / c["step"]["mean_s"] for c in summaries
        )
        rows.append(
            {
                "synchronisation": name,
                "seeds": str(len(summaries)),
                f"final {metric_name(group.metric)}": _final(summaries),
                "iteration (ms)": show(spread(1e3 * c["step"]["mean_s"] for c in summaries), seeds=False),
                "over bsp": show(spread(ratio.values()), seeds=False, unit=TIMES) if ratio else DASH,
                "stalled (%)": show(stalled, seeds=False),
                "staleness, largest": _staleness(summaries),
            }
        )
    return pd.DataFrame(rows)


def _final(summaries: list[Summary]) -> str:
    known = [value for run in summaries if not math.isnan(value := compute.final(run))]
    return show(spread(known), decimals=4, seeds=False) if known else DASH


def _staleness(summaries: list[Summary]) -> str:
    """The most updates between the pull that a gradient was computed from and the update that it came into."""
    found = [max(ages) for run in summaries if (ages := staleness(run))]
    return str(max(found)) if found else DASH
