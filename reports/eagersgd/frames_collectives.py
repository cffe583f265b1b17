"""Figure 9 as data frames: latency and number of active processes of the partial collectives, by message size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from repro.reports.compute_imbalance import nap
from repro.reports.eagersgd.published import Published
from repro.reports.probes import ProbeGroup
from repro.reporting.stats import DASH, TIMES, number, spread

if TYPE_CHECKING:
    import pandas as pd

NAMES = {
    "allreduce": "MPI_Allreduce",
    "recursive_doubling": "recursive doubling",
    "solo": "solo",
    "majority": "majority",
}


def latencies(groups: Mapping[str, ProbeGroup]) -> pd.DataFrame:
    """One row a kind, collective, world and message: seconds (mean, least, largest), NAP, skew; over MPI_Allreduce."""
    import pandas as pd

    rows = []
    for kind, group in groups.items():
        for run in group.summaries:
            rows += [
                {
                    "kind": kind,
                    "seed": run["seed"],
                    "collective": row["collective"],
                    "ranks": row["ranks"],
                    "bytes": row["bytes"],
                    "skew_s": row["skew_s"],
                    "calls": row["calls"],
                    **{f"latency_{name}_s": row["latency_s"][name] for name in ("mean", "min", "max")},
                    **{f"nap_{name}": nap(row)[name] for name in ("mean", "min", "max")},
                }
                for row in run["result"]["rows"]
            ]
    found = pd.DataFrame(rows)
    keys = ["kind", "seed", "ranks", "bytes"]
    base = found[found["collective"] == "allreduce"].drop_duplicates(keys, keep="last")
    base = base.set_index(keys)["latency_mean_s"].rename("allreduce_s")
    found = found.join(base, on=keys)
    found["reduction"] = found.pop("allreduce_s") / found["latency_mean_s"]
    return found.sort_values(["kind", "ranks", "collective", "bytes", "seed"], ignore_index=True)


def expected(ranks: int) -> dict[str, dict[str, float]]:
    """Of linear skew alone: NAP, and the mean wait of a rank in units of the largest skew.

    Ranks come at 0, 1 .. P-1 (units of skew / (P-1)). MPI_Allreduce waits for the last, (P-1)/2 in the mean; solo for
    nobody; majority for a rank drawn uniformly: (P^2-1)/6P in the mean, and (P+1)/2 ranks are there in time.
    """
    P = ranks
    return {
        "allreduce": {"nap": float(P), "wait": 0.5},
        "recursive_doubling": {"nap": float(P), "wait": 0.5},
        "solo": {"nap": 1.0, "wait": 0.0},
        "majority": {"nap": (P + 1) / 2, "wait": (P * P - 1) / (6 * P) / (P - 1)},
    }


def table(found: pd.DataFrame, paper: Published) -> pd.DataFrame:
    """A row a kind, world and collective: latency, how much less than MPI_Allreduce, NAP; the paper's first."""
    import pandas as pd

    place, row = "Figure 9", "microbenchmark"
    P = int(paper.value(place, row, "all", "processes"))
    rows = [
        {"kind": "paper", "ranks": str(P), "collective": name, "latency (ms)": DASH, "least, largest (ms)": DASH,
         "reduction": paper.text(place, row, name, "latency reduction over MPI_Allreduce") + TIMES,
         "NAP": paper.text(place, row, name, "NAP"), "NAP expected": DASH, "largest skew (ms)": DASH}
        for name in ("solo", "majority")
    ]  # fmt: skip
    for (kind, ranks, name), some in found.groupby(["kind", "ranks", "collective"], sort=False):
        active = expected(int(ranks)).get(name, {}).get("nap")
        if active is None and name.startswith("quorum "):
            active = float(name.removeprefix("quorum "))
        rows.append(
            {
                "kind": kind,
                "ranks": str(ranks),
                "collective": NAMES.get(name, name),
                "latency (ms)": number(1e3 * some["latency_mean_s"].mean()),
                "least, largest (ms)": f"{number(1e3 * some['latency_min_s'].min())}, "
                f"{number(1e3 * some['latency_max_s'].max())}",
                "reduction": DASH if name == "allreduce" else _reduction(some),
                "NAP": number(some["nap_mean"].mean()),
                "NAP expected": DASH if active is None else number(active),
                "largest skew (ms)": number(1e3 * some["skew_s"].max()),
            }
        )
    return pd.DataFrame(rows).rename(columns={"reduction": "MPI_Allreduce over it, mean over sizes"})


def _reduction(some: pd.DataFrame) -> str:
    """Mean over the sizes of each seed; median over seeds."""
    means = some.dropna(subset=["reduction"]).groupby("seed")["reduction"].mean()
    return number(spread(means).median) + TIMES if len(means) else DASH


def medians(found: pd.DataFrame) -> pd.DataFrame:
    """Over the seeds: one row a kind, world, collective and message."""
    columns = ["latency_mean_s", "latency_min_s", "latency_max_s", "nap_mean", "nap_min", "nap_max"]
    return found.groupby(["kind", "ranks", "collective", "bytes"], sort=False)[columns].median().reset_index()
