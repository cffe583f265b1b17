"""How ours is computed for claims about Table 1 and Figure 1, where no verb reaches."""

from __future__ import annotations

from collections.abc import Sequence

from repro.answers.claims.compute import function, rates
from repro.answers.claims.evaluate import Outcome
from repro.answers.tables.runs import Runs
from repro.reports.pipedream.stages import BSP, MIXED, PIPEDREAM, Rates, configuration, shape


def _one(group: Runs, value: float | None, reason: str) -> Outcome:
    """A number of all runs together; several seeds of a timing are one."""
    return Outcome({group.first["seed"]: value}) if value is not None else Outcome(reason=reason)


# --- Table 1


@function
def configuration_found(group: Runs, printed: str) -> Outcome:
    """1 where the partitioner found the printed configuration, 0.5 another one of the same kind, else 0; of one row."""
    configurations = (configuration(run) for run in group.records.values() if run["variant"] == PIPEDREAM)
    ours = next(filter(None, configurations), "")
    agreement = 1.0 if ours == printed else 0.5 if ours and shape(ours) == shape(printed) else 0.0
    return _one(group, agreement if ours else None, "no configuration was found")


@function
def unmixed(group: Runs) -> Outcome:
    """Rows of Table 1 whose configuration does not mix data, model and pipeline parallelism."""
    runs = [run for run in group.records.values() if run["variant"] == PIPEDREAM]
    found = {run["experiment"]: configuration(run) for run in runs if run["experiment"].startswith("table1-")}
    kinds = [shape(config) for config in found.values() if config]
    several = float(sum(kind != MIXED for kind in kinds)) if len(kinds) > 1 else None
    return _one(group, several, "fewer than two rows with a configuration")


def over(of: Rates, row: str, variant: str, base: str) -> float | None:
    """A variant's rate over that of another; None where one of them was not run."""
    return of[row, variant] / of[row, base] if {(row, variant), (row, base)} <= of.keys() else None


@function
def gain_follows_overhead(group: Runs) -> Outcome:
    """Spearman's correlation, over Table 1's rows, of BSP's stalled share and PipeDream's speed-up over BSP."""
    of, bsp = rates(group), group.frame[group.frame["variant"] == BSP]
    pairs = bsp[bsp["experiment"].str.startswith("table1-")][["experiment", "stalled"]]
    pairs = pairs.assign(gain=[over(of, row, PIPEDREAM, BSP) for row in pairs["experiment"]])
    ranks = pairs[["stalled", "gain"]].astype(float).dropna().rank()  # ties share theirs
    found = float(ranks.corr().loc["stalled", "gain"]) if len(ranks) >= 4 and ranks.nunique().min() > 1 else None
    return _one(group, found, "fewer than four rows that differ")


# --- Figure 1: communication overhead by model, GPU (a testbed) and number of workers


@function
def overhead_grows(group: Runs, along: str, each: Sequence[str]) -> Outcome:
    """Share of the series (one for each value of the columns `each`) whose stalled share never falls along a column;
    the testbeds' names sort by their GPUs' speed."""
    several = group.frame.query("workers > 1").sort_values(along)
    series = [of["stalled"] for _, of in several.groupby(list(each)) if len(of) > 1]
    growing = [of for of in series if not (of.diff() < -1e-9).any()]
    return _one(group, len(growing) / len(series) if series else None, "nothing to compare")
