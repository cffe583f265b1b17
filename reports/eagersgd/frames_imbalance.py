"""Table 1, and Figures 2 to 4 (load imbalance: lengths and runtimes), as data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from repro.reports.compute_imbalance import correlation, made_up
from repro.reports.eagersgd.experiments import FIG2, FIG3, FIG4, MODELS, TASKS
from repro.reports.eagersgd.published import Published
from repro.reports.eagersgd.results import Results
from repro.reports.histograms import binned
from repro.reports.probes import ProbeGroup
from repro.reporting.stats import DASH, number, spread

if TYPE_CHECKING:
    import pandas as pd

RUNTIMES = {
    FIG2: ("Figure 2", "Figure 2 (b)", "LSTM on UCF101"),
    FIG3: ("Figure 3", "Figure 3", "Transformer on WMT16"),
    FIG4: ("Figure 4", "Figure 4", "ResNet-50 in the cloud"),
}
SHOWN = ("min", "mean", "sd", "max")


def parameters(found: Results) -> dict[str, dict[int, list[str]]]:
    """Task -> parameters of the model that ran -> where."""
    counts: dict[str, dict[int, list[str]]] = {}
    for name in MODELS:
        for kind, group in found.training[name].items():
            for run in group.used():
                if (count := run["model"].get("parameters")) is not None:
                    where = counts.setdefault(TASKS[name], {}).setdefault(count, [])
                    if f"{name} {kind}" not in where:
                        where.append(f"{name} {kind}")
    return counts


def table1(paper: Published, found: Results) -> pd.DataFrame:
    """A row a task: the paper's line, and the parameters of the models that ran here."""
    import pandas as pd

    counts, rows = parameters(found), []
    for task in paper.tasks():
        printed = paper.table1(task, "parameters")
        ours = counts.get(task, {})
        shown = "; ".join(f"{count:,} ({', '.join(where)})" for count, where in sorted(ours.items(), reverse=True))
        rows.append(
            {
                "task": task,
                "model": paper.text("Table 1", task, "all", "model"),
                "parameters, paper": f"{printed:,}",
                "parameters of the models that ran": shown or DASH,
                "equal": DASH if not ours else "yes" if set(ours) == {printed} else "at full size" if printed in ours
                else "no",
                "training data, paper": f"{paper.table1(task, 'training samples'):,}",
                "batch, paper": f"{paper.table1(task, 'batch size'):,}",
                "epochs, paper": str(paper.table1(task, "epochs")),
                "processes, paper": str(paper.table1(task, "processes")),
                "steps an epoch": number(steps_an_epoch(paper, task), 4),
                "batch of a process": number(
                    paper.table1(task, "batch size") / paper.table1(task, "processes"), 4),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def steps_an_epoch(paper: Published, task: str) -> int:
    """Whole batches in the training data."""
    return paper.table1(task, "training samples") // paper.table1(task, "batch size")


# --- Figure 2 (a)


def lengths(group: ProbeGroup) -> dict[str, dict]:
    """Split -> its statistics and histogram, of the first run that has it."""
    found: dict[str, dict] = {}
    for run in group.summaries:
        for name, split in run["result"]["splits"].items():
            found.setdefault(name, split)
    return dict(sorted(found.items(), key=lambda item: not item[0].startswith("train")))


def length_bars(split: Mapping) -> pd.DataFrame:
    """low, high, count of a split."""
    import pandas as pd

    return pd.DataFrame(split["histogram"], columns=["low", "high", "count"])


def length_table(groups: Mapping[str, ProbeGroup], paper: Published) -> pd.DataFrame:
    """A row the paper's statistics, and a row a split of ours."""
    import pandas as pd

    printed = paper.statistics("Figure 2", "lengths")
    columns = ("n", "min", "median", "mean", "sd", "max")
    printed["n"] = paper.value("Figure 2", "lengths", "UCF101", "videos")
    rows = [{"kind": "paper", "split": "training data", "data": "UCF101",
             **{name: _plain(printed.get(name)) for name in columns}}]  # fmt: skip
    for kind, group in groups.items():
        data = group.first["dataset"]
        named = data["name"] + (" (STAND-IN)" if made_up(group) else "")
        rows += [
            {"kind": kind, "split": name, "data": named, **{key: _plain(split.get(key)) for key in columns}}
            for name, split in lengths(group).items()
        ]
    return pd.DataFrame(rows)


def _plain(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


# --- Figures 2 (b), 3 and 4


def seconds(group: ProbeGroup) -> list[float]:
    """Every batch's seconds, all runs."""
    return [value for run in group.summaries for value in run["result"]["seconds"]]


def over_mean(group: ProbeGroup) -> pd.DataFrame:
    """Bars of each batch's runtime over the mean of its run."""
    values = []
    for run in group.summaries:
        mean = run["result"]["statistics"]["mean"]
        values += [value / mean for value in run["result"]["seconds"]]
    return binned(values)


def printed_over_mean(paper: Published, experiment: str) -> dict[str, float]:
    """The paper's statistics of a figure of runtimes, divided by their mean."""
    found = paper.statistics(RUNTIMES[experiment][0], "runtimes")
    return {name: value / found["mean"] for name, value in found.items()}


def runtime_table(found: Mapping[str, Mapping[str, ProbeGroup]], paper: Published) -> pd.DataFrame:
    """A row a figure and source: milliseconds, the same over the mean, the correlation with the batches' lengths."""
    import pandas as pd

    rows = []
    for name, (place, title, _) in RUNTIMES.items():
        printed = paper.statistics(place, "runtimes")
        rows.append({"figure": title, "kind": "paper", "what": RUNTIMES[name][2], "batches": _batches(paper, place),
                     **_line({key: 1e-3 * value for key, value in printed.items()}), "correlation": DASH})  # fmt: skip
        for kind, group in found.get(name, {}).items():
            runs = [run["result"] for run in group.summaries]
            ours = {key: spread(run["statistics"][key] for run in runs).median for key in SHOWN}
            pairs = [correlation(run.get("lengths") or (), run["seconds"]) for run in runs]
            known = [value for value in pairs if value is not None]
            rows.append({"figure": title, "kind": kind, "what": "; ".join(dict.fromkeys(c["what"] for c in runs)),
                         "batches": f"{sum(run['statistics']['n'] for run in runs):,}", **_line(ours),
                         "correlation": number(spread(known).median) if known else DASH})  # fmt: skip
    return pd.DataFrame(rows).rename(columns={"correlation": "correlation with length"})


def _batches(paper: Published, place: str) -> str:
    t = paper.table
    found = t[(t["place"] == place) & (t["row"] == "runtimes") & (t["quantity"] == "batches")]["value"]
    return f"{int(found.item()):,}" if len(found) else DASH


def _line(statistics: Mapping[str, float]) -> dict[str, str]:
    absolute = {f"{name} (ms)": number(1e3 * statistics[name], 4) for name in SHOWN}
    ratios = {f"{name} over mean": number(statistics[name] / statistics["mean"]) for name in ("min", "sd", "max")}
    return absolute | ratios
