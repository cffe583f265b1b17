"""The tables of the Pipe-SGD page: our numbers beside the paper's, and arithmetic on the paper's numbers."""

from __future__ import annotations

import itertools
import math

import pandas as pd

from repro.answers.claims.compute import COMPUTING
from repro.answers.claims.evidence import outcome_of
from repro.answers.claims.stats import format_percent
from repro.answers.pages import reference
from repro.answers.tables.results import Results
from repro.answers.tables.time_to_target import Target, target_tables
from repro.core.not_none import not_none

PAPER = "pipesgd"
# Figure 4's rows: experiment -> what the paper (and reference/pipesgd.csv) calls it
FIGURE4 = {
    "fig4-mnist": "MNIST-MLP",
    "fig4-alexnet": "AlexNet",
    "fig4-resnet18": "ResNet18",
    "fig4-cifar100-convex": "CIFAR100-Convex",
}


def quoted(quantity: str) -> pd.DataFrame:
    """The paper's numbers for a quantity: place, row, variant, value."""
    return reference.quoted(PAPER).where(quantity=quantity)


def speedups(results: Results) -> pd.DataFrame:
    """The speed-up of the fastest compressed Pipe-SGD: a row a benchmark, baseline and kind; for the paper its
    range."""
    rows = []
    for claims, over in {"*speedup-vs-dsync": "over D-Sync", "*speedup-vs-ps": "over PS-Sync"}.items():
        for judged in results.claims(claims):
            about = {"benchmark": FIGURE4[judged.claim.experiment], "over": over}
            ours, paper = not_none(judged.estimate), judged.claim.paper
            rows.append(about | {"kind": judged.kind, "speedup": ours.point, "low": ours.low, "high": ours.high})
            rows.append(about | {"kind": "paper", "speedup": math.nan, "low": paper.low, "high": paper.high})
    return pd.DataFrame(rows).drop_duplicates() if rows else pd.DataFrame()


def steps(results: Results) -> pd.DataFrame:
    """Milliseconds of an iteration at the paper's rate of each benchmark, emulated and simulated."""
    frames = [
        group.frame[["kind", "variant", "seed"]].assign(benchmark=benchmark, iteration_ms=1e3 * group.frame["step_s"])
        for name, benchmark in FIGURE4.items()
        for kind, group in results.of(name).items()
        if kind != "measured"
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def phases(results: Results) -> pd.DataFrame:
    """Figure 4, third column: simulated seconds of 1,000 iterations in the paper's three parts; `printed`: the accuracy
    above the paper's bar."""
    printed = "paper: " + quoted("final top-1").set_index(["row", "variant"])["value"].astype(str)
    rows = []
    for name, benchmark in FIGURE4.items():
        group = results.shown.get((name, "simulated"))
        for run in group.records.values() if group else ():
            seconds = run.training.phases
            parts = {
                "computation": sum(seconds[phase] for phase in COMPUTING),
                "compression": seconds["compress"],
                "communication, not hidden": seconds["communicate"] + seconds["wait"],
            }
            row = {"benchmark": benchmark, "variant": run.label, "kind": "simulated", "seed": run.identity.seed,
                   "printed": printed.get((benchmark, run.label))}  # fmt: skip
            rows += [row | {"part": part, "thousand_s": 1e3 * each} for part, each in parts.items()]
    return pd.DataFrame(rows, columns=["benchmark", "variant", "kind", "seed", "printed", "part", "thousand_s"])


def accuracies(results: Results) -> pd.DataFrame:
    """Final top-1 of Figure 4 for the benchmarks that we ran on the paper's data; the paper's and ours."""
    printed = quoted("final top-1").rename(columns={"row": "benchmark", "value": "top-1"})
    rows = printed.assign(kind="paper")[["benchmark", "variant", "kind", "top-1"]].to_dict("records")
    shown = set()
    for name, benchmark in FIGURE4.items():
        for kind in ("measured", "simulated"):
            group = results.shown.get((name, kind))
            if group and not (group.standin or group.timing_only):
                shown.add(benchmark)
                finals = group.frame[["variant", "kind", "seed", "final"]].rename(columns={"final": "top-1"})
                rows += finals.assign(benchmark=benchmark).to_dict("records")
    table = pd.DataFrame(rows, columns=["benchmark", "variant", "kind", "seed", "top-1"])
    return table[table["benchmark"].isin(shown)].astype({"top-1": float})


def ring(results: Results) -> pd.DataFrame:
    """TernGrad's work over communication, uncompressed and compressed, and the factor between them."""
    rows = []
    for end in ("least", "most"):
        whole, less = (
            float(quoted(f"TernGrad overhead / {which} communication, {end}")["value"].iloc[0])
            for which in ("uncompressed", "compressed")
        )
        rows.append({"of": end, "kind": "paper", "uncompressed": whole, "compressed": less})
    group = results.shown.get(("fig3-ring", "simulated"))
    for run in group.records.values() if group else ():
        for entry in run.probe.found["overheads"]:
            if entry["codec"] == "ternary" and run.identity.workers == 4:
                ours = {"uncompressed": entry["per_uncompressed"], "compressed": entry["per_compressed"]}
                rows.append({"of": entry["benchmark"], "kind": "simulated"} | ours)
    table = pd.DataFrame(rows)
    return table.assign(factor=table["compressed"] / table["uncompressed"])


def percentages(results: Results) -> pd.DataFrame:
    """The paper's numbers for CIFAR100-Convex, and those that follow from one of them (Pipe-SGD 37 % over D-Sync).

    They follow by equations (2) and (4), if PS-Sync communicates twice as long as D-Sync, and truncation halves
    communication at no cost.
    """

    def printed(quantity: str, variant: str = "Pipe-SGD") -> float:
        return float(reference.quoted(PAPER).where(quantity=quantity, variant=variant)["value"].iloc[0]) / 100

    faster = printed("faster than D-Sync")
    every = {
        name: _following(1 / (1 - faster) - 1 if shorter else faster, shorter)
        for name, shorter in (("as a shorter time", True), ("as a higher speed", False))
    }
    stated = {
        "Pipe-SGD faster than D-Sync": f"{format_percent(faster)} (given)",
        "D-Sync faster than PS-Sync": f"around {format_percent(printed('faster than PS-Sync, about', 'D-Sync'))}",
        "Pipe-SGD + T faster than D-Sync + T": format_percent(printed("faster than D-Sync + T", "Pipe-SGD + T")),
        "Pipe-SGD + T over D-Sync": _range("speed-up against D-Sync"),
        "Pipe-SGD + T over PS-Sync": _range("speed-up against PS-Sync"),
        "communication over computation": "",
    }
    rows = [{"what": what, "printed": text} | {name: numbers[what] for name, numbers in every.items()}
            for what, text in stated.items()]  # fmt: skip
    return pd.DataFrame(rows)


def _range(quantity: str) -> str:
    low, high = (float(quoted(f"{quantity}, {end}")["value"].iloc[0]) for end in ("least", "most"))
    return f"{low:g} to {high:g} times"


def _following(computation: float, shorter: bool) -> dict[str, str]:
    """The numbers that follow from the ratio of computation to communication, which is below 1."""
    d_sync, ps_sync, cut = computation + 1, computation + 2, computation + 0.5
    pipe, pipe_cut = max(computation, 1.0), max(computation, 0.5)

    def faster(ours: float, other: float) -> str:
        return format_percent(1 - ours / other if shorter else other / ours - 1)

    return {
        "Pipe-SGD faster than D-Sync": faster(pipe, d_sync),
        "D-Sync faster than PS-Sync": faster(d_sync, ps_sync),
        "Pipe-SGD + T faster than D-Sync + T": faster(pipe_cut, cut),
        "Pipe-SGD + T over D-Sync": f"{d_sync / pipe_cut:.2f} times",
        "Pipe-SGD + T over PS-Sync": f"{ps_sync / pipe_cut:.2f} times",
        "communication over computation": f"{1 / computation:.2f}",
    }


def staggered_reduction(workers: int) -> float:
    """Bandwidth terms only, requests served in order: one worker's pulls run beside the next one's pushes, and the last
    one's beside none."""
    return 1 - (2 * (workers - 1) / workers) / (workers + 1)


def duplex_reduction(workers: int) -> float:
    """Bandwidth terms only: each layer is pulled while later ones are pushed, so that p·n·beta hold both ways."""
    return 1 - (2 * (workers - 1) / workers) / workers


def incast_reduction(workers: int) -> float:
    """Bandwidth terms only: a ring's 2(p-1)/p·n·beta against 2·p·n·beta through one server's link (docs/errata.md)."""
    return 1 - (2 * (workers - 1) / workers) / (2 * workers)


def reductions(results: Results) -> pd.DataFrame:
    """The share of PS-Sync's communication time that D-Sync saves: the paper's, by closed forms, and ours."""
    workers = int(quoted("worker nodes (Titan XP, Xeon E5-2640)")["value"].iloc[0])
    printed = -float(quoted("uncompressed communication time against PS-Sync")["value"].iloc[0]) / 100
    by_bytes = {
        "pushes, then pulls, share one link": incast_reduction(workers),
        "a worker's pull runs beside the next one's push": staggered_reduction(workers),
        "all pulls run beside the pushes": duplex_reduction(workers),
    }
    rows = [{"of": "all four", "kind": "paper", "less": printed}]
    rows += [{"of": what, "kind": "arithmetic", "less": less} for what, less in by_bytes.items()]
    claim = next(claim for claim in results.file.claims if claim.id == "communication-halved")
    for (name, benchmark), kind in itertools.product(FIGURE4.items(), ("simulated", "emulated")):
        group = results.shown.get((name, kind))
        if group and (values := outcome_of(claim, group).values):
            rows.append({"of": benchmark, "kind": kind, "less": next(iter(values.values()))})
    return pd.DataFrame(rows)


def resolution(results: Results) -> pd.DataFrame:
    """The paper's accuracies less D-Sync's, and one standard error of the difference of two results."""
    every = quoted("final top-1").pivot(index="row", columns="variant", values="value").astype(float)
    sizes = pd.concat([quoted("test images"), quoted("validation images")])
    rows = []
    for benchmark, numbers in every.iterrows():
        images = float(sizes[[str(benchmark) in name for name in sizes["row"]]]["value"].iloc[0])
        error = math.sqrt(2 * numbers["D-Sync"] * (1 - numbers["D-Sync"]) / images)
        rows += [
            {
                "benchmark": benchmark,
                "variant": name,
                "gap": numbers[name] - numbers["D-Sync"],
                "images": images,
                "error": error,
            }
            for name in ("Pipe-SGD + T", "Pipe-SGD + Q")
            if not math.isnan(numbers.get(name, math.nan))
        ]
    return pd.DataFrame(rows)


def list_targets() -> list[Target]:
    """Figure 4, row MNIST-MLP: the epochs and the times of the same runs."""
    shown = ("D-Sync", "PS-Sync", "Pipe-SGD", "Pipe-SGD + T", "Pipe-SGD + Q")
    return [Target("MNIST-MLP, 4 workers", "fig4-mnist", 0.97, "D-Sync", {name: name for name in shown})]


TABLES = {
    made.__name__: made for made in (speedups, steps, phases, accuracies, ring, percentages, reductions, resolution)
} | target_tables(list_targets)
