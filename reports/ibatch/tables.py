"""The tables of the iBatch page: speed-ups beside the paper's, parts of an iteration, layers, batches, and checks of
the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from repro.answers.claims import arithmetic
from repro.answers.claims.arithmetic import Check, check_numbers
from repro.answers.claims.stats import TIMES, format_number
from repro.answers.claims.value import Value
from repro.answers.claims.verdict import Interval
from repro.answers.pages.reference import Quoted, quoted
from repro.answers.tables.results import Results, speedup_with_range
from repro.answers.tables.runs import row_of
from repro.records.filters import select_rows
from repro.records.record import Found
from repro.reports.ibatch.derived import DEFAULT, IBATCH, LAYERWISE, read_batches, read_waits

PAPER = "ibatch"
ESTIMATED, OF_26 = "estimated processors", f"processors implied by 26{TIMES}"
# suffix of an experiment's name -> the network as the paper writes it
NETWORKS = {"googlenet": "GoogLeNet", "inception": "Inception-V3", "vgg19": "VGG19", "vgg19-22k": "VGG19-22K"}
OTHER = "other"
VGG19, VGG19_22K = NETWORKS["vgg19"], NETWORKS["vgg19-22k"]
SINGLE = "single"
CALLED = {DEFAULT: "default", LAYERWISE: "layer by layer", IBATCH: "iBatch"}  # the paper's names
IMPLIED = "-implied"
SCALING = "Section Scalability"
MEDIUM, LARGEST = 30, 72
FORWARD = 1 / 3  # of an iteration: the backward pass computes two products for each one of the forward pass
ROUNDING = 0.5  # of a printed speed-up


def speedup(network: str, mode: str, nodes: int) -> float | None:
    """The paper's speed-up over a single node; None if it prints none."""
    text = quoted(PAPER).maybe(SCALING, network, mode, f"speed-up, {nodes} nodes")
    return None if text is None else float(text)


def printed(nodes: int) -> dict[str, dict[str, float]]:
    """network -> mode -> speed-up, for the networks with printed speed-ups of all three modes on that many nodes."""
    every = {name: {mode: speedup(name, mode, nodes) for mode in CALLED} for name in NETWORKS.values()}
    return {
        name: {mode: value for mode, value in by_mode.items() if value}
        for name, by_mode in every.items()
        if all(by_mode.values())
    }


def _runs(results: Results, figure: str) -> Iterator[tuple[dict[str, Any], Found]]:
    """(the page's columns, run) for the simulated runs of a figure; modes in the paper's order."""
    for ending, testbed in (("", ESTIMATED), (IMPLIED, OF_26)):
        group = results.shown.get((f"{figure}{ending}", "simulated"))
        for mode in (SINGLE, *CALLED):
            for run in group.records.values() if group else ():
                if run.identity.factors.get("method") == mode:
                    network = NETWORKS.get(run.identity.experiment.partition("-")[2], OTHER)
                    yield {"figure": figure, "testbed": testbed, "network": network, "mode": mode,
                           "nodes": run.identity.workers, "kind": run.kind}, run  # fmt: skip


# --- Figures 5 and 6


def speedups(results: Results) -> pd.DataFrame:
    """Speed-up by network, mode and nodes on each testbed, and the paper's; of_linear: over the number of nodes.

    It is a ratio of samples a second to a single node's: every node computes its own minibatch in an iteration.
    """
    every = (each for figure in ("fig5", "fig6") for each in _runs(results, figure))
    runs = pd.DataFrame(
        about | {"experiment": run.identity.experiment, "variant": run.label, "step_s": run.training.step.mean_s}
        for about, run in every
    )
    if runs.empty:
        return runs
    alone = (
        select_rows(runs, {"mode": SINGLE})
        .groupby(["figure", "testbed", "network"])["step_s"]
        .median()
        .rename("alone_s")
    )
    runs = select_rows(runs, f"mode!={SINGLE}").join(alone, on=alone.index.names)
    ours = runs.assign(source="simulated, " + runs["testbed"], speedup=runs["nodes"] * runs["alone_s"] / runs["step_s"])
    theirs = [speedup(run.network, run.mode, run.nodes) for run in runs.itertuples()]
    theirs = select_rows(runs.assign(kind="paper", source="paper", speedup=theirs), {"figure": "fig5"})
    ranges = [speedup_with_range(run.speedup, _estimate(results, run)) for run in ours.itertuples()]
    ours = ours.assign(**pd.DataFrame(ranges, ours.index))
    both = pd.concat([ours, theirs.astype({"speedup": float})]).dropna(subset=["speedup"])
    both = both.assign(mode=both["mode"].map(CALLED), of_linear=both["speedup"] / both["nodes"])
    order = [*NETWORKS.values(), OTHER]
    return both.sort_values("network", key=lambda names: names.map(order.index), kind="stable")


def _estimate(results: Results, run: Any) -> Interval | None:
    """Our number of a speed-up over a single node."""
    of_side, over_side = ({"experiment": run.experiment, "variant": label} for label in (run.variant, SINGLE))
    value = Value(verb="ratio", column="samples_per_s", of=of_side, over=over_side)
    return results.estimate(value, f"{run.figure}{IMPLIED * (run.testbed == OF_26)}", run.kind)


# --- Figures 3, 4 and 7


def parts(results: Results) -> pd.DataFrame:
    """Pulls and forward pass on 72 nodes: the overlapping time and the rest, over the total of the default."""
    rows, whole = [], {}
    for about, run in _runs(results, "fig5"):
        row, panel = row_of(run), f"{about['network']}, {about['testbed']}"
        if about["mode"] in CALLED and about["nodes"] == LARGEST and "per_rank.pull_s" in row:
            pull, forward, both = (row[f"per_rank.{name}_s"] for name in ("pull", "forward", "overlap"))
            whole.setdefault(panel, pull + forward - both)  # the default comes first
            each = {"overlapping": both, "communication alone": pull - both, "computation alone": forward - both}
            rows += [about | {"panel": panel, "mode": CALLED[about["mode"]], "part": part, "share": s / whole[panel]}
                     for part, s in each.items()]  # fmt: skip
    return pd.DataFrame(rows)


def layers(results: Results) -> pd.DataFrame:
    """Figure 3: a row a layer and testbed for its pull and its computation, from the profile; milliseconds."""
    return pd.DataFrame(
        about | {"layer": str(place), "what": what, "ms": 1e3 * seconds}
        for about, run in _runs(results, "fig3")
        if about["mode"] == IBATCH
        for place, waits in enumerate(read_waits(run).values(), 1)
        for what, seconds in (("pull", waits["pull"]), ("forward computation", waits["forward"]))
    )


def timeline(results: Results) -> pd.DataFrame:
    """Figure 4: a row an interval of a worker's first forward pass, in seconds from its first pull."""
    rows = []
    for about, run in _runs(results, "fig3"):
        if about["mode"] not in CALLED or not (trace := run.training.trace):
            continue
        rank = min(entry["rank"] for entry in trace if entry["line"] == "pull")
        of_rank = [entry for entry in trace if entry["rank"] == rank]
        end = min(entry["start"] for entry in of_rank if entry["name"] == "backward")
        parts = {("pull", "startup"): "startup of a pull", ("pull", "communicate"): "pull",
                 ("main", "forward"): "forward computation"}  # fmt: skip
        for entry in of_rank:
            if entry["start"] < end and (part := parts.get((entry["line"], entry["name"]))):
                line = "pulls" if entry["line"] == "pull" else "computation"
                rows.append(about | {"mode": CALLED[about["mode"]], "what": part, "line": line,
                                     "start_s": entry["start"], "end_s": entry["end"]})  # fmt: skip
    return pd.DataFrame(rows)


def case(results: Results) -> pd.DataFrame:
    """The case study: batches, and milliseconds of pulls, of overlap and to the end of the forward pass."""
    return pd.DataFrame(
        about | {"mode": CALLED[about["mode"]], "batches": _written(read_batches(run))}
        | {f"{name}_ms": 1e3 * row[f"per_rank.first_step.{name}_s"] for name in ("forward_end", "pull", "overlap")}
        for about, run in _runs(results, "fig3")
        if "per_rank.first_step.pull_s" in (row := row_of(run))
    )  # fmt: skip


def _written(pulls: Sequence[tuple[int, int]]) -> str:
    """Batches as the paper writes them, `[1, 5], [6, 10], [11, 12]`, or the number of many."""
    return ", ".join(f"[{first}, {last}]" for first, last in pulls) if len(pulls) < 7 else f"{len(pulls)} batches"


# --- random profiles


def random(results: Results) -> pd.DataFrame:
    """Random profiles: the median percentage by which a mode's batches take longer than the optimal ones."""
    group = results.shown.get(("random-profiles", "simulated"))
    return pd.DataFrame(
        {"family": row["family"], "layers": row["layers"], "startup": f"{row['startup']:g}", "mode": CALLED[mode],
         "percent": 100 * row["modes"]["greedy" if mode == IBATCH else mode]["median"], "kind": run.kind,
         "seed": run.identity.seed}
        for run in (group.records.values() if group else ())
        for row in run.probe.found["rows"] if row["family"] is not None
        for mode in CALLED
    )  # fmt: skip


# --- arithmetic on the paper's numbers


def communication(nodes: int, speedup: float) -> float:
    """Exposed communication in iterations of one node: N / s - 1, the extra time of an iteration on N nodes."""
    return nodes / speedup - 1


def saved(_: Results) -> pd.DataFrame:
    """What iBatch saves of an iteration as printed, and the most that hiding pulls behind the forward pass can save.

    The most is the shorter of the two, if pulls are half of the default's communication. low, high: from the rounding
    of the printed speed-ups.
    """
    rows = []
    for nodes in (MEDIUM, LARGEST):
        for name, by_mode in printed(nodes).items():
            ends = (-ROUNDING, 0.0, ROUNDING)  # the default's rounding; iBatch's is the opposite
            saving = [nodes / (by_mode[DEFAULT] + end) - nodes / (by_mode[IBATCH] - end) for end in ends]
            most = [min(communication(nodes, by_mode[DEFAULT] + end) / 2, FORWARD) for end in ends]
            for key, each in (("saved, as printed", saving), ("the most that overlap saves", most)):
                rows.append({"what": f"{name}, {nodes} nodes", "quantity": key, "kind": "paper", "iterations": each[1],
                             "low": min(each), "high": max(each)})  # fmt: skip
    return pd.DataFrame(rows)


def sums(_: Results) -> pd.DataFrame:
    """Checks of the paper's numbers against each other."""
    return arithmetic.checks_table(_checks(quoted(PAPER)))


def _checks(paper: Quoted) -> Iterator[Check]:
    of_large, of_medium = printed(LARGEST)[VGG19_22K], printed(MEDIUM)
    for mode in (DEFAULT, LAYERWISE):
        better = paper.value(SCALING, VGG19_22K, IBATCH, f"improvement over {mode}, {LARGEST} nodes")
        yield check_numbers(f"{VGG19_22K}, {LARGEST} nodes: improvement over {mode}", better,
                    100 * (of_large[IBATCH] / of_large[mode] - 1), " %",
                    f"{of_large[IBATCH]:g} / {of_large[mode]:g} - 1")  # fmt: skip
    ratios = {name: format_number(by_mode[LAYERWISE] / by_mode[DEFAULT]) for name, by_mode in of_medium.items()}
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
                    f"{format_number(large / small)}{TIMES}", f"{format_number(nodes)}{TIMES}",
                    f"nodes / speed-up - 1: {format_number(large)} over {format_number(small)} iterations of one node; "
                    "a blade's link has so many times the nodes", nodes * small / large)  # fmt: skip
    sizes = [paper.value("Table 1", name, "all", "parameters") for name in (VGG19, VGG19_22K)]
    pull = communication(LARGEST, of_large[DEFAULT]) / 2 * sizes[0] / sizes[1]
    left = max(0.0, pull - FORWARD)
    yield check_numbers(f'{VGG19}, {LARGEST} nodes, sparsified: speed-up ("almost linear")',
                paper.value("Figure 6", "all", IBATCH, "nodes, almost linear with sparsification"),
                LARGEST / (1 + left), TIMES,
                f"pushes free, pulls {format_number(pull)} iterations of one node ({VGG19_22K}'s by parameters), "
                f"of which the forward pass hides a third: {LARGEST} / (1 + {format_number(left)})")  # fmt: skip


TABLES: dict[str, Callable[[Results], pd.DataFrame]] = {
    made.__name__: made for made in (speedups, parts, layers, timeline, case, random, saved, sums)
}
