"""Tables of the PipeDream page that are no tidy ones: ours beside the paper's, time to accuracy, schedules."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from repro.answers.claims.compute import rates
from repro.answers.figures import schedules
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import Results
from repro.answers.tables.runs import Runs
from repro.reports.pipedream import contradictions
from repro.reports.pipedream.derived import over
from repro.reports.pipedream.derived_training import row_rate
from repro.reports.pipedream.stages import ASP, BASELINES, BSP, PAPER, PIPEDREAM, ROWS, SINGLE, configuration, machines

# As the paper writes them.
VARIANTS = {"model-parallel": "model parallelism", "straight": "straight pipeline", BSP: "BSP", PIPEDREAM: "PipeDream",
            "paper-config": "PipeDream, as printed", ASP: "ASP"}  # fmt: skip
OVER = {"speed-up over 1 machine": "one machine", "speed-up over BSP": "BSP"}
OURS = ("simulated", "emulated")  # kinds that have rows of Table 1
MINIBATCHES = 10  # that are shown of a schedule: beginning and steady state
CURVES = {  # figure -> the rows of Table 1 whose curves it has
    "Figure 10 (a): 8 machines (A)": ("table1-vgg16-8a",),
    "Figure 11 (a): 8 machines (B)": ("table1-vgg16-8b",),
    "Figure 12: 4 and 16 machines (A)": ("table1-vgg16-4a", "table1-vgg16-16a"),
}


def rows_of(found: Results, kind: str = "simulated") -> dict[str, Runs]:
    """Row of Table 1 -> its runs of a kind."""
    return {row: group for row in ROWS if (group := found.find(row, kind))}


def speedups(found: Results) -> pd.DataFrame:
    """Ours and the paper's speed-ups: row, variant, over (one machine, or the faster BSP), kind, speedup."""
    rows = []
    groups = [(kind, row, group) for kind in OURS for row, group in rows_of(found, kind).items()]
    for kind, row, group in groups:
        of = rates(group)
        for called, bases in (("one machine", [SINGLE]), ("BSP", BASELINES)):
            each = {name: over(of, row, variant, bases) for variant, name in VARIANTS.items()}
            rows += [{"row": ROWS[row], "kind": kind, "variant": name, "over": called, "speedup": speedup}
                     for name, speedup in each.items() if speedup is not None]  # fmt: skip
    printed = quoted(PAPER).table.query("quantity in @OVER and row in @ROWS.values()")
    theirs = printed.drop_duplicates(["row", "variant", "quantity"])
    theirs = theirs.assign(kind="paper", over=theirs["quantity"].map(OVER), speedup=theirs["value"].astype(float))
    columns = ["row", "kind", "variant", "over", "speedup"]
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
    """Figure 8: a row a pass of the first minibatches: machine and minibatch from 1, milliseconds."""
    group = found.shown.get(("fig8", "simulated"))
    traced = [run for run in group.records.values() if run.get("trace")] if group else []
    rows = []
    for run in traced[:1]:
        passes = schedules.passes(run)
        zero = min(box.start for box in passes)
        rows = [{"kind": run["kind"], "machine": f"machine {box.rank + 1}", "pass": box.name,
                 "minibatch": None if box.minibatch is None else box.minibatch + 1,
                 "start_ms": 1e3 * (box.start - zero), "end_ms": 1e3 * (box.end - zero)}
                for box in sorted(passes, key=lambda box: (box.rank, box.start))
                if box.minibatch is None or box.minibatch < MINIBATCHES]  # fmt: skip
    return pd.DataFrame(rows, columns=["kind", "machine", "pass", "minibatch", "start_ms", "end_ms"])


TABLES: dict[str, Callable[[Results], pd.DataFrame]] = {
    "speedups": speedups, "configurations": configurations, "accuracy": accuracy,
    "schedule": schedule, "checks": contradictions.table,
}  # fmt: skip
