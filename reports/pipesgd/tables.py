"""The tables that figures and tables of the Pipe-SGD page are made from, beside the tidy ones."""

from __future__ import annotations

import itertools
import math

import pandas as pd

from repro.answers.claims.compute import COMPUTATION
from repro.answers.claims.evidence import outcome_of
from repro.answers.pages import reference
from repro.answers.tables.results import Results

PAPER = "pipesgd"
# Figure 4's rows: experiment -> what the paper (and reference/pipesgd.csv) calls it
FIGURE4 = {
    "fig4-mnist": "MNIST-MLP",
    "fig4-alexnet": "AlexNet",
    "fig4-resnet18": "ResNet18",
    "fig4-cifar100-convex": "CIFAR100-Convex",
}


def quoted(quantity: str) -> pd.DataFrame:
    """What the paper prints of a quantity: place, row, variant, value."""
    found = reference.quoted(PAPER).table
    return found[found["quantity"] == quantity]


def speedups(found: Results) -> pd.DataFrame:
    """Of the fastest compressed Pipe-SGD: a row a benchmark, baseline and kind; of the paper's range its ends alone."""
    rows = []
    for one in found.judged:
        over = {"speedup-vs-dsync": "over D-Sync", "speedup-vs-ps": "over PS-Sync"}
        ending = next((ending for ending in over if one.claim.id.endswith(ending)), None)
        if ending and one.ours:
            about = {"benchmark": FIGURE4[one.claim.experiment], "over": over[ending]}
            ours, paper = one.ours, one.claim.paper
            rows.append(about | {"kind": one.kind, "speedup": ours.point, "low": ours.low, "high": ours.high})
            rows.append(about | {"kind": "paper", "speedup": math.nan, "low": paper.low, "high": paper.high})
    return pd.DataFrame(rows).drop_duplicates() if rows else pd.DataFrame()


def steps(found: Results) -> pd.DataFrame:
    """Seconds of an iteration at the paper's rate of each benchmark, emulated and simulated."""
    frames = [
        group.frame[["kind", "variant", "seed", "iteration_s"]].assign(benchmark=benchmark)
        for name, benchmark in FIGURE4.items()
        for kind, group in found.of(name).items()
        if kind != "measured"
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def phases(found: Results) -> pd.DataFrame:
    """Figure 4, third column: seconds of 1,000 iterations in the paper's three parts, simulated; and the accuracy that
    the paper writes above each of its bars."""
    printed = "paper\n" + quoted("final top-1").set_index(["row", "variant"])["value"].astype(str)
    rows = []
    for name, benchmark in FIGURE4.items():
        group = found.shown.get((name, "simulated"))
        for run in group.records.values() if group else ():
            of = run["phases"]
            parts = {
                "computation": sum(of[phase] for phase in COMPUTATION),
                "compression": of["compress"],
                "communication, not hidden": of["communicate"] + of["wait"],
            }
            row = {"benchmark": benchmark, "variant": run["variant"], "kind": "simulated", "seed": run["seed"],
                   "printed": printed.get((benchmark, run["variant"]))}  # fmt: skip
            rows += [row | {"part": part, "thousand_s": 1e3 * seconds} for part, seconds in parts.items()]
    return pd.DataFrame(rows, columns=["benchmark", "variant", "kind", "seed", "printed", "part", "thousand_s"])


def accuracies(found: Results) -> pd.DataFrame:
    """Final top-1 of Figure 4, the paper's and ours where it is of the paper's data."""
    printed = quoted("final top-1").rename(columns={"row": "benchmark", "value": "top-1"})
    rows = printed.assign(kind="paper")[["benchmark", "variant", "kind", "top-1"]].to_dict("records")
    shown = set()
    for name, benchmark in FIGURE4.items():
        for kind in ("measured", "simulated"):
            group = found.shown.get((name, kind))
            if group and not (group.standin or group.timing_only):
                shown.add(benchmark)
                own = group.frame[["variant", "kind", "seed", "final"]].rename(columns={"final": "top-1"})
                rows += own.assign(benchmark=benchmark).to_dict("records")
    table = pd.DataFrame(rows, columns=["benchmark", "variant", "kind", "seed", "top-1"])
    return table[table["benchmark"].isin(shown)].astype({"top-1": float})


def ring(found: Results) -> pd.DataFrame:
    """TernGrad's work over communication, both ways, and by what factor these differ: the paper's ends, ours."""
    rows = []
    for end in ("least", "most"):
        whole, less = (
            float(quoted(f"TernGrad overhead / {which} communication, {end}")["value"].iloc[0])
            for which in ("uncompressed", "compressed")
        )
        rows.append({"of": end, "kind": "paper", "uncompressed": whole, "compressed": less})
    group = found.shown.get(("fig3-ring", "simulated"))
    for run in group.records.values() if group else ():
        for entry in run["result"]["overheads"]:
            if entry["codec"] == "ternary" and run["workers"] == 4:
                ours = {"uncompressed": entry["per_uncompressed"], "compressed": entry["per_compressed"]}
                rows.append({"of": entry["benchmark"], "kind": "simulated"} | ours)
    table = pd.DataFrame(rows)
    return table.assign(factor=table["compressed"] / table["uncompressed"])


def percentages(found: Results) -> pd.DataFrame:
    """What the paper prints of CIFAR100-Convex, and what follows from one of its numbers (Pipe-SGD 37 % over D-Sync).

    Equations (2) and (4), PS-Sync with twice the communication of D-Sync, truncation that halves it and costs nothing.
    """

    def said(quantity: str, variant: str = "Pipe-SGD") -> float:
        of = quoted(quantity)
        return float(of[of["variant"] == variant]["value"].iloc[0]) / 100

    given = said("faster than D-Sync")
    every = {
        name: _following(1 / (1 - given) - 1 if shorter else given, shorter)
        for name, shorter in (("as a shorter time", True), ("as a higher speed", False))
    }
    stated = {
        "Pipe-SGD faster than D-Sync": f"{given:.0%} (given)",
        "D-Sync faster than PS-Sync": f"around {said('faster than PS-Sync, about', 'D-Sync'):.0%}",
        "Pipe-SGD + T faster than D-Sync + T": f"{said('faster than D-Sync + T', 'Pipe-SGD + T'):.0%}",
        "Pipe-SGD + T over D-Sync": _range("speed-up against D-Sync"),
        "Pipe-SGD + T over PS-Sync": _range("speed-up against PS-Sync"),
        "communication over computation": "",
    }
    rows = [{"what": what, "printed": text} | {name: of[what] for name, of in every.items()}
            for what, text in stated.items()]  # fmt: skip
    return pd.DataFrame(rows)


def _range(quantity: str) -> str:
    low, high = (float(quoted(f"{quantity}, {end}")["value"].iloc[0]) for end in ("least", "most"))
    return f"{low:g} to {high:g} times"


def _following(computation: float, shorter: bool) -> dict[str, str]:
    """All that follows where computation takes so much of the communication's time, less than all."""
    d_sync, ps_sync, cut = computation + 1, computation + 2, computation + 0.5
    pipe, pipe_cut = max(computation, 1.0), max(computation, 0.5)

    def faster(one: float, other: float) -> str:
        return f"{1 - one / other:.0%}" if shorter else f"{other / one - 1:.0%}"

    return {
        "Pipe-SGD faster than D-Sync": faster(pipe, d_sync),
        "D-Sync faster than PS-Sync": faster(d_sync, ps_sync),
        "Pipe-SGD + T faster than D-Sync + T": faster(pipe_cut, cut),
        "Pipe-SGD + T over D-Sync": f"{d_sync / pipe_cut:.2f} times",
        "Pipe-SGD + T over PS-Sync": f"{ps_sync / pipe_cut:.2f} times",
        "communication over computation": f"{1 / computation:.2f}",
    }


def staggered_reduction(workers: int) -> float:
    """Bandwidth terms only, served in order: the pulls of one worker run beside the pushes of the next."""
    return 1 - (2 * (workers - 1) / workers) / (workers + 1)


def incast_reduction(workers: int) -> float:
    """Bandwidth terms only: a ring's 2(p-1)/p·n·beta against 2·p·n·beta through one server's link (docs/errata.md)."""
    return 1 - (2 * (workers - 1) / workers) / (2 * workers)


def reductions(found: Results) -> pd.DataFrame:
    """By how much less time D-Sync communicates than PS-Sync: the paper's, closed forms for its workers, ours."""
    workers = int(quoted("worker nodes (Titan XP, Xeon E5-2640)")["value"].iloc[0])
    printed = -float(quoted("uncompressed communication time against PS-Sync")["value"].iloc[0]) / 100
    rows = [
        {"of": "all four", "kind": "paper", "less": printed},
        {"of": "pushes, then pulls, share one link", "kind": "arithmetic", "less": incast_reduction(workers)},
        {"of": "pulls run beside pushes", "kind": "arithmetic", "less": staggered_reduction(workers)},
    ]
    claim = next(claim for claim in found.file.claims if claim.id == "communication-halved")
    for (name, benchmark), kind in itertools.product(FIGURE4.items(), ("simulated", "emulated")):
        group = found.shown.get((name, kind))
        if group and (values := outcome_of(claim, group).values):
            rows.append({"of": benchmark, "kind": kind, "less": next(iter(values.values()))})
    return pd.DataFrame(rows)


def resolution(found: Results) -> pd.DataFrame:
    """The paper's gaps of accuracy to D-Sync, and one standard error of the difference of two results."""
    every = quoted("final top-1").pivot(index="row", columns="variant", values="value").astype(float)
    sizes = pd.concat([quoted("test images"), quoted("validation images")])
    rows = []
    for benchmark, of in every.iterrows():
        images = float(sizes[[str(benchmark) in name for name in sizes["row"]]]["value"].iloc[0])
        error = math.sqrt(2 * of["D-Sync"] * (1 - of["D-Sync"]) / images)
        rows += [
            {"benchmark": benchmark, "variant": name, "gap": of[name] - of["D-Sync"], "images": images, "error": error}
            for name in ("Pipe-SGD + T", "Pipe-SGD + Q")
            if not math.isnan(of.get(name, math.nan))
        ]
    return pd.DataFrame(rows)


TABLES = {
    made.__name__: made for made in (speedups, steps, phases, accuracies, ring, percentages, reductions, resolution)
}
