"""Tables of the PipeDream page that are no tidy ones: ours beside the paper's, time to accuracy, schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from repro.answers.claims.compute import rates
from repro.answers.figures import schedules
from repro.answers.pages.reference import quoted
from repro.answers.tables.loading import Summary
from repro.answers.tables.results import Results
from repro.answers.tables.runs import Runs
from repro.reports.pipedream import contradictions
from repro.reports.pipedream.derived import over
from repro.reports.pipedream.derived_training import row_rate
from repro.reports.pipedream.stages import ALLREDUCE, ASP, BSP, PAPER, PIPEDREAM, ROWS, SINGLE, configuration, machines

# As the paper writes them.
GIVEN = "paper-config"  # PipeDream in the configuration that the paper prints
VARIANTS = {"model-parallel": "model parallelism", "straight": "straight pipeline", BSP: "BSP", PIPEDREAM: "PipeDream",
            GIVEN: "PipeDream, as printed", ASP: "ASP"}  # fmt: skip
OVER = {"speed-up over 1 machine": "one machine", "speed-up over BSP": "BSP"}
OURS = ("simulated", "emulated")  # kinds that have rows of Table 1
SCHEDULES = {  # experiment -> variant -> the figure that draws it, and how many minibatches are shown
    "timelines": {"data-parallel": ("Figure 2", 5), "model-parallel": ("Figure 3", 3), "pipedream": ("Figure 4", 10),
                  "replicated": ("Figure 6", 16)},
    "fig8": {"pipedream": ("Figure 8", 10)},
}  # fmt: skip
CURVES = {  # figure -> the rows of Table 1 whose curves it has
    "Figure 10 (a): 8 machines (A)": ("table1-vgg16-8a",),
    "Figure 11 (a): 8 machines (B)": ("table1-vgg16-8b",),
    "Figure 12: 4 and 16 machines (A)": ("table1-vgg16-4a", "table1-vgg16-16a"),
}


def rows_of(found: Results, kind: str = "simulated") -> dict[str, Runs]:
    """Row of Table 1 -> its runs of a kind."""
    return {row: group for row in ROWS if (group := found.find(row, kind))}


def speedups(found: Results) -> pd.DataFrame:
    """Ours and the paper's speed-ups: row, variant, over (one machine, BSP, or ring allreduce), kind, speedup."""
    rows = []
    groups = [(kind, row, group) for kind in OURS for row, group in rows_of(found, kind).items()]
    for kind, row, group in groups:
        of = rates(group)
        for called, base in (("one machine", SINGLE), ("BSP", BSP), ("ring allreduce", ALLREDUCE)):
            each = {name: over(of, row, variant, base) for variant, name in VARIANTS.items()}
            rows += [{"row": ROWS[row], "kind": kind, "variant": name, "over": called, "speedup": speedup}
                     for name, speedup in each.items() if speedup is not None]  # fmt: skip
    printed = quoted(PAPER).table.query("quantity in @OVER and row in @ROWS.values()")
    theirs = printed.drop_duplicates(["row", "variant", "quantity"])
    theirs = theirs.assign(kind="paper", over=theirs["quantity"].map(OVER), speedup=theirs["value"].astype(float))
    columns = ["row", "kind", "variant", "over", "speedup"]
    return pd.concat([theirs[columns], pd.DataFrame(rows, columns=columns)])


def saved_bytes(found: Results) -> pd.DataFrame:
    """Bytes of a sample that PipeDream does not send, of those that BSP sends: row, variant, kind, saved; ours in the
    configuration found and in the printed one, and the paper's."""
    rows = []
    for kind in OURS:
        for row, group in rows_of(found, kind).items():
            sent = group.frame.groupby("variant")["sample_bytes"].median()
            known = [name for name in (PIPEDREAM, GIVEN) if {name, BSP} <= {*sent.index}]
            own = {name: 1 - sent[name] / sent[BSP] for name in known}
            rows += [{"row": ROWS[row], "kind": kind, "variant": VARIANTS[name], "saved": share}
                     for name, share in own.items()]  # fmt: skip
    printed = quoted(PAPER).table.query("quantity == 'communication reduction over BSP'")
    theirs = printed.assign(kind="paper", saved=printed["value"].astype(float) / 100)
    columns = ["row", "kind", "variant", "saved"]
    return pd.concat([theirs[columns], pd.DataFrame(rows, columns=columns)])


def configurations(found: Results) -> pd.DataFrame:
    """A row of Table 1 each: the configuration that the paper prints, and the one found here."""
    printed = quoted(PAPER).table.query("quantity == 'configuration'").set_index("row")["value"]
    ours = {ROWS[row]: configuration(run) for row, group in rows_of(found).items() for run in group.records.values()
            if run["variant"] == PIPEDREAM}  # fmt: skip
    rows = [(row, printed.get(row, "not printed"), config, "simulated") for row, config in ours.items()]
    return pd.DataFrame(rows, columns=["row", "printed", "found", "kind"])


def accuracy(found: Results) -> pd.DataFrame:
    """Figures 10 to 12: a row a curve, seed and evaluation; hours = epochs of the small workload x full-size epochs."""
    group, table1 = (found.shown.get((name, "simulated")) for name in ("accuracy-vgg16", "table1"))
    images = quoted(PAPER).table.query("place == 'Data' and quantity == 'training images'")["value"].astype(float)
    of, rows = rates(table1) if table1 else {}, []
    for figure, of_figure in CURVES.items() if group and table1 else ():
        for row in filter(rows_of(found).get, of_figure):
            for run in group.records.values():
                name, _, count = run["variant"].rpartition("-")
                rate = row_rate(table1, of, row, name) if count == str(machines(table1, row)) else None
                if not rate or (name == ASP and len(of_figure) == 1):  # ASP stands in Figure 12 alone
                    continue
                about = {"figure": figure, "strategy": f"{VARIANTS[name]}, {count}", "seed": run["seed"]}
                rows += [about | {"kind": run["kind"], "accuracy": point[run["metric"]],
                                  "hours": point["epoch"] * 1e6 * images.iloc[0] / rate / 3600}
                         for point in run["curve"] if point.get(run["metric"]) is not None]  # fmt: skip
    return pd.DataFrame(rows, columns=["figure", "strategy", "seed", "kind", "accuracy", "hours"])


def schedule(found: Results) -> pd.DataFrame:
    """Figures 2, 3, 4, 6 and 8: a row a pass of the first minibatches: figure, machine and minibatch from 1,
    milliseconds."""
    rows = []
    for experiment, figures in SCHEDULES.items():
        group = found.shown.get((experiment, "simulated"))
        runs = {run["variant"]: run for run in group.records.values() if run.get("trace")} if group else {}
        for variant, (figure, minibatches) in figures.items():
            rows += [{"figure": figure} | row for row in passes(runs[variant], minibatches)] if variant in runs else []
    return pd.DataFrame(rows, columns=["figure", "kind", "machine", "pass", "minibatch", "start_ms", "end_ms"])


def passes(run: Summary, minibatches: int) -> list[dict[str, Any]]:
    """A row a pass of the first minibatches of each machine."""
    boxes = schedules.passes(run)
    zero = min(box.start for box in boxes)
    return [{"kind": run["kind"], "machine": f"machine {box.rank + 1}", "pass": box.name,
             "minibatch": None if box.minibatch is None else box.minibatch + 1,
             "start_ms": 1e3 * (box.start - zero), "end_ms": 1e3 * (box.end - zero)}
            for box in sorted(boxes, key=lambda box: (box.rank, box.start))
            if box.minibatch is None or box.minibatch < minibatches]  # fmt: skip


def outputs(found: Results) -> pd.DataFrame:
    """Figure 5: a row a layer of VGG16: name, megabytes of its output, and whether that is less than all parameters."""
    group = found.shown.get(("fig5", "simulated"))
    result = group.first["result"] if group else {"layers": []}
    rows = [{"kind": "simulated", "layer": layer["name"], "megabytes": layer["activation_bytes"] / 1e6,
             "parameters_mb": result["parameter_bytes"] / 1e6} for layer in result["layers"]]  # fmt: skip
    return pd.DataFrame(rows, columns=["kind", "layer", "megabytes", "parameters_mb"])


TABLES: dict[str, Callable[[Results], pd.DataFrame]] = {
    "speedups": speedups, "saved_bytes": saved_bytes, "configurations": configurations, "accuracy": accuracy,
    "schedule": schedule, "outputs": outputs, "checks": contradictions.table,
}  # fmt: skip
