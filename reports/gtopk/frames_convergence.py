"""Loss and metric of training runs as data frames and tables (Figures 5, 6, 7 and 12, conservation, beyond)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from repro.reports import compute, compute_sparse, curves, frames
from repro.reports.groups import Group
from repro.reports.gtopk.experiments import BASE
from repro.reporting.stats import DASH, TIMES, Spread, number, show, show_target, spread
from repro.reports.style import metric_name

if TYPE_CHECKING:
    import pandas as pd


def runs(group: Group, over: str = BASE) -> pd.DataFrame:
    """A row a variant: final loss and metric, both against `over`, time, speed-up, bytes, gradients lost."""
    import pandas as pd

    falling, metric = group.metric in curves.FALLING, metric_name(group.metric)
    goals = [] if group.timing_only else frames.targets(group)
    rows = []
    for name in group.covered():
        summaries = list(group.runs(name).values())
        line = {"setting": name, "seeds": str(len(summaries))}
        line["final training loss"] = _show(_last_losses(summaries))
        line[f"loss gap to {over}"] = _paired(group, name, over, compute_sparse.loss_gap, 3)
        line[f"final {metric}"] = show(spread(map(compute.final, summaries)), decimals=1 if falling else 4, seeds=False)
        against = compute_sparse.metric_ratio if falling else compute.metric_gap
        line[f"{metric}, {'over' if falling else 'minus'} {over}"] = _paired(
            group, name, over, against, 3 if falling else 4
        )
        line["iteration (ms)"] = show(spread(1e3 * c["step"]["mean_s"] for c in summaries), seeds=False)
        line[f"speed-up over {over}"] = _speedup(group, name, over)
        for goal in goals:
            line[f"to {metric} {goal} (s)"] = show_target(
                [compute.target_s(c, goal) for c in summaries if goal in c["targets"]]
            )
        line["sent (kB an iteration)"] = number(spread(c["bytes_sent"] for c in summaries).median / 1e3, 4)
        rows.append(line)
    return pd.DataFrame(rows).astype(str)


def _last_losses(summaries: list) -> Spread:
    return spread(found[-1] for run in summaries if (found := compute_sparse.losses(run)))


def _show(found: Spread) -> str:
    return show(found, seeds=False)


def _paired(group: Group, name: str, over: str, function, decimals: int) -> str:
    if name == over or not group.runs(over):
        return DASH
    values = [value for value in function(group, name, over).values.values() if not math.isnan(value)]
    return show(spread(values), decimals=decimals, seeds=False) if values else DASH


def _speedup(group: Group, name: str, over: str) -> str:
    if not group.runs(over):
        return DASH
    values = compute.speedup(group, name, over).values
    return show(spread(values.values()), seeds=False, unit=TIMES) if values else DASH


def masses(group: Group) -> pd.DataFrame:
    """A row a variant with counters: what was sent, dropped at merges, lost; shares of what was sent."""
    import pandas as pd

    rows = []
    for name in group.covered():
        counters = [run.get("counters") or {} for run in group.runs(name).values()]
        found = [c for c in counters if c.get("sent_mass")]
        if not found:
            continue
        line = {"setting": name, "seeds": str(len(found)), "sent": _show(spread(c["sent_mass"] for c in found))}
        for key, label in (("dropped_mass", "dropped at merges"), ("lost_mass", "lost")):
            shares = spread(100 * c.get(key, 0.0) / c["sent_mass"] for c in found)
            line[label] = _show(spread(c.get(key, 0.0) for c in found))
            line[f"{label}, % of sent"] = _show(shares)
        rows.append(line)
    shares = [f"{label}{what}" for label in ("dropped at merges", "lost") for what in ("", ", % of sent")]
    columns = ["setting", "seeds", "sent", *shares]
    return pd.DataFrame(rows, columns=columns)
