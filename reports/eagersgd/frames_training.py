"""Training runs as data frames: throughput, scaling, final scores (Figures 10 to 13), what a round held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from repro.reports import compute, compute_eager, factors, frames
from repro.reports.eagersgd.experiments import BASES, DEEP500, PAPER
from repro.reports.eagersgd.published import BARS, OVER, Published
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reporting.stats import DASH, TIMES, number, show, show_target, spread
from repro.reports.style import metric_name

if TYPE_CHECKING:
    import pandas as pd

DELAY, QUORUM = "delay_ms", "strategy.quorum"  # factors
ANY_QUORUM = "eager-SGD (quorum)"
SCORES = ("top1", "top5", "train_top1", "train_top5")


def method(variant: str, varied: factors.Factors) -> str:
    """What is compared: a variant without its injected delay."""
    return str(varied["method"]) if DELAY in varied else variant


def methods(group: Group) -> dict[str, tuple[str, str]]:
    """Variant -> (what is compared, a quorum being that where it is the only one; the delay that is a factor)."""
    varied = {name: factors.of(group.one(name)) for name in group.covered()}
    alone = len({of[QUORUM] for of in varied.values() if QUORUM in of}) == 1
    return {
        name: (ANY_QUORUM if alone and QUORUM in of else method(name, of), f"{of[DELAY]} ms" if DELAY in of else "")
        for name, of in varied.items()
    }


def injected(run: Summary) -> str:
    """The delay among a run's factors, else the one that its injector has."""
    seconds = (run.get("imbalance") or {}).get("delay_s")
    ms = factors.of(run).get(DELAY) or (1e3 * seconds if seconds else None)
    return f"{ms:g} ms" if ms else ""


def throughput(group: Group, experiment: str, paper: Published) -> pd.DataFrame:
    """A row a variant with several workers: steps a second over seeds, speed-up over its baseline, the paper's."""
    import pandas as pd

    rows = []
    for name in group.covered():
        summaries = list(group.runs(name).values())
        if summaries[0]["workers"] == 1:
            continue
        steps = spread(1 / compute.iteration_s(run) for run in summaries)
        over = base(group, name, experiment)
        values = list(compute.speedup(group, name, over).values.values()) if over else []
        rows.append(
            {
                "kind": group.kind,
                "setting": name,
                "strategy": method(name, factors.of(summaries[0])),
                "delay": injected(summaries[0]),
                "seeds": len(summaries),
                "steps_per_second": steps.median,
                "low": steps.low,
                "high": steps.high,
                "over": over,
                "speedup": spread(values).median if values else None,
                "paper_speedup": printed(paper, experiment, name),
            }
        )
    columns = ("kind", "setting", "strategy", "delay", "seeds", "steps_per_second", "low", "high", "over", "speedup",
               "paper_speedup")  # fmt: skip
    return pd.DataFrame(rows, columns=columns).astype({"speedup": float, "paper_speedup": float})


def base(group: Group, name: str, experiment: str = "") -> str:
    """The synchronous variant that an eager one is compared with: of its delay; the experiment's, else any."""
    if factors.of(group.one(name)).get("method", name) in BASES:
        return ""
    found = (_beside(group, name, candidate) for candidate in (OVER.get(experiment, DEEP500), *BASES))
    return next(filter(None, found), "")


def _beside(group: Group, name: str, candidate: str) -> str:
    """The variant of a baseline that has the same injected delay, else of it without one; nothing without results."""
    summaries = {one: group.one(one) for one in group.covered()}
    of = {(method(one, factors.of(run)), injected(run)): one for one, run in summaries.items()}
    plain = candidate if candidate in summaries else ""
    return of.get((candidate, injected(summaries[name])), plain)


def printed(paper: Published, experiment: str, variant: str) -> float | None:
    """The paper's speed-up of a variant."""
    if not (found := BARS.get(experiment, {}).get(variant)):
        return None
    return paper.value(found[0], found[1], method(variant, factors.known(PAPER, experiment)[variant]), found[2])


def runs(group: Group, experiment: str) -> pd.DataFrame:
    """A row a variant: workers, batch, throughput, speed-ups, final scores, time to targets, bytes."""
    import pandas as pd

    metric = group.metric
    scores = [] if group.timing_only else [
        name for name in dict.fromkeys((metric, *SCORES)) if any(name in run["final"] for run in group.used())
    ]  # fmt: skip
    goals = [] if group.timing_only else frames.targets(group)
    compared = {name for name, _ in methods(group).values()}
    rows = []
    for name in group.covered():
        summaries = list(group.runs(name).values())
        line = {
            "setting": name,
            "seeds": str(len(summaries)),
            "workers": str(summaries[0]["workers"]),
            "batch": f"{summaries[0]['batch']:,}",
            "steps/s": show(spread(1 / compute.iteration_s(run) for run in summaries), seeds=False),
            "training (s)": show(spread(run["final"]["train_s"] for run in summaries), seeds=False),
        }
        for candidate in BASES:
            if candidate in compared:
                line[f"over {candidate}"] = _speedup(group, name, _beside(group, name, candidate))
        for score in scores:
            values = [compute_eager.score(run, score) for run in summaries]
            known = [value for value in values if value == value]
            line[f"final {metric_name(score)}"] = show(spread(known), decimals=4, seeds=False)
        for goal in goals:
            times = [compute.target_s(run, goal) for run in summaries if goal in run["targets"]]
            line[f"to {metric_name(metric)} {goal} (s)"] = show_target(times)
        line["sent (kB a step)"] = number(spread(run["bytes_sent"] for run in summaries).median / 1e3, 4)
        rows.append(line)
    return pd.DataFrame(rows).fillna(DASH).astype(str)


def _speedup(group: Group, name: str, over: str) -> str:
    if name == over or not group.runs(over):
        return DASH
    values = compute.speedup(group, name, over).values
    return show(spread(values.values()), seeds=False, unit=TIMES) if values else DASH


def scaling(groups: Mapping[str, Group], paper: Published) -> pd.DataFrame:
    """Section 6.3: a row the paper's and each of ours, one node and eight; strong and weak speed-up."""
    import pandas as pd

    rows = []
    printed_rows = paper.table[(paper.table["place"] == "Figure 13") & paper.table["row"].isin(("8 nodes", "one node"))]
    for line in printed_rows.to_dict("records"):
        what = f"{line['setting']}, {line['row']}"
        unit = TIMES if line["unit"] == "x" else f" {line['unit']}"
        rows.append({"kind": "paper", "setting": what, "quantity": line["quantity"], "value": line["value"] + unit})
    for kind, group in groups.items():
        batches = sorted({run["batch"] for run in group.used() if run["workers"] == 1})
        samples, epochs = paper.table1("UCF101", "training samples"), paper.table1("UCF101", "epochs")
        for batch in batches:
            found = compute_eager.alone_seconds(group, batch, samples, epochs).values.values()
            rows.append({"kind": kind, "setting": f"batch size {batch}, one node",
                         "quantity": f"training time of {epochs} epochs",
                         "value": show(spread(found), seeds=False, unit=" s")})  # fmt: skip
        for name in group.covered():
            workers = next(iter(group.runs(name).values()))["workers"]
            if workers == 1:
                continue
            for how in ("weak", "strong"):
                found = compute_eager.node_speedup(group, name, how)
                shown = show(spread(found.values.values()), seeds=False, unit=TIMES) if found.values else found.reason
                rows.append({"kind": kind, "setting": f"{name}, {workers} nodes", "quantity": f"{how} scaling",
                             "value": shown})  # fmt: skip
    return pd.DataFrame(rows, columns=["kind", "setting", "quantity", "value"])
