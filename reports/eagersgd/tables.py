"""The tables of the eager-SGD page: our numbers beside the paper's."""

from __future__ import annotations

import pandas as pd

from repro.answers.claims.evaluate import compute_numbers
from repro.answers.claims.stats import DASH
from repro.answers.claims.value import Value
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import Results, speedup_with_range
from repro.answers.tables.time_to_target import EpochTime, Target, target_tables
from repro.records.filters import select_rows
from repro.records.run_columns import run_row
from repro.records.tables import list_entries, make_frame
from repro.records.variants import user_changes
from repro.reports.eagersgd.contradictions import HOROVOD, PAPER, SPEEDUP, checks, implied, of_table1

DEEP500 = "Synch-SGD (Deep500)"
# experiment with Table 1's model at full size -> the task as Table 1 writes it
TASKS = {"fig10": "Hyperplane regression", "fig12": "Cifar-10", "fig11": "ImageNet", "fig13-scaling": "UCF101"}
RUNTIMES = {
    "fig2-runtimes": "Figure 2 (b), LSTM on UCF101",
    "fig3-runtimes": "Figure 3, Transformer",
    "fig4-runtimes": "Figure 4, ResNet-50",
}
# figure -> its experiments -> how to label their bars
FIGURES = {
    "Figure 10": {"fig10": "", "fig10-padded": "step of 0.61 s"},
    "Figure 11": {"fig11": ""},
    "Figure 12": {"fig12": ""},
    "Figure 13": {"fig13": "", "fig13-scaling": "full size"},
}


def table1(results: Results) -> pd.DataFrame:
    """A row a task: the paper's line, and the number of parameters of our models."""
    paper, counts = quoted(PAPER), {}
    for experiment, task in TASKS.items():
        for group in results.of(experiment).values():
            counts.setdefault(task, set()).update(group.frame["parameters"].dropna().astype(int))
    names = ("parameters", "training samples", "batch size", "epochs", "processes")
    return pd.DataFrame(
        {"task": task, "model": paper.text("Table 1", task, "all", "model")}
        | {name: f"{of_table1(task, name):,}" for name in names}
        | {"ours": " or ".join(f"{count:,}" for count in sorted(ran)) or DASH}
        for task, ran in ((task, counts.get(task, set())) for task in TASKS.values())
    )


def lengths(results: Results) -> pd.DataFrame:
    """A row a bar of Figure 2 (a): the number of training videos by length."""
    return pd.DataFrame(
        {"kind": kind, "frames": (low + high - 1) / 2, "videos": count}
        for kind, group in results.of("fig2-lengths").items()
        for run in group.records.values()
        for low, high, count in run.probe.found["splits"]["train"]["histogram"]
    )


def runtimes(results: Results) -> pd.DataFrame:
    """A row a batch: its seconds over the mean of its run. Also a row each for the paper and a kind of ours: the mean,
    and one standard deviation below (low) and above (high)."""
    rows: list[dict[str, object]] = []
    for experiment, what in RUNTIMES.items():
        printed = quoted(PAPER).where(place=what.split(",")[0].removesuffix(" (b)"), row="runtimes")
        printed = printed.set_index("quantity")["value"]
        spreads = {"paper": float(printed["sd"]) / float(printed["mean"])}
        for kind, group in results.of(experiment).items():
            seconds = pd.Series([s for run in group.records.values() for s in run.probe.found["seconds"]], dtype=float)
            spreads[kind] = float(seconds.std() / seconds.mean())
            rows += [{"figure": what, "kind": kind, "over_mean": each} for each in seconds / seconds.mean()]
        for kind, spread in spreads.items() if len(spreads) > 1 else ():
            rows.append({"figure": what, "kind": kind, "over_mean": 1.0, "low": 1 - spread, "high": 1 + spread})
    return pd.DataFrame(rows, columns=["figure", "kind", "over_mean", "low", "high"])


def partial(results: Results) -> pd.DataFrame:
    """Figure 9: a row a kind, collective and size with 32 ranks: milliseconds and active processes."""
    rows = []
    for kind, group in results.of("fig9").items():
        table = select_rows(group.rows, {"table": "rows", "ranks": 32})
        rows.append(table.assign(kind=kind, milliseconds=1e3 * table["latency_s.mean"]))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def speedups(results: Results) -> pd.DataFrame:
    """A row for each printed speed-up of Figures 10 to 13 and each source: the paper, or an experiment and kind."""
    t, rows = quoted(PAPER).table, []
    for line in t[t["quantity"].str.startswith(SPEEDUP)].to_dict("records"):
        over = line["quantity"].removeprefix(SPEEDUP)
        delay = f", {line['row']}" if line["row"] != "all" else ""
        case = {"figure": line["place"], "case": f"{line['place']}: {line['variant']} over {over}{delay}"}
        case |= {"delay": line["row"], "variant": line["variant"]}
        rows.append(case | {"kind": "paper", "source": "paper", "speedup": float(line["value"])})
        for name, what in FIGURES[line["place"]].items():
            for kind, group in results.of(name).items():
                sides = (line["variant"], HOROVOD if over == "Horovod" else DEEP500)
                value = _speedup(*sides, line["row"])
                estimate = results.estimate(value, name, kind)
                entries = {"kind": kind, "source": ", ".join(filter(None, (kind, what)))}
                of_seeds = compute_numbers(value, group).values.values()
                rows += [case | entries | speedup_with_range(each, estimate) for each in of_seeds]
    return pd.DataFrame(rows)


def _speedup(variant: str, base: str, delay: str) -> Value:
    """Seconds of an iteration of `base` over those of a variant; their names may end in the delay."""
    of_side, over_side = ({"variant": [name, f"{name} {delay}"]} for name in (variant, base))
    return Value(verb="speedup", column="step_s", of=of_side, over=over_side)


def losses(results: Results) -> pd.DataFrame:
    """Figure 10's curves: a row an evaluation, by injected delay, computation of a step and kind."""
    rows = []
    for name, step in FIGURES["Figure 10"].items():
        for kind, group in results.of(name).items():
            for run in group.records.values():
                factors = run.identity.factors
                if "delay_ms" not in factors or user_changes(run.identity):
                    continue
                entries = {"panel": f"{kind}, {step or 'step as it is'}", "delay": f"{factors['delay_ms']} ms"}
                entries |= {"kind": kind, "variant": factors["method"]}
                rows += [point | entries for point in list_entries("points", run.record)]
    return make_frame(rows)


def list_targets() -> list[Target]:
    """Figure 10, by delay: five seeds, whose time of an epoch is that of Figure 10's runs, for which inputs are drawn.
    Both losses were targets of these runs from the beginning."""
    targets = []
    for ms, loss, methods in ((400, 5.0, ("solo",)), (400, 10.0, ("solo",)), (200, 5.0, ("solo", "majority"))):
        variants, times = {DEEP500: "Synch-SGD"}, {DEEP500: EpochTime("fig10", f"{DEEP500} {ms} ms")}
        for method in methods:
            name = f"eager-SGD ({method}) {ms} ms, synchronised every 10 epochs"
            variants[name] = f"eager-SGD ({method}), synchronised"
            if method == "solo":
                times[name] = EpochTime("fig10", f"eager-SGD (solo), synchronised {ms} ms")
        workload = f"hyperplane, 8 workers, {ms} ms late"
        targets.append(Target(workload, "fig10-seeds", loss, DEEP500, variants, times))
    return targets


def solo_majority(results: Results) -> pd.DataFrame:
    """A row a run of `solo-majority`; those of Synch-SGD, whose models never differ, for each synchronisation."""
    frame = make_frame(
        [
            run_row(run) | {"kind": kind, "seed": run.identity.seed}
            for kind, group in results.of("solo-majority").items()
            for run in group.records.values()
        ]
    )
    if frame.empty:
        return frame
    same = frame[frame["factors.method"] == "Synch-SGD"]
    others = set(frame["factors.synchronised"]) - set(same["factors.synchronised"])
    return pd.concat([frame, *(same.assign(**{"factors.synchronised": name}) for name in sorted(others))])


TABLES = target_tables(list_targets) | {
    "table1": table1, "lengths": lengths, "runtimes": runtimes, "partial": partial,
    "speedups": speedups, "losses": losses, "solo_majority": solo_majority, "implied": implied, "checks": checks,
}  # fmt: skip
