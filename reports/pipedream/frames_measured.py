"""What was measured here, weight versions, and the memory of a stage, as data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.reports import compute
from repro.reports.compute_pipelines import MEMORY, memory_ratio, rate_ratio
from repro.reports.groups import Group, optimizer
from repro.reports.loading import Summary
from repro.reports.pipedream.frames_table1 import cuts
from repro.reports.pipelines import ALLREDUCE, BSP, configuration, overhead, pipeline, samples_s
from repro.reporting.stats import DASH, TIMES, number, show, spread
from repro.reports.style import metric_name

if TYPE_CHECKING:
    import pandas as pd

PARTS = {"weights_bytes": "weights", "stash_bytes": "stashed versions", "activation_bytes": "activations"}


def throughput(group: Group, base: str = BSP) -> pd.DataFrame:
    """A row a variant: samples a second over seeds, and over the base's of the same seed."""
    import pandas as pd

    rows = []
    for name in group.covered():
        found = spread(map(samples_s, group.runs(name).values()))
        ratio = spread(rate_ratio(group, name, base).values.values())
        rows.append(
            {
                "kind": group.kind,
                "setting": name,
                "configuration": configuration(next(iter(group.runs(name).values()))),
                "seeds": found.n,
                "samples_s": found.median,
                "over_bsp": ratio.median,
                "low": ratio.low,
                "high": ratio.high,
            }
        )
    return pd.DataFrame(rows)


def runs(group: Group) -> pd.DataFrame:
    """A row a variant: stages, time of an iteration, throughput over BSP, stalls, bytes, memory, accuracy."""
    import pandas as pd

    rows = []
    for name in group.covered():
        summaries = list(group.runs(name).values())
        one = summaries[0]
        stages = pipeline(one)
        line = {
            "setting": name,
            "configuration": configuration(one) or DASH,
            "cut before block": cuts(stages),
            "NOAM": str(stages.get("noam", DASH)),
            "seeds": str(len(summaries)),
            "workers": str(one["workers"]),
            "batch": str(one["batch"]),
            "lr": f"{optimizer(one).get('lr', float('nan')):g}",
            "iteration (ms)": show(spread(1e3 * c["step"]["mean_s"] for c in summaries), seeds=False),
            "samples/s": show(spread(map(samples_s, summaries)), seeds=False),
            "over BSP": _over(group, name, BSP),
            "over BSP by allreduce": _over(group, name, ALLREDUCE),
            "stalled (%)": show(spread(100 * overhead(c) for c in summaries), seeds=False),
            "sent an iteration (MB)": number(1e-6 * spread(_sent(c) for c in summaries).median, 4),
            "largest memory of a rank (MB)": _most(summaries),
        }
        if not group.timing_only:
            known = [value for run in summaries if (value := compute.final(run)) == value]
            line[f"final {metric_name(group.metric)}"] = show(spread(known), decimals=4, seeds=False)
            line["training (s)"] = show(spread(c["final"]["train_s"] for c in summaries), seeds=False)
        rows.append(line)
    return pd.DataFrame(rows)


def _over(group: Group, variant: str, base: str) -> str:
    """Samples a second over the base's, seed by seed."""
    ratio = rate_ratio(group, variant, base).values
    return show(spread(ratio.values()), seeds=False, unit=TIMES) if ratio else DASH


def _sent(run: Summary) -> float:
    return run["bytes_sent"] * run.get("ranks", run["workers"])


def _most(summaries: list[Summary]) -> str:
    """Weights, stashes and activations of the fullest rank, as observed."""
    known = [
        max(sum(entry.get(name) or 0.0 for name in MEMORY) for entry in run["per_rank"])
        for run in summaries if run.get("per_rank")
    ]  # fmt: skip
    return number(1e-6 * spread(known).median) if known else DASH


def versions(group: Group) -> pd.DataFrame:
    """A row a variant: final metric over seeds, and its difference to BSP and to stashing, seed by seed."""
    import pandas as pd

    rows = []
    for name in group.covered():
        summaries = list(group.runs(name).values())
        line = {
            "setting": name,
            "configuration": configuration(summaries[0]) or DASH,
            "semantics": str(pipeline(summaries[0]).get("semantics") or DASH),
            "workers": str(summaries[0]["workers"]),
            "batch": str(summaries[0]["batch"]),
            "lr": f"{optimizer(summaries[0]).get('lr', float('nan')):g}",
            "seeds": str(len(summaries)),
            f"final {metric_name(group.metric)}": show(spread(map(compute.final, summaries)), decimals=4, seeds=False),
        }
        for base in ("stashing", BSP):
            values = compute.metric_gap(group, name, base).values if name != base else {}
            line[f"minus {base}"] = show(spread(values.values()), decimals=4, seeds=False) if values else DASH
        rows.append(line)
    return pd.DataFrame(rows)


def memory(group: Group) -> pd.DataFrame:
    """A row a variant and rank of the first seed: predicted and observed MB of weights, stashes and activations."""
    import pandas as pd

    rows = []
    for name in group.covered():
        run = next((c for c in group.runs(name).values() if c.get("per_rank")), None)
        for entry in run["per_rank"] if run else ():
            predicted = entry.get("predicted") or {}
            line = {"kind": group.kind, "setting": name, "configuration": configuration(run),
                    "stage": entry["stage"] + 1, "replica": entry.get("replica", 0) + 1,
                    "in flight": entry.get("in_flight", DASH)}  # fmt: skip
            for key, part in PARTS.items():
                line[f"{part}, predicted (MB)"] = _mb(predicted.get(key))
                line[f"{part}, observed (MB)"] = _mb(entry.get(key))
            ratio = memory_ratio(entry)
            rows.append(line | {"observed over predicted": float("nan") if ratio is None else ratio})
    return pd.DataFrame(rows)


def memory_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text; replicas that are alike in one row."""
    shown = found.drop(columns=["kind"]).round(9).copy()
    keys = [name for name in shown.columns if name != "replica"]
    shown = shown.groupby(keys, sort=False, dropna=False)["replica"].count().reset_index()
    shown = shown.rename(columns={"replica": "replicas"})
    numbers = [name for name in shown.columns if name.endswith("(MB)") or name == "observed over predicted"]
    shown[numbers] = shown[numbers].map(number)
    front = ["setting", "configuration", "stage", "replicas", "in flight"]
    return shown[[*front, *numbers]].astype(str)


def _mb(value: float | None) -> float:
    return float("nan") if value is None else 1e-6 * value
