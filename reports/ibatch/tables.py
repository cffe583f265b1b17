"""The tables of the iBatch page that are no tidy tables as they are: speed-ups beside the paper's, parts of an
iteration, layers, decisions, and arithmetic on the paper's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from repro.answers.claims import arithmetic
from repro.answers.claims.arithmetic import Check, check
from repro.answers.claims.stats import TIMES, number
from repro.answers.pages.reference import Quoted, quoted
from repro.answers.tables.loading import Summary
from repro.answers.tables.results import Results
from repro.answers.tables.runs import row_of
from repro.reports.ibatch.derived import batches, waits

PAPER = "ibatch"
ESTIMATED, OF_26 = "estimated processors", f"processors implied by 26{TIMES}"
# how experiments' names end -> the network as the paper writes it
NETWORKS = {"googlenet": "GoogLeNet", "inception": "Inception-V3", "vgg19": "VGG19", "vgg19-22k": "VGG19-22K"}
OTHER = "other"
VGG19, VGG19_22K = NETWORKS["vgg19"], NETWORKS["vgg19-22k"]
SINGLE, DEFAULT, LAYERWISE, IBATCH = "single", "default", "layerwise", "ibatch"
CALLED = {DEFAULT: "default", LAYERWISE: "layer by layer", IBATCH: "iBatch"}  # as the paper does
IMPLIED = "-implied"
SCALING = "Section Scalability"
MEDIUM, LARGEST = 30, 72
FORWARD = 1 / 3  # of an iteration: the backward pass computes two gradients where the forward pass has a product
ROUNDING = 0.5  # of a printed speed-up


def speedup(network: str, mode: str, nodes: int) -> float | None:
    """The paper's, over a single node; None where it prints none."""
    found = quoted(PAPER).maybe(SCALING, network, mode, f"speed-up, {nodes} nodes")
    return None if found is None else float(found)


def printed(nodes: int) -> dict[str, dict[str, float]]:
    """Network -> mode -> speed-up, of the networks of which the paper prints all three on that many nodes."""
    found = {name: {mode: speedup(name, mode, nodes) for mode in CALLED} for name in NETWORKS.values()}
    return {name: {m: known for m, known in of.items() if known} for name, of in found.items() if all(of.values())}


def _runs(found: Results, figure: str) -> Iterator[tuple[dict[str, Any], Summary]]:
    """Of the simulated runs of a figure: what names them on the page, and the run; modes in the paper's order."""
    for ending, testbed in (("", ESTIMATED), (IMPLIED, OF_26)):
        group = found.shown.get((f"{figure}{ending}", "simulated"))
        for mode in (SINGLE, *CALLED):
            for run in group.records.values() if group else ():
                if run["factors"].get("method") == mode:
                    network = NETWORKS.get(run["experiment"].partition("-")[2], OTHER)
                    yield {"figure": figure, "testbed": testbed, "network": network, "mode": mode,
                           "nodes": run["workers"], "kind": run["kind"]}, run  # fmt: skip


# --- Figures 5 and 6


def speedups(found: Results) -> pd.DataFrame:
    """Speed-up by network, mode and nodes on each testbed, the paper's printed ones beside each.

    Samples a second over those of a single node: every node computes a minibatch of its own an iteration.
    """
    every = (one for figure in ("fig5", "fig6") for one in _runs(found, figure))
    runs = pd.DataFrame([about | {"step_s": run["step"]["mean_s"]} for about, run in every])
    if runs.empty:
        return runs
    alone = runs[runs["mode"] == SINGLE].groupby(["figure", "testbed", "network"])["step_s"].median().rename("alone_s")
    runs = runs[runs["mode"] != SINGLE].join(alone, on=alone.index.names)
    ours = runs.assign(source="simulated, " + runs["testbed"], speedup=runs["nodes"] * runs["alone_s"] / runs["step_s"])
    theirs = [speedup(run.network, run.mode, run.nodes) for run in runs.itertuples()]
    theirs = runs.assign(kind="paper", source="paper", speedup=theirs).query("figure == 'fig5'")
    intervals = [found.interval(run.figure + IMPLIED * (run.testbed == OF_26), run.kind, *_sides(run))
                 for run in ours.itertuples()]  # fmt: skip
    ours = ours.assign(low=[low for low, _ in intervals], high=[high for _, high in intervals])
    both = pd.concat([ours, theirs.astype({"speedup": float})]).dropna(subset=["speedup"])
    both = both.assign(mode=both["mode"].map(CALLED))
    order = [*NETWORKS.values(), OTHER]
    return both.sort_values("network", key=lambda names: names.map(order.index), kind="stable")


def _sides(run: Any) -> list[dict[str, str]]:
    """The runs that a speed-up compares, as claims choose them."""
    ending = next((ending for ending, name in NETWORKS.items() if name == run.network), "")
    return [{"experiment": f"{run.figure}-{ending}", "variant": name} for name in (f"{run.mode} {run.nodes}", SINGLE)]


# --- Figures 3, 4 and 7


def parts(found: Results) -> pd.DataFrame:
    """Of pulls and forward pass on 72 nodes: what overlaps and what does not, in shares of all of the default's."""
    rows, whole = [], {}
    for about, run in _runs(found, "fig5"):
        of, panel = row_of(run), f"{about['network']}, {about['testbed']}"
        if about["mode"] in CALLED and about["nodes"] == LARGEST and "per_rank.pull_s" in of:
            pull, forward, both = (of[f"per_rank.{name}_s"] for name in ("pull", "forward", "overlap"))
            whole.setdefault(panel, pull + forward - both)  # the default's, which is the first
            each = {"overlapping": both, "communication alone": pull - both, "computation alone": forward - both}
            rows += [about | {"panel": panel, "mode": CALLED[about["mode"]], "part": part, "share": s / whole[panel]}
                     for part, s in each.items()]  # fmt: skip
    return pd.DataFrame(rows)


def layers(found: Results) -> pd.DataFrame:
    """Figure 3: a row a layer, testbed and what it waits for, from the profile: milliseconds."""
    return pd.DataFrame(
        about | {"layer": str(place), "what": what, "ms": 1e3 * seconds}
        for about, run in _runs(found, "fig3")
        if about["mode"] == IBATCH
        for place, of in enumerate(waits(run).values(), 1)
        for what, seconds in (("pull", of["pull"]), ("forward computation", of["forward"]))
    )


def timeline(found: Results) -> pd.DataFrame:
    """Figure 4: a row a stretch of the first forward pass of a worker: what it does, seconds from its first pull."""
    rows = []
    for about, run in _runs(found, "fig3"):
        if about["mode"] not in CALLED or not (trace := run.get("trace")):
            continue
        rank = min(entry["rank"] for entry in trace if entry["line"] == "pull")
        own = [entry for entry in trace if entry["rank"] == rank]
        end = min(entry["start"] for entry in own if entry["name"] == "backward")
        parts = {("pull", "startup"): "startup of a pull", ("pull", "communicate"): "pull",
                 ("main", "forward"): "forward computation"}  # fmt: skip
        for entry in own:
            if entry["start"] < end and (part := parts.get((entry["line"], entry["name"]))):
                line = "pulls" if entry["line"] == "pull" else "computation"
                rows.append(about | {"mode": CALLED[about["mode"]], "what": part, "line": line,
                                     "start_s": entry["start"], "end_s": entry["end"]})  # fmt: skip
    return pd.DataFrame(rows)


def case(found: Results) -> pd.DataFrame:
    """The case study's decisions: batches, pulls, the end of the forward pass; milliseconds."""
    return pd.DataFrame(
        about | {"mode": CALLED[about["mode"]], "batches": _written(batches(run))}
        | {f"{name}_ms": 1e3 * row[f"per_rank.first_step.{name}_s"] for name in ("forward_end", "pull", "overlap")}
        for about, run in _runs(found, "fig3")
        if "per_rank.first_step.pull_s" in (row := row_of(run))
    )  # fmt: skip


def _written(found: Sequence[tuple[int, int]]) -> str:
    """As the paper writes them: `[1, 5], [6, 10], [11, 12]`; many are counted."""
    return ", ".join(f"[{first}, {last}]" for first, last in found) if len(found) < 7 else f"{len(found)} batches"


# --- random profiles


def random(found: Results) -> pd.DataFrame:
    """Of random profiles: the median percentage by which a mode's batches take longer than the best possible ones."""
    group = found.shown.get(("random-profiles", "simulated"))
    return pd.DataFrame(
        {"family": row["family"], "layers": row["layers"], "startup": f"{row['startup']:g}", "mode": CALLED[mode],
         "percent": 100 * row["modes"]["greedy" if mode == IBATCH else mode]["median"], "kind": run["kind"],
         "seed": run["seed"]}
        for run in (group.records.values() if group else ())
        for row in run["result"]["rows"] if row["family"] is not None
        for mode in CALLED
    )  # fmt: skip


# --- arithmetic on the paper's numbers


def communication(nodes: int, speedup: float) -> float:
    """Exposed communication in iterations of one node: what an iteration of N takes beyond that of one, N / s - 1."""
    return nodes / speedup - 1


def saved(_: Results) -> pd.DataFrame:
    """What iBatch saves of an iteration as printed, and the most that hiding pulls behind the forward pass can save:
    the shorter of the two, if a pull is half of the default's communication; low and high: by rounding of speed-ups."""
    rows = []
    for nodes in (MEDIUM, LARGEST):
        for name, of in printed(nodes).items():
            ends = (-ROUNDING, 0.0, ROUNDING)  # of the default's; iBatch's is rounded against it
            saving = [nodes / (of[DEFAULT] + end) - nodes / (of[IBATCH] - end) for end in ends]
            most = [min(communication(nodes, of[DEFAULT] + end) / 2, FORWARD) for end in ends]
            for key, each in (("saved, as printed", saving), ("the most that overlap saves", most)):
                rows.append({"what": f"{name}, {nodes} nodes", "quantity": key, "kind": "paper", "iterations": each[1],
                             "low": min(each), "high": max(each)})  # fmt: skip
    return pd.DataFrame(rows)


def sums(_: Results) -> pd.DataFrame:
    """Numbers of the paper that follow from others of it."""
    return arithmetic.table(_checks(quoted(PAPER)))


def _checks(paper: Quoted) -> Iterator[Check]:
    of_large, of_medium = printed(LARGEST)[VGG19_22K], printed(MEDIUM)
    for mode in (DEFAULT, LAYERWISE):
        better = paper.value(SCALING, VGG19_22K, IBATCH, f"improvement over {mode}, {LARGEST} nodes")
        yield check(f"{VGG19_22K}, {LARGEST} nodes: improvement over {mode}", better,
                    100 * (of_large[IBATCH] / of_large[mode] - 1), " %",
                    f"{of_large[IBATCH]:g} / {of_large[mode]:g} - 1")  # fmt: skip
    ratios = {name: number(of[LAYERWISE] / of[DEFAULT]) for name, of in of_medium.items()}
    yield Check(
        f'{MEDIUM} nodes: layer by layer scales "better than" the default',
        f"> 1{TIMES}",
        ", ".join(f"{ratio}{TIMES}" for ratio in ratios.values()),
        f"of {', '.join(ratios)}: probably swapped",
    )
    for mode in (DEFAULT, LAYERWISE):
        small, large = communication(MEDIUM, of_medium[VGG19_22K][mode]), communication(LARGEST, of_large[mode])
        nodes = LARGEST / MEDIUM
        yield Check(f"{VGG19_22K}, {mode}: communication on {LARGEST} nodes over that on {MEDIUM}",
                    f"{number(large / small)}{TIMES}", f"{number(nodes)}{TIMES}",
                    f"nodes / speed-up - 1: {number(large)} over {number(small)} iterations of one node; a blade's "
                    "link has so many times the nodes", nodes * small / large)  # fmt: skip
    sizes = [paper.value("Table 1", name, "all", "parameters") for name in (VGG19, VGG19_22K)]
    pull = communication(LARGEST, of_large[DEFAULT]) / 2 * sizes[0] / sizes[1]
    left = max(0.0, pull - FORWARD)
    yield check(f'{VGG19}, {LARGEST} nodes, sparsified: speed-up ("almost linear")',
                paper.value("Figure 6", "all", IBATCH, "nodes, almost linear with sparsification"),
                LARGEST / (1 + left), TIMES,
                f"pushes free, pulls {number(pull)} iterations of one node ({VGG19_22K}'s by parameters), of which the "
                f"forward pass hides a third: {LARGEST} / (1 + {number(left)})")  # fmt: skip


TABLES: dict[str, Callable[[Results], pd.DataFrame]] = {
    made.__name__: made for made in (speedups, parts, layers, timeline, case, random, saved, sums)
}
