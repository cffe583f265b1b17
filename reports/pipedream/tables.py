"""The tables of the PipeDream page: our numbers beside the paper's, time to accuracy, schedules."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pandas as pd

from repro.answers.claims.compute import median_rates
from repro.answers.claims.value import Value
from repro.answers.figures import schedules
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import Results, speedup_with_range
from repro.answers.tables.runs import Runs
from repro.answers.tables.time_to_target import EpochTime, Target, target_tables
from repro.records.filters import select_rows
from repro.records.record import Found
from repro.reports.pipedream import contradictions
from repro.reports.pipedream.derived import over
from repro.reports.pipedream.stages import (
    ALLREDUCE,
    ASP,
    BSP,
    PAPER,
    PIPEDREAM,
    ROWS,
    SINGLE,
    describe_stages,
)

# The paper's names.
GIVEN = "paper-config"  # PipeDream in the configuration that the paper prints
VARIANTS = {"model-parallel": "model parallelism", "straight": "straight pipeline", BSP: "BSP", PIPEDREAM: "PipeDream",
            GIVEN: "PipeDream, as printed", ASP: "ASP"}  # fmt: skip
OVER = {contradictions.OVER_ONE: "one machine", contradictions.OVER_BSP: "BSP"}
BASES = {"one machine": SINGLE, "BSP": BSP, "ring allreduce": ALLREDUCE}
SPEEDUP = ("row", "kind", "variant", "over", "speedup", "low", "high")
OURS = ("simulated", "emulated")  # kinds with runs of Table 1
SCHEDULES = {  # experiment -> variant -> its figure, and the number of minibatches shown
    "timelines": {"data-parallel": ("Figure 2: data parallelism", 5),
                  "model-parallel": ("Figure 3: model parallelism", 3),
                  "pipedream": ("Figure 4: a pipeline", 10), "replicated": ("Figure 6", 16)},
    "fig8": {"pipedream": ("Figure 8", 10)},
}  # fmt: skip
# (experiment, variant) -> the trace's line of messages, drawn too
MESSAGES = {("timelines", "data-parallel"): "communication", ("timelines", "pipedream"): "send"}
# row of Table 1 with curves in Figures 10 to 12 -> machines, and the strategies that were trained with as many
CURVES = {
    "table1-vgg16-4a": (4, (BSP, PIPEDREAM, ASP)),
    "table1-vgg16-8a": (8, (BSP, PIPEDREAM)),
    "table1-vgg16-16a": (16, (BSP, PIPEDREAM)),
    "table1-vgg16-8b": (8, (BSP, PIPEDREAM)),
}


def rows_of(results: Results, kind: str = "simulated") -> dict[str, Runs]:
    """row of Table 1 -> its runs of a kind."""
    return {row: group for row in ROWS if (group := results.find(row, kind))}


def speedups(results: Results) -> pd.DataFrame:
    """Our and the paper's speed-ups by row, variant, kind and `over`: one machine, BSP, or ring allreduce.

    low, high: as of `speedup_with_range`.
    """
    rows = []
    groups = [(kind, row, group) for kind in OURS for row, group in rows_of(results, kind).items()]
    for kind, row, group in groups:
        rates = median_rates(group)
        for (called, base), (variant, name) in product(BASES.items(), VARIANTS.items()):
            if (speedup := over(rates, row, variant, base)) is not None and variant != base:
                value = Value(verb="ratio", column="samples_per_s", of={"variant": variant}, over={"variant": base})
                estimate = results.estimate(value, row, kind)
                about = {"row": ROWS[row], "kind": kind, "variant": name, "over": called}
                rows.append(about | speedup_with_range(speedup, estimate))
    printed = quoted(PAPER).where(quantity=[*OVER], row=[*ROWS.values()])
    theirs = printed.drop_duplicates(["row", "variant", "quantity"])
    theirs = theirs.assign(kind="paper", over=theirs["quantity"].map(OVER), speedup=theirs["value"].astype(float))
    every = pd.concat([theirs.reindex(columns=[*SPEEDUP]), pd.DataFrame(rows, columns=[*SPEEDUP])])
    return every.astype({"low": float, "high": float}).sort_values("row", key=_place, kind="stable")


def _place(rows: pd.Series) -> pd.Series:
    """A sort key: the order of Table 1's rows."""
    return rows.map([*ROWS.values()].index)


def saved_bytes(results: Results) -> pd.DataFrame:
    """The share of BSP's bytes a sample that PipeDream saves, in our configuration and in the printed one.

    The paper's is of the printed one, and of ours too where both are the same.
    """
    rows = []
    for kind in OURS:
        for row, group in rows_of(results, kind).items():
            sent = group.frame.groupby("variant")["sample_bytes"].median()
            known = [name for name in (PIPEDREAM, GIVEN) if {name, BSP} <= {*sent.index}]
            saved = {name: 1 - sent[name] / sent[BSP] for name in known}
            rows += [{"row": ROWS[row], "kind": kind, "variant": VARIANTS[name], "saved": share}
                     for name, share in saved.items()]  # fmt: skip
    printed = quoted(PAPER).where(quantity=contradictions.REDUCTION)
    theirs = printed.assign(kind="paper", variant=VARIANTS[GIVEN], saved=printed["value"].astype(float) / 100)
    ours = configurations(results).query("printed == found")["row"]
    same = theirs[theirs["row"].isin(ours)].assign(variant=VARIANTS[PIPEDREAM])
    columns = ["row", "kind", "variant", "saved"]
    every = pd.concat([theirs[columns], same[columns], pd.DataFrame(rows, columns=columns)])
    return select_rows(every, {"row": ROWS.values()}).sort_values("row", key=_place, kind="stable")


def configurations(results: Results) -> pd.DataFrame:
    """A row for each of Table 1's: the printed configuration, and our partitioner's (`found`)."""
    printed = quoted(PAPER).where(quantity="configuration").set_index("row")["value"]
    ours = {ROWS[row]: describe_stages(run) for row, group in rows_of(results).items() for run in group.records.values()
            if run.label == PIPEDREAM}  # fmt: skip
    rows = [(row, printed.get(row, "not printed"), config, "simulated") for row, config in ours.items()]
    return pd.DataFrame(rows, columns=["row", "printed", "found", "kind"])


def list_targets() -> list[Target]:
    """Figures 10 to 12: epochs of the small workload, and the time of an epoch of ILSVRC12 at full size.

    ASP has the rate of as many machines that never wait (section 5.2).
    """
    images = 1e6 * float(quoted(PAPER).where(place="Data", quantity="training images")["value"].iloc[0])
    targets = []
    for row, (machines_of, methods) in CURVES.items():
        called = {f"{method}-{machines_of}": method for method in methods}
        times = {name: EpochTime(row, method) for name, method in called.items()}
        if ASP in methods:
            times[f"{ASP}-{machines_of}"] = EpochTime(row, SINGLE, machines_of)
        variants = {name: VARIANTS[method] for name, method in called.items()}
        over = f"{BSP}-{machines_of}"
        targets.append(Target(ROWS[row], "accuracy-vgg16", 0.4, over, variants, times, images))
    return targets


def overhead(results: Results) -> pd.DataFrame:
    """Figure 1: the percentage of a step in which a worker waits for communication, by model, GPU and workers."""
    group = results.shown.get(("fig1", "simulated"))
    table = group.frame[["kind", "seed", "model", "testbed", "workers", "stalled"]] if group else pd.DataFrame()
    return table.assign(percent=100 * table["stalled"]) if len(table) else table


def schedule(results: Results) -> pd.DataFrame:
    """Figures 2, 3, 4, 6 and 8: a row a pass of the first minibatches; machine and minibatch from 1, seconds."""
    rows = []
    for experiment, figures in SCHEDULES.items():
        group = results.shown.get((experiment, "simulated"))
        runs = {run.label: run for run in group.records.values() if run.training.trace} if group else {}
        for variant, (figure, minibatches) in figures.items():
            rows += [{"figure": figure} | row for row in passes(runs[variant], minibatches)] if variant in runs else []
    return pd.DataFrame(rows, columns=["figure", "kind", "machine", "pass", "minibatch", "start_s", "end_s"])


def passes(run: Found, minibatches: int) -> list[dict[str, Any]]:
    """A row a pass of the first minibatches; of the first machine alone where all do the same or messages are drawn."""
    boxes = sorted(schedules.main_passes(run), key=lambda box: (box.rank, box.start))
    zero, messages = min(box.start for box in boxes), MESSAGES.get((run.identity.experiment, run.label))
    boxes = [box for box in boxes if box.minibatch is None or box.minibatch < minibatches]
    if boxes[0].minibatch is None:
        boxes = [box for box in boxes if box.rank == 0]
    end = max(box.end for box in boxes)
    sent = [
        box
        for box in schedules.trace_boxes(run.training.trace)
        if box.rank == 0 and box.line == messages and box.end <= end
    ]
    return [{"kind": run.kind, "machine": f"{box.rank + 1}" + (" sends" if box in sent else ""),
             "pass": "communication" if box in sent else box.name,
             "minibatch": None if box.minibatch is None else box.minibatch + 1,
             "start_s": box.start - zero, "end_s": box.end - zero} for box in (*boxes, *sent)]  # fmt: skip


def outputs(results: Results) -> pd.DataFrame:
    """Figure 5: a row a layer of VGG16 with the megabytes of its output; the last row is all parameters."""
    group = results.shown.get(("fig5", "simulated"))
    if not group:
        return pd.DataFrame()
    result = group.first.probe.found
    sizes = {layer["name"]: layer["activation_bytes"] for layer in result["layers"]}
    sizes["all parameters"] = result["parameter_bytes"]
    return pd.DataFrame({"kind": "simulated", "layer": name, "megabytes": size / 1e6} for name, size in sizes.items())


TABLES: dict[str, Callable[[Results], pd.DataFrame]] = {
    "speedups": speedups, "saved_bytes": saved_bytes, "configurations": configurations, "schedule": schedule,
    "overhead": overhead, "outputs": outputs, "checks": contradictions.table,
} | target_tables(list_targets, hours=True)  # fmt: skip
