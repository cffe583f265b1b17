"""How ours is computed for claims about Table 1 and Figure 1, where no verb reaches.

Functions over rows take a ProbeGroup of the runs of all rows, or of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.reporting.evaluate import Outcome
from repro.reports.compute import function, rates
from repro.reports.evidence import of_run
from repro.reports.pipedream.stages import BSP, PIPEDREAM, Rates, configuration, fastest, shape
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd


def _one(group: ProbeGroup, value: float | None, reason: str) -> Outcome:
    """A number of all runs together; several seeds of a timing are one."""
    return Outcome({group.seeds()[0]: value}) if value is not None else Outcome(reason=reason)


# --- Table 1


@function
def configuration_found(group: ProbeGroup, printed: str) -> Outcome:
    """1 where the partitioner found the printed configuration, 0.5 another one of the same kind, else 0; of one row."""
    found = next(filter(None, (configuration(run) for run in group.summaries if run["setting"] == PIPEDREAM)), "")
    agreement = 1.0 if found == printed else 0.5 if found and shape(found) == shape(printed) else 0.0
    return _one(group, agreement if found else None, "no configuration was found")


def over(of: Rates, row: str, variant: str, bases: Sequence[str]) -> float | None:
    """A variant's rate over that of the fastest of `bases`; None where one of them was not run."""
    base = fastest(of, row, bases)
    return of[row, variant] / base if base and (row, variant) in of else None


@function
def across(group: ProbeGroup, row: str, other_row: str, variant: str, per: str | list[str]) -> Outcome:
    """A variant's rate over that of `per` (of several the fastest) in one row, over the same in another."""
    of, bases = rates(group.summaries), [per] if isinstance(per, str) else per
    one, other = (over(of, each, variant, bases) for each in (row, other_row))
    return _one(group, one / other if one and other else None, f"not all of {variant} and {', '.join(bases)} were run")


@function
def gain_follows_overhead(group: ProbeGroup) -> Outcome:
    """Spearman's correlation, over Table 1's rows, of BSP's stalled share and PipeDream's speed-up over BSP."""
    import pandas as pd

    of = rates(group.summaries)
    runs = [run for run in group.summaries if run["setting"] == BSP and run["experiment"].startswith("table1-")]
    pairs = [(of_run(run)["stalled"], over(of, run["experiment"], PIPEDREAM, [BSP])) for run in runs]
    ranks = pd.DataFrame(pairs, columns=["stalled", "gain"]).dropna().rank()  # ties share theirs
    found = float(ranks.corr().loc["stalled", "gain"]) if len(ranks) >= 4 and ranks.nunique().min() > 1 else None
    return _one(group, found, "fewer than four rows that differ")


# --- Figure 1: communication overhead by model, GPU (a testbed) and number of workers


def _stalled(group: ProbeGroup) -> pd.DataFrame:
    """A row a run with workers that may have to wait for each other."""
    import pandas as pd

    return pd.DataFrame([of_run(run) for run in group.summaries]).query("workers > 1")


@function
def overhead_over(group: ProbeGroup, heavy: Sequence[str], light: Sequence[str], testbed: str) -> Outcome:
    """Least stalled share of `heavy` models minus the largest of `light` on a testbed, the least over workers."""
    found = _stalled(group).query("testbed == @testbed").pivot(index="workers", columns="model", values="stalled")
    found = found.reindex(columns=[*heavy, *light]).dropna()
    each = found[list(heavy)].min(axis=1) - found[list(light)].max(axis=1)
    return _one(group, float(each.min()) if len(each) else None, "no number of workers that all models have")


@function
def overhead_grows(group: ProbeGroup, along: str, each: Sequence[str]) -> Outcome:
    """Share of the series (one for each value of the columns `each`) whose stalled share never falls along a column;
    the testbeds' names sort by their GPUs' speed."""
    series = [of["stalled"] for _, of in _stalled(group).sort_values(along).groupby(list(each)) if len(of) > 1]
    growing = [of for of in series if not (of.diff() < -1e-9).any()]
    return _one(group, len(growing) / len(series) if series else None, "nothing to compare")
