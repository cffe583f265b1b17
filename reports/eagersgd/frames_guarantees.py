"""What the rounds of eager runs held, as data frames: Lemma 5.1's counters, staleness by rank, the quorum spectrum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from repro.reports import compute, compute_eager, factors
from repro.reports.eagersgd.frames_training import QUORUM
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reporting.stats import DASH, number, show, spread
from repro.reports.style import metric_name

if TYPE_CHECKING:
    import pandas as pd

MOST = 8  # staleness from which a histogram's bars are put together


def counters(group: Group) -> pd.DataFrame:
    """A row an eager variant: gradients by what became of them, what is conserved, NAP, results missed and repeated."""
    import pandas as pd

    rows = []
    for name in group.covered():
        runs = [run for _, _, run in compute_eager.eager(group, name)]
        if not runs:
            continue

        def share(key: str, of: str, runs: list = runs) -> str:
            """A counter's percentage of another."""
            found = [100 * c["counters"].get(key, 0.0) / c["counters"][of] for c in runs if c["counters"].get(of)]
            return show(spread(found), seeds=False) if found else DASH

        local = sum(run.get("ranks", run["workers"]) * run["iterations"] for run in runs)
        rows.append(
            {
                "setting": name,
                "seeds": str(len(runs)),
                "local gradients": f"{local:,}",
                **{key: f"{_total(runs, key):,}" for key in ("accepted", "pending", "dropped")},
                "accounted for": number(sum(map(compute_eager.conserved_share, runs)) / len(runs), 7),
                "NAP": show(spread(compute_eager.active_share(c) * c.get("ranks", c["workers"]) for c in runs),
                            seeds=False),
                "of ranks": str(runs[0].get("ranks", runs[0]["workers"])),
                "null (%)": share("null", "rounds"),
                "with a stale gradient (%)": share("stale", "rounds"),
                "results missed (%)": share("missed", "rounds"),
                "results repeated (%)": share("repeated", "rounds"),
                "model synchronisations": f"{_total(runs, 'syncs'):,}",
                **_ages(runs),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _total(runs: list, name: str) -> int:
    return round(sum(run["counters"].get(name, 0.0) for run in runs))


def _ages(runs: list) -> dict[str, str]:
    """Mean and largest staleness over the seeds, and what one injected delay explains."""
    total: dict[int, int] = {}
    for run in runs:
        for age, count in compute_eager.staleness(run).items():
            total[age] = total.get(age, 0) + count
    explained = {compute_eager.rounds_of_a_delay(run) for run in runs} - {None}
    counted = sum(total.values())
    return {
        "mean staleness (rounds)": number(sum(a * n for a, n in total.items()) / counted) if counted else DASH,
        "largest": str(max(total)) if counted else DASH,
        "one delay explains": str(max(explained)) if explained else DASH,
    }


def staleness(group: Group) -> pd.DataFrame:
    """One row a variant, rank and staleness: how many of the rank's gradients, all seeds, and which share of them."""
    import pandas as pd

    rows = []
    for name in group.covered():
        counts: dict[tuple[int, int], int] = {}
        for run in group.runs(name).values():
            for rank, of_rank in enumerate(run.get("staleness") or ()):
                for age, count in of_rank.items():
                    counts[rank, int(age)] = counts.get((rank, int(age)), 0) + int(count)
        totals: dict[int, int] = {}
        for (rank, _), count in counts.items():
            totals[rank] = totals.get(rank, 0) + count
        rows += [
            {"kind": group.kind, "setting": name, "rank": rank, "staleness": age, "gradients": count,
             "share": count / totals[rank]}
            for (rank, age), count in sorted(counts.items())
        ]  # fmt: skip
    columns = ["kind", "setting", "rank", "staleness", "gradients", "share"]
    found = pd.DataFrame(rows, columns=columns)
    stale = found.groupby("setting")["staleness"].transform("max") if len(found) else found["staleness"]
    eager = [name for name in group.covered() if group.one(name)["strategy"].startswith("eager")]
    return found[(stale > 0) | found["setting"].isin(eager)].reset_index(drop=True)


def quorum(group: Group) -> pd.DataFrame:
    """One row a variant and seed of the spectrum: q, step time, NAP over ranks, mean staleness, metric, loss.

    q is a factor; solo is 1, a synchronous allreduce all ranks; majority stands at the middle of the ranks.
    """
    import pandas as pd

    rows = []
    for name in group.covered():
        for seed, run in group.runs(name).items():
            ranks = run.get("ranks", run["workers"])
            ages = compute_eager.staleness(run)
            counted = compute_eager.counters(run)
            rows.append(
                {
                    "kind": group.kind,
                    "setting": name,
                    "seed": seed,
                    "q": _quorum(run, ranks),
                    "ranks": ranks,
                    "spectrum": QUORUM in factors.of(run),
                    "step_ms": 1e3 * compute.iteration_s(run),
                    "nap": ranks * compute_eager.active_share(run) if counted else math.nan,
                    "mean_staleness": sum(a * n for a, n in ages.items()) / sum(ages.values()) if ages else math.nan,
                    "metric": compute.final(run),
                }
            )
    found = pd.DataFrame(rows)
    return found.sort_values(["q", "setting", "seed"], ignore_index=True) if len(found) else found


def _quorum(run: Summary, ranks: int) -> float:
    if q := factors.of(run).get(QUORUM):
        return float(q)
    return {"eager_solo": 1.0, "eager_majority": (ranks + 1) / 2}.get(run["strategy"], float(ranks))


def quorum_table(found: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A row a variant, over seeds."""
    import pandas as pd

    rows = []
    for name, some in found.groupby("setting", sort=False):
        nap, age, score = (some[column].dropna() for column in ("nap", "mean_staleness", "metric"))
        rows.append(
            {
                "setting": name,
                "q": number(some["q"].iloc[0]),
                "of ranks": str(some["ranks"].iloc[0]),
                "seeds": str(len(some)),
                "step (ms)": show(spread(some["step_ms"]), seeds=False),
                "NAP": show(spread(nap), seeds=False),
                "mean staleness (rounds)": show(spread(age), seeds=False),
                f"final {metric_name(metric)}": show(spread(score), decimals=4, seeds=False),
            }
        )
    return pd.DataFrame(rows)


def worth(group: Group) -> str:
    """The line on model synchronisation where a group has runs with it and without."""
    found = compute_eager.synchronisation_gain(group)
    values = [value for value in found.values.values() if not math.isnan(value)]
    if not values:
        return ""
    return (
        f"With model synchronisation minus without ({found.note}), {metric_name(group.metric)}: "
        f"{show(spread(values), decimals=4)}."
    )
