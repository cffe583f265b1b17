"""The tables of the iBatch page that are no tidy tables as they are: speed-ups beside the paper's, parts of an
iteration, layers, decisions, and arithmetic on the paper's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from repro.reporting.stats import TIMES, number
from repro.reports import arithmetic, factors, reference
from repro.reports.arithmetic import Check, check
from repro.reports.ibatch.pulls import (
    DEFAULT,
    IBATCH,
    LAYERWISE,
    MODES,
    NETWORKS,
    Scaling,
    network,
    pipeline,
    times,
)
from repro.reports.ibatch.results import CLUSTERS, IMPLIED, PAPER, RANDOM
from repro.reports.probes import AnyGroup
from repro.reports.results import Results

if TYPE_CHECKING:
    import pandas as pd

ESTIMATED, OF_26 = "estimated processors", f"processors implied by 26{TIMES}"
SCALING = "Section Scalability"
MEDIUM, LARGEST = 30, 72
VGG19, VGG19_22K = NETWORKS["vgg19"], NETWORKS["vgg19-22k"]
FORWARD = 1 / 3  # of an iteration: the backward pass computes two gradients where the forward pass has a product
ROUNDING = 0.5  # of a printed speed-up
CALLED = {DEFAULT: "default", LAYERWISE: "layer by layer", IBATCH: "iBatch"}  # as the paper does
PARTS = {"overlap_s": "overlapping", "communication_s": "communication alone", "computation_s": "computation alone"}


Rows = Iterable[Mapping[str, Any]]


class Published(reference.Quoted):
    """The paper's own numbers."""

    paper = PAPER

    def speedup(self, network: str, mode: str, nodes: int) -> float | None:
        """Over a single node; None where the paper prints none."""
        found = self.maybe(SCALING, network, mode, f"speed-up, {nodes} nodes")
        return None if found is None else float(found)

    def printed(self, nodes: int) -> dict[str, dict[str, float]]:
        """Network -> mode -> speed-up, of the networks of which the paper prints all three on that many nodes."""
        found = {name: {mode: self.speedup(name, mode, nodes) for mode in MODES} for name in NETWORKS.values()}
        return {name: {m: known for m, known in of.items() if known} for name, of in found.items() if all(of.values())}

    def parameters(self, network: str) -> float:
        """Of Table 1, in millions."""
        return self.value("Table 1", network, "all", "parameters")


@cache
def published() -> Published:
    return Published(reference.read(PAPER))


def _clusters(found: Results, *families: str) -> Iterator[tuple[str, str, AnyGroup]]:
    """(family, testbed as pages call it, group)."""
    for (name, _), group in found.shown.items():
        if (family := name.removesuffix(IMPLIED)) in (families or CLUSTERS):
            yield family, OF_26 if name.endswith(IMPLIED) else ESTIMATED, group


# --- Figures 5 and 6


def speedups(found: Results) -> Rows:
    """Speed-up by network, mode and nodes on each testbed, the paper's printed ones beside each."""
    for family, testbed, group in _clusters(found, "fig5", "fig6"):
        runs = Scaling.of(group.used())
        for name, mode, nodes in runs.places():
            here = {"figure": family, "testbed": testbed, "network": name, "mode": CALLED[mode], "nodes": nodes}
            each = {f"simulated, {testbed}": runs.speedup(name, mode, nodes)}
            if family == "fig5" and (theirs := published().speedup(name, mode, nodes)) is not None:
                each["paper"] = theirs
            for source, value in each.items():
                yield here | {"kind": source.partition(",")[0], "source": source, "speedup": value,
                             "efficiency": value / nodes}  # fmt: skip


# --- Figures 3, 4 and 7


def parts(found: Results) -> Rows:
    """Of pulls and forward pass: what overlaps and what does not, in milliseconds and over all of the default's."""
    for family, testbed, group in _clusters(found, "fig3", "fig5"):
        base: dict[str, float] = {}
        runs = [run for run in group.used() if family == "fig3" or factors.of(run).get("workers") == LARGEST]
        for run in (run for mode in MODES for run in runs if _mode(run) == mode):
            if (took := times(run)) is None:
                continue
            each = {name: getattr(took, key) for key, name in PARTS.items()}
            whole = base.setdefault(network(run), sum(each.values()))
            here = {"figure": family, "testbed": testbed, "network": network(run), "mode": CALLED[_mode(run)],
                    "panel": f"{network(run)}, {testbed}", "kind": run["kind"]}  # fmt: skip
            for name, seconds in each.items():
                yield here | {"part": name, "ms": 1e3 * seconds, "share": seconds / whole}


def _mode(run: Mapping[str, Any]) -> str:
    return str(factors.of(run).get("method", ""))


def layers(found: Results) -> Rows:
    """Figure 3: a row a layer, testbed and what it waits for, from the profile: milliseconds."""
    return (
        {"testbed": testbed, "layer": str(place + 1), "what": what, "ms": 1e3 * seconds, "kind": run["kind"]}
        for _, testbed, group in _clusters(found, "fig3")
        for run in group.used()
        if _mode(run) == IBATCH and (of := pipeline(run).get("profile"))
        for place, (transfer, forward) in enumerate(zip(of["transfer_s"], of["forward_s"], strict=True))
        for what, seconds in (("pull", of["startup_s"] + transfer), ("forward computation", forward))
    )


def case(found: Results) -> Rows:
    """The case study's decisions: batches, pulls, the end of the forward pass; milliseconds."""
    return (
        {"testbed": testbed, "mode": CALLED[_mode(run)], "batches": _batches(run), "kind": run["kind"],
         "forward_end_ms": 1e3 * took.forward_end_s, "pull_ms": 1e3 * took.pull_s, "overlap_ms": 1e3 * took.overlap_s}
        for _, testbed, group in _clusters(found, "fig3")
        for mode in MODES
        for run in group.used()
        if _mode(run) == mode and (took := times(run))
    )  # fmt: skip


def _batches(run: Mapping[str, Any]) -> str:
    """As the paper writes them: `[1, 5], [6, 10], [11, 12]`; many are counted."""
    found = pipeline(run).get("batches") or []
    return ", ".join(f"[{first}, {last}]" for first, last in found) if len(found) < 7 else f"{len(found)} batches"


# --- random profiles


def random(found: Results) -> Rows:
    """Of random profiles: the median percentage by which a mode's batches take longer than the best possible ones."""
    return (
        {"family": row["family"], "layers": row["layers"], "startup": f"{row['startup']:g}", "mode": CALLED[shown],
         "percent": 100 * row["modes"][mode]["median"], "kind": run["kind"], "seed": run["seed"]}
        for (name, _), group in found.shown.items() if name == RANDOM
        for run in group.used() for row in run["result"]["rows"] if row["family"] is not None
        for mode, shown in ((DEFAULT, DEFAULT), (LAYERWISE, LAYERWISE), ("greedy", IBATCH))
    )  # fmt: skip


# --- arithmetic on the paper's numbers


def communication(nodes: int, speedup: float) -> float:
    """Exposed communication in iterations of one node: what an iteration of N takes beyond that of one, N / s - 1."""
    return nodes / speedup - 1


def saved(_: Results) -> Rows:
    """What iBatch saves of an iteration as printed, and the most that hiding pulls behind the forward pass can save:
    the shorter of the two, if a pull is half of the default's communication; speed-ups rounded in iBatch's favour."""
    rows: list[Mapping[str, Any]] = []
    for nodes in (MEDIUM, LARGEST):
        for name, of in published().printed(nodes).items():
            base, best = of[DEFAULT] + ROUNDING, of[IBATCH] - ROUNDING
            each = {"saved, as printed": nodes / of[DEFAULT] - nodes / of[IBATCH],
                    "at least, by rounding": nodes / base - nodes / best,
                    "the most that overlap saves": min(communication(nodes, base) / 2, FORWARD)}  # fmt: skip
            rows += [{"what": f"{name}, {nodes}", "quantity": key, "iterations": value, "kind": "paper"}
                     for key, value in each.items()]  # fmt: skip
    return rows


def sums(_: Results) -> pd.DataFrame:
    """Numbers of the paper that follow from others of it."""
    return arithmetic.table(_checks(published()))


def _checks(paper: Published) -> Iterator[Check]:
    of_large, of_medium = paper.printed(LARGEST)[VGG19_22K], paper.printed(MEDIUM)
    for mode in (DEFAULT, LAYERWISE):
        printed = paper.value(SCALING, VGG19_22K, IBATCH, f"improvement over {mode}, {LARGEST} nodes")
        yield check(f"{VGG19_22K}, {LARGEST} nodes: improvement over {mode}", printed,
                    100 * (of_large[IBATCH] / of_large[mode] - 1), " %",
                    f"{of_large[IBATCH]:g} / {of_large[mode]:g} - 1")  # fmt: skip
    better = {name: number(of[LAYERWISE] / of[DEFAULT]) for name, of in of_medium.items()}
    yield Check(
        f'{MEDIUM} nodes: layer by layer scales "better than" the default',
        f"> 1{TIMES}",
        ", ".join(f"{ratio}{TIMES}" for ratio in better.values()),
        f"of {', '.join(better)}: probably swapped",
    )
    for mode in (DEFAULT, LAYERWISE):
        small, large = communication(MEDIUM, of_medium[VGG19_22K][mode]), communication(LARGEST, of_large[mode])
        nodes = LARGEST / MEDIUM
        yield Check(f"{VGG19_22K}, {mode}: communication on {LARGEST} nodes over that on {MEDIUM}",
                    f"{number(large / small)}{TIMES}", f"{number(nodes)}{TIMES}",
                    f"nodes / speed-up - 1: {number(large)} over {number(small)} iterations of one node; a blade's "
                    "link has so many times the nodes", nodes * small / large)  # fmt: skip
    pull = communication(LARGEST, of_large[DEFAULT]) / 2 * paper.parameters(VGG19) / paper.parameters(VGG19_22K)
    left = max(0.0, pull - FORWARD)
    yield check(f'{VGG19}, {LARGEST} nodes, sparsified: speed-up ("almost linear")',
                paper.value("Figure 6", "all", IBATCH, "nodes, almost linear with sparsification"),
                LARGEST / (1 + left), TIMES,
                f"pushes free, pulls {number(pull)} iterations of one node ({VGG19_22K}'s by parameters), of which the "
                f"forward pass hides a third: {LARGEST} / (1 + {number(left)})")  # fmt: skip


def _framed(rows: Callable[[Results], Rows]) -> Callable[[Results], pd.DataFrame]:
    def frame(found: Results) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(list(rows(found)))

    return frame


TABLES: dict[str, Callable[[Results], pd.DataFrame]] = {
    made.__name__: _framed(made) for made in (speedups, parts, layers, case, random, saved)
} | {"sums": sums}
