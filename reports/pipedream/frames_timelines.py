"""Figures 2, 3, 4, 6 and 8: recorded intervals as boxes with minibatch numbers, and what is counted in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.reports import schedules
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.schedules import COMPUTING, MAIN, PASSES
from repro.reporting.stats import DASH, number

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["kind", "setting", "seed", "machine", "line", "name", "minibatch", "start_ms", "end_ms"]
STALL, COMMUNICATION = "stall", "communication"
MOST = 48  # boxes of a machine that are drawn; the CSV and the Chrome trace have all


def recorded(group: Group, variant: str) -> Summary | None:
    """The first seed's run of a variant that has recorded intervals."""
    return next((run for run in group.phase_runs(variant).values() if run.get("trace")), None)


def boxes(group: Group, variant: str) -> pd.DataFrame:
    """A row a box: machine and minibatch counted from 1, milliseconds from the first one.

    line: `main` (passes, updates, and stalls: blocked on a transfer or on others) or `communication` (all other lines).
    """
    import pandas as pd

    if (run := recorded(group, variant)) is None:
        return pd.DataFrame(columns=COLUMNS)
    found = schedules.boxes(run["trace"])
    zero = min(box.start for box in found)
    rows = []
    for box in found:
        if box.line != MAIN:
            line, name = COMMUNICATION, box.name
        elif box.name in COMPUTING:
            line, name = MAIN, box.name
        elif box.name in ("communicate", "wait"):
            line, name = MAIN, STALL
        else:
            continue
        number_of = box.minibatch + 1 if box.minibatch is not None else None
        rows.append((group.kind, variant, run["seed"], box.rank + 1, line, name, number_of,
                     1e3 * (box.start - zero), 1e3 * (box.end - zero)))  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS).astype({"minibatch": "Int64"})


def chrome(group: Group, variant: str) -> pd.DataFrame:
    """All recorded intervals for a Chrome trace, minibatches in the names."""
    import pandas as pd

    found = schedules.boxes(recorded(group, variant)["trace"])
    zero = min(box.start for box in found)
    rows = [
        (box.rank, box.line, box.name if box.minibatch is None else f"{box.name} {box.minibatch + 1}",
         1e3 * (box.start - zero), 1e3 * (box.end - zero))
        for box in found
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["rank", "line", "name", "start_ms", "end_ms"])


def window(found: pd.DataFrame) -> float:
    """Where the drawing ends (ms): at the end, or where a machine has had as many passes as can be read."""
    passes = found[found["name"].isin(PASSES)]
    ends = [own["end_ms"].nsmallest(MOST).max() for _, own in passes.groupby("machine") if len(own) > MOST]
    return float(min(ends)) if ends else float(found["end_ms"].max())


def schedule(group: Group, variant: str) -> pd.DataFrame:
    """A row a machine: its passes in order as text, and what is counted in them."""
    import pandas as pd

    run = recorded(group, variant)
    rows = []
    for rank in schedules.ranks(run):
        of_rank = schedules.passes(run, rank)
        order = " ".join(f"{box.name[0].upper()}{box.minibatch + 1}" for box in of_rank if box.minibatch is not None)
        between = schedules.interleaved(run, rank)
        first = schedules.admitted(run, rank)
        rows.append(
            {
                "machine": str(rank + 1),
                "passes": order if len(order) < 100 else order[:100].rsplit(" ", 1)[0] + " ...",
                "forward passes before the first backward pass": DASH if first is None else str(first),
                "updates between both passes": number(sum(between) / len(between)) if between else DASH,
            }
        )
    return pd.DataFrame(rows)
