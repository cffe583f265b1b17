"""Figures 5 to 7 and what goes beyond the paper, as data frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.reports import factors
from repro.reports.batched_pulls import MODES, SINGLE, Scaling, batches_text, mode_of, network, pipeline, place, times
from repro.reports.ibatch.experiments import BEYOND, LARGEST, OF_FIG7, PAPER
from repro.reports.ibatch.published import Published
from repro.reports.probes import ProbeGroup
from repro.reporting.stats import DASH, TIMES, number

if TYPE_CHECKING:
    import pandas as pd

PARTS = {
    "overlap_s": "overlapping",
    "communication_s": "communication, not overlapping",
    "computation_s": "computation, not overlapping",
}


def speedups(group: ProbeGroup, paper: Published) -> pd.DataFrame:
    """A row a network, mode and number of nodes: seconds an iteration, speed-up, the paper's where it prints one."""
    import pandas as pd

    runs = Scaling.of(group.summaries)
    rows = [
        {
            "network": name,
            "mode": mode,
            "nodes": n,
            "iteration_s": runs.seconds(name, mode, n),
            "speedup": _nan(runs.speedup(name, mode, n)),
            "paper": _nan(paper.speedup(name, mode, n)),
        }
        for name in runs.networks for mode in MODES for n in runs.nodes(name, mode)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["network", "mode", "nodes", "iteration_s", "speedup", "paper"])


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def speedup_table(found: pd.DataFrame) -> pd.DataFrame:
    """A row a network and mode, a column a number of nodes; the paper's in round brackets."""
    import pandas as pd

    rows = []
    for (name, mode), own in found.groupby(["network", "mode"], sort=False):
        line = {"network": name, "mode": mode}
        for at in own.itertuples():
            printed = "" if math.isnan(at.paper) else f" (paper {at.paper:g}{TIMES})"
            line[str(at.nodes)] = (DASH if math.isnan(at.speedup) else number(at.speedup) + TIMES) + printed
        rows.append(line)
    sizes = sorted({int(n) for n in found["nodes"]})
    return pd.DataFrame(rows, columns=["network", "mode", *map(str, sizes)]).fillna(DASH)


def missing(group: ProbeGroup, family: str, networks: Sequence[str]) -> str:
    """Which variants of a figure's networks have no results yet, in words; nothing where all are there."""
    runs, found, wanted = Scaling.of(group.summaries), [], factors.known(PAPER, family)
    for name in networks:
        lacking = [label for label, of in wanted.items() if (name, *place(of)) not in runs.summaries]
        if lacking:
            some = ", ".join(lacking[:4]) + (f" and {len(lacking) - 4} more" if len(lacking) > 4 else "")
            found.append(f"{name} ({some if len(lacking) < len(wanted) else 'none'})")
    return f"Variants without results yet: {'; '.join(found)}." if found else ""


def decomposed(group: ProbeGroup, nodes: int = LARGEST, networks: Sequence[str] = OF_FIG7) -> pd.DataFrame:
    """Figure 7: a row a network and mode: seconds of overlap, of communication and of computation that do not overlap.

    Their sum is the time of pulls and forward pass; normalised: over the default's of the same network.
    """
    import pandas as pd

    runs, rows = Scaling.of(group.summaries), []
    for name in networks:
        for mode in MODES:
            if (took := runs.times(name, mode, nodes)) is not None:
                parts = {key: getattr(took, key) for key in PARTS}
                rows.append({"network": name, "mode": mode, "nodes": nodes, **parts, "total_s": sum(parts.values()),
                             "forward_end_s": took.forward_end_s})  # fmt: skip
    columns = ["network", "mode", "nodes", *PARTS, "total_s", "forward_end_s"]
    frame = pd.DataFrame(rows, columns=columns)
    base = {line.network: line.total_s for line in frame.itertuples() if line.mode == MODES[0]}
    largest = frame.groupby("network")["total_s"].max().to_dict()
    against = [base.get(name) or largest[name] for name in frame["network"]]
    return frame.assign(normalised=frame["total_s"] / against)


def decomposed_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text, milliseconds."""
    shown = found[["network", "mode"]].copy()
    for key, name in PARTS.items():
        shown[f"{name} (ms)"] = (1e3 * found[key]).map(number)
    return shown.assign(**{
        "sum (ms)": (1e3 * found["total_s"]).map(number),
        "sum, normalised": found["normalised"].map(number),
        "end of the forward pass (ms)": (1e3 * found["forward_end_s"]).map(number),
    })  # fmt: skip


# --- beyond the paper: variants "MODE PUSH"


def beyond(group: ProbeGroup) -> pd.DataFrame:
    """A row a variant: seconds an iteration, over the default with pushes after the backward pass, pulls, overlap."""
    import pandas as pd

    order = {name: place for place, name in enumerate(factors.known(PAPER, BEYOND))}
    rows = []
    for one in sorted(
        group.summaries, key=lambda c: (c["testbed"], order.get(c["setting"], 99), c["setting"], c["seed"])
    ):
        took, push = times(one), str(factors.of(one).get("push", ""))
        rows.append(
            {
                "network": network(one), "mode": mode_of(one), "push": push, "batches": batches_text(one) or DASH,
                "iteration_s": one["step"]["mean_s"],
                "pull_s": took.pull_s if took else math.nan, "overlap_s": took.overlap_s if took else math.nan,
                "placement": str(pipeline(one).get("placement") or DASH),
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    base = frame[(frame["mode"] == MODES[0]) & (frame["push"] == "after")]["iteration_s"]
    return frame.assign(over_default=(base.iloc[0] if len(base) else math.nan) / frame["iteration_s"])


def beyond_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text."""
    return found[["mode", "push", "placement", "batches"]].assign(
        **{
            "iteration (s)": found["iteration_s"].map(number),
            "over default, after": found["over_default"].map(lambda v: DASH if math.isnan(v) else number(v) + TIMES),
            "all pulls (s)": found["pull_s"].map(number),
            "overlapping (s)": found["overlap_s"].map(number),
        }
    ).rename(columns={"push": "pushes"})  # fmt: skip


def single_s(group: ProbeGroup) -> dict[str, float]:
    """Seconds an iteration of a single node, by network."""
    runs = Scaling.of(group.summaries)
    return {name: s for name in runs.networks if (s := runs.seconds(name, SINGLE, 1)) is not None}
