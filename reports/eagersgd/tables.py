"""The tables behind the page that are no tidy ones: ours beside the paper's own numbers."""

from __future__ import annotations

import pandas as pd

from repro.answers.claims.claims import Value
from repro.answers.claims.evaluate import numbers
from repro.answers.claims.stats import DASH
from repro.answers.pages.reference import quoted
from repro.answers.tables.groups import Group
from repro.answers.tables.rows import rows as rows_of
from repro.records import tidy
from repro.reports.eagersgd.contradictions import checks, implied
from repro.reports.eagersgd.results import (
    DEEP500,
    FIG2,
    FIG3,
    FIG4,
    FIG10,
    FIG10_PADDED,
    FIG10_RATIO,
    FIG11,
    FIG12,
    FIG13,
    FIG13_SCALING,
    HOROVOD,
    PAPER,
    SPEEDUP,
    TASKS,
    Results,
    of_table1,
)

RUNTIMES = {
    FIG2: "Figure 2 (b), LSTM on UCF101",
    FIG3: "Figure 3, Transformer",
    FIG4: "Figure 4, ResNet-50",
}
# Figure -> its experiments, and what tells their bars apart where there are several
FIGURES = {
    "Figure 10": {FIG10.name: "", FIG10_PADDED.name: "step of 0.61 s", FIG10_RATIO.name: "step of 0.4 s"},
    "Figure 11": {FIG11.name: ""},
    "Figure 12": {FIG12.name: ""},
    "Figure 13": {FIG13.name: "", FIG13_SCALING.name: "full size"},
}


def table1(found: Results) -> pd.DataFrame:
    """A row a task: the paper's line, and the parameters of the models that ran here."""
    paper, counts = quoted(PAPER), {}
    for experiment, task in TASKS.items():
        for group in found.of(experiment).values():
            ran = {run["model"].get("parameters") for run in group.used()} - {None}
            counts[task] = counts.get(task, set()) | ran
    names = ("parameters", "training samples", "batch size", "epochs", "processes")
    return pd.DataFrame(
        {"task": task, "model": paper.text("Table 1", task, "all", "model")}
        | {name: f"{of_table1(task, name):,}" for name in names}
        | {"ours": " or ".join(f"{count:,}" for count in sorted(ran)) or DASH}
        for task, ran in ((task, counts.get(task, set())) for task in TASKS.values())
    )


def runtimes(found: Results) -> pd.DataFrame:
    """A row a batch: its seconds over the mean of its run."""
    return pd.DataFrame(
        {"figure": what, "kind": kind, "over_mean": seconds / run["result"]["statistics"]["mean"]}
        for experiment, what in RUNTIMES.items()
        for kind, group in found.of(experiment).items()
        for run in group.summaries
        for seconds in run["result"]["seconds"]
    )


def speedups(found: Results) -> pd.DataFrame:
    """A row a printed speed-up of Figures 10 to 13 and a source: the paper, or an experiment and kind of ours."""
    t, rows = quoted(PAPER).table, []
    for line in t[t["quantity"].str.startswith(SPEEDUP)].to_dict("records"):
        over = line["quantity"].removeprefix(SPEEDUP)
        delay = f", {line['row']}" if line["row"] != "all" else ""
        case = {"figure": line["place"], "case": f"{line['place']}: {line['variant']} over {over}{delay}"}
        case |= {"delay": line["row"], "variant": line["variant"]}
        rows.append(case | {"kind": "paper", "source": "paper", "speedup": float(line["value"])})
        for name, what in FIGURES[line["place"]].items():
            for kind, group in found.of(name).items():
                values = _speedup(group, line["variant"], HOROVOD if over == "Horovod" else DEEP500, line["row"])
                rows += [
                    case | {"kind": kind, "source": ", ".join(filter(None, (kind, what))), "speedup": value}
                    for value in values
                ]
    return pd.DataFrame(rows)


def _speedup(group: Group, variant: str, over: str, row: str) -> list[float]:
    """Seconds of an iteration of `over` / those of `variant`, of each seed; the variants may have the injected delay in
    their names."""
    names = [next((n for n in (name, f"{name} {row}") if n in group.covered()), "") for name in (variant, over)]
    of, base = ({"variant": name} for name in names)
    return list(numbers(Value(verb="speedup", column="iteration_s", of=of, over=base), rows_of(group)).values.values())


def losses(found: Results) -> pd.DataFrame:
    """Figure 10's curves: a row an evaluation, by how long a step computes and the kind of number."""
    rows = []
    for name, step in FIGURES["Figure 10"].items():
        for kind, group in found.of(name).items():
            for run in group.used():
                own = {"panel": f"{step or 'step as it is'}: {kind}", "kind": kind, "variant": run["variant"]}
                rows += [own | point for point in tidy.rows("points", run)]
    return tidy.frame(rows)


TABLES = {
    "table1": table1, "runtimes": runtimes,
    "speedups": speedups, "losses": losses, "implied": implied, "checks": checks,
}  # fmt: skip
