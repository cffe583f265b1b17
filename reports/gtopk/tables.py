"""The tables of the gTop-k page: our numbers beside the paper's tables, its time model and its formulas.

Kinds of rows: `paper` is printed; `released` is what the authors measured and released beside the paper; `paper's
model` is Table I's formulas with the published alpha and beta, for an iteration added to Table VI's computation;
`simulated, congested` is on the network and host that the released numbers imply.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pandas as pd

from repro.answers.claims.compute import COMPUTING
from repro.answers.tables.results import Results, speedup_with_range
from repro.answers.tables.time_to_target import Target, target_tables
from repro.core.not_none import not_none
from repro.records.filters import select_rows
from repro.records.kinds import EMULATED, SIMULATED
from repro.reports.gtopk.published import (
    ALGORITHMS,
    MODELS,
    MOST,
    NAMES,
    PARTS,
    alpha_beta,
    closed_form_s,
    implied_mbit,
    modelled,
    printed,
    released,
    speedup,
)

PAPER, MODEL, RELEASED, CONGESTED = "paper", "paper's model", "released", "simulated, congested"
SHOWN = (PAPER, RELEASED, MODEL, EMULATED, SIMULATED, CONGESTED)
WORKERS_PANEL, SIZE_PANEL = "100 MB, by workers", "32 workers, by MB"
PLACE = ["model", "algorithm", "workers"]


def iterations(results: Results) -> pd.DataFrame:
    """A row a kind, model, algorithm and number of workers: seconds of an iteration, examples a second of all workers
    and equation (4)'s efficiency in percent."""
    kinds = {MODEL: modelled(), PAPER: printed(), RELEASED: released()}
    kinds |= {kind: fig10_medians(results, kind) for kind in (EMULATED, SIMULATED)}
    kinds[CONGESTED] = fig10_medians(results, SIMULATED, "fig10-congested")
    every = pd.concat([table.assign(kind=kind) for kind, table in kinds.items() if len(table)], ignore_index=True)
    every["throughput"] = every["workers"] * every["batch"] / every["seconds"]
    every["percent"] = 100 * every["computation_s"] / every["seconds"]
    return every.sort_values("model", key=lambda names: names.map(MODELS.index), kind="stable")


def fig10_medians(results: Results, kind: str, shown: str = "fig10") -> pd.DataFrame:
    """Medians over Figure 10's runs of a kind; communication includes waiting for other workers."""
    if not (group := results.shown.get((shown, kind))):
        return pd.DataFrame()
    runs = group.frame.rename(
        columns={"factors.method": "algorithm", "step_s": "seconds", "phases.compress": "compression"}
    )
    paper_s = runs["algorithm"].isin(ALGORITHMS) & runs["factors.model"].isin(MODELS)  # leaves out a user's own
    runs = runs[paper_s & ~runs["breakdown"].eq(True)].assign(
        model=runs["factors.model"],
        batch=runs["batch"] / runs["workers"],
        computation_s=runs["phases.forward"] + runs["phases.backward"],
        computation=sum(runs[f"phases.{name}"] for name in COMPUTING),
        communication=runs["phases.communicate"] + runs["phases.wait"],
    )
    every = runs.groupby(PLACE)[["seconds", *PARTS]].median().reset_index()
    return every.merge(runs.groupby("model")[["batch", "computation_s"]].median().reset_index())


def messages(results: Results) -> pd.DataFrame:
    """Seconds of a message by kind and size, and the paper's model at the same sizes."""
    groups = [group.rows for group in results.of("fig8").values()]
    if not groups:
        return pd.DataFrame()
    ours = pd.concat(groups, ignore_index=True).rename(columns={"mean_s": "seconds"})[
        ["kind", "seed", "bytes", "seconds"]
    ]
    alpha, beta = alpha_beta()
    line = ours[["bytes"]].drop_duplicates().sort_values("bytes").assign(kind=MODEL, seed=0)
    return pd.concat([ours, line.assign(seconds=alpha + beta * line["bytes"])])


def collectives(results: Results) -> pd.DataFrame:
    """Seconds of Figure 9's collectives, as run and by the formulas, which the paper draws."""
    ours = pd.DataFrame(
        {"panel": panel, "x": x, "algorithm": NAMES[row["algorithm"]], "kind": run.kind, "seed": run.identity.seed,
         "ranks": row["ranks"], "bytes": row["bytes"], "seconds": row["seconds"]["median"]}
        for group in results.of("fig9").values()
        for run in group.records.values()
        for row in run.probe.found["rows"]
        for panel, x in _panels(row["bytes"], row["ranks"])
    )  # fmt: skip
    if ours.empty:
        return ours
    places = ["panel", "x", "algorithm", "ranks", "bytes"]
    line = ours[places].drop_duplicates().sort_values(places).assign(kind=MODEL, seed=0)
    seconds = [
        closed_form_s(point.algorithm, point.ranks, round(point.bytes / 4), *alpha_beta())
        for point in line.itertuples()
    ]
    return pd.concat([ours, line.assign(seconds=seconds)])


def _panels(size: float, ranks: int) -> Iterator[tuple[str, float]]:
    """The panels of Figure 9 that show a gradient of this size, and its x there; one worker alone sends nothing."""
    if size == 100e6 and ranks > 1:
        yield WORKERS_PANEL, ranks
    if ranks == MOST:
        yield SIZE_PANEL, size / 1e6


def efficiency(results: Results) -> pd.DataFrame:
    """Scaling efficiency in percent: Figure 10."""
    every = select_rows(iterations(results), ["workers>1", *(f"kind!={kind}" for kind in (EMULATED, MODEL, PAPER))])
    return every.sort_values("workers", kind="stable")


def speedups(results: Results) -> pd.DataFrame:
    """gTop-k's speed-up with 32 workers by kind; low, high: as of `speedup_with_range`."""
    every = (
        select_rows(iterations(results), {"workers": MOST})
        .set_index(["kind", "model", "algorithm"])["seconds"]
        .unstack()
    )
    judged = {
        (over, not_none(each.claim.value).of["factors.model"], CONGESTED if ending else each.kind): each.estimate
        for (over, name), ending in product({"Dense": "dense", "Top-k": "topk"}.items(), ("", "-congested"))
        for each in results.claims(f"*-over-{name}{ending}", f"fig10{ending}")
    }
    rows = []
    for over, model, kind in product(("Dense", "Top-k"), MODELS, SHOWN):
        if (kind, model) not in every.index:
            continue
        value = speedup(model, over) if kind == PAPER else every[over][kind, model] / every["gTop-k"][kind, model]
        about = {"over": f"over {over}", "model": model, "kind": kind}
        rows.append(about | speedup_with_range(value, judged.get((over, model, kind))))
    return pd.DataFrame(rows).dropna(subset="speedup")


def throughput(results: Results) -> pd.DataFrame:
    """Table VII beside our kinds of number; mbit: the bandwidth at which the time model gives the printed number."""
    every = select_rows(iterations(results), {"workers": MOST}).pivot(index=PLACE[:2], columns="kind")
    theirs = every.xs(PAPER, axis=1, level="kind")
    rows = every["throughput"].reindex(columns=list(SHOWN)).assign(
        model_over_paper=theirs["seconds"] / every["seconds"][MODEL],
        efficiency=theirs["percent"],
        mbit=[implied_mbit(*place, row["seconds"] - row["computation_s"]) for place, row in theirs.iterrows()],
    )  # fmt: skip
    return rows.reindex(product(MODELS, ALGORITHMS)).reset_index()


def breakdown(results: Results) -> pd.DataFrame:
    """Figure 11: seconds of the parts of an iteration; `all else`: Table VII's iteration less Table VI's."""
    every = select_rows(iterations(results), [f"workers={MOST}", "algorithm=gTop-k", f"kind!={MODEL}"])
    about = ["model", "algorithm", "kind"]
    every = every.reindex(columns=[*about, "seconds", "computation_s", *PARTS])
    theirs = every["kind"] == PAPER
    every["all else"] = (every["seconds"] - every["computation_s"]).where(theirs)
    every["computation"] = every["computation"].mask(theirs, every["computation_s"])
    parts = every.drop(columns="seconds").melt(about, [*PARTS, "all else"], "part", "seconds")
    return parts.dropna(subset="seconds")


def bandwidth(results: Results) -> pd.DataFrame:
    """gTop-k's speed-up over each other method, by the network's bandwidth and latency."""
    if not (group := results.shown.get(("bandwidth", SIMULATED))):
        return pd.DataFrame()
    runs = group.frame.rename(columns=lambda name: name.removeprefix("factors."))
    seconds = runs.groupby(["alpha_ms", "gbit", "method"])["step_s"].median().unstack()
    every = seconds.drop(columns="gTop-k").div(seconds["gTop-k"], axis=0).stack().rename("speedup").reset_index()
    return every.assign(
        gbit=every["gbit"].astype(float),
        over="over " + every["method"].astype(str),
        latency="latency " + every["alpha_ms"].astype(str) + " ms",
    )


def list_targets() -> list[Target]:
    """ResNet-20, which the paper trains, with one seed; a small network with three."""
    whole = ["Dense", "Top-k", "gTop-k", "gTop-k, exact residual"]
    small = {f"{name}, P=4": name for name in ("Dense", "gTop-k", "gTop-k, exact residual")}
    return [
        Target("ResNet-20 on a part of CIFAR-10, 4 workers", "fig5-resnet20", 0.4, "Dense", dict(zip(whole, whole))),
        Target("MNIST-MLP, 4 workers", "lost-mass", 0.8, "Dense, P=4", small),
    ]


TABLES = {
    made.__name__: made for made in (messages, collectives, efficiency, speedups, throughput, breakdown, bandwidth)
} | target_tables(list_targets)
