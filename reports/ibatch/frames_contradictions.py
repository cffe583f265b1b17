"""Where the paper does not add up, as data frames: every number from reference/ibatch.csv and arithmetic on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.reports import arithmetic
from repro.reports.arithmetic import Check, check
from repro.reports.batched_pulls import DEFAULT, IBATCH, LAYERWISE, VGG19, VGG19_22K
from repro.reports.ibatch.experiments import LARGEST, MEDIUM
from repro.reports.ibatch.published import SCALING, Published
from repro.reporting.stats import TIMES, number

if TYPE_CHECKING:
    import pandas as pd

# Of a convolutional network's iteration: the backward pass computes two gradients where the forward pass has a product.
FORWARD = 1 / 3
ROUNDING = 0.5  # of a printed speed-up
# Parameters of the networks as commonly built: GoogLeNet (BigDL's) and Inception-V3 without auxiliary heads.
_OF_A_CLASS = 4096 + 1  # VGG19's last layer
USUAL = {"GoogLeNet": 6_998_552, "Inception-V3": 23_834_568, "VGG19": 143_667_240,
         "VGG19-22K": 143_667_240 + _OF_A_CLASS * (21_841 - 1_000)}  # fmt: skip


def communication(nodes: int, speedup: float) -> float:
    """Exposed communication in iterations of one node: what an iteration of N takes beyond that of one, N / s - 1."""
    return nodes / speedup - 1


def saved(paper: Published) -> pd.DataFrame:
    """A row a printed pair: what iBatch saves of an iteration, which cannot be more than the shorter of two times.

    Pulls that overlap with the forward pass save at most min(pull, forward) against the default, whose communication is
    pull and push.
    """
    import pandas as pd

    rows = []
    for nodes in (MEDIUM, LARGEST):
        for network, of in paper.printed(nodes):
            for mode in (LAYERWISE, IBATCH):
                gain = nodes / of[DEFAULT] - nodes / of[mode]
                pull = communication(nodes, of[DEFAULT]) / 2
                rows.append(
                    {
                        "network": network,
                        "nodes": str(nodes),
                        "mode": mode,
                        "speed-ups": f"{of[mode]:g}{TIMES} against {of[DEFAULT]:g}{TIMES}",
                        "saved (iterations of one node)": number(gain),
                        "half of the default's communication": number(pull),
                        "forward pass, if a third": number(FORWARD),
                        "possible by that overlap": possible(nodes, of[DEFAULT], of[mode]),
                    }
                )
    return pd.DataFrame(rows)


def possible(nodes: int, default: float, mode: float) -> str:
    """Whether an overlap of pulls with the forward pass can save that much, speed-ups rounded in its favour."""
    if mode <= default:
        return "nothing is saved"
    base, best = default + ROUNDING, mode - ROUNDING
    gain = nodes / base - nodes / best
    if gain <= min(communication(nodes, base) / 2, FORWARD):
        return "yes"
    return "no: more than a whole iteration of one node" if gain > 1 else "no"


def improvements(paper: Published) -> list[Check]:
    """The abstract's percentages from the speed-ups."""
    best = paper.speedup(VGG19_22K, IBATCH, LARGEST)
    found = []
    for mode in (DEFAULT, LAYERWISE):
        base = paper.speedup(VGG19_22K, mode, LARGEST)
        found.append(check(f"VGG19-22K, {LARGEST} nodes: improvement over {mode}", 100 * paper.improvement(mode),
                           100 * (best / base - 1), " %", f"{best:g} / {base:g} - 1"))  # fmt: skip
    return found


def swapped(paper: Published) -> list[Check]:
    """Section Scalability's "better" against its numbers on 30 nodes."""
    return [
        Check(f"{network}, {MEDIUM} nodes: layer by layer is \"better than\" the default", f"> 1{TIMES}",
              f"{number(of[LAYERWISE] / of[DEFAULT])}{TIMES}",
              f"{of[LAYERWISE]:g} over {of[DEFAULT]:g}; swapped it were {number(of[DEFAULT] / of[LAYERWISE])}{TIMES}")
        for network, of in paper.printed(MEDIUM)
    ]  # fmt: skip


def growth(paper: Published) -> list[Check]:
    """Communication on 30 and on 72 nodes: a blade has 2.4 times the nodes, and its link as many times the bytes."""
    found = []
    for mode in (DEFAULT, LAYERWISE):
        small, large = (communication(n, paper.speedup(VGG19_22K, mode, n)) for n in (MEDIUM, LARGEST))
        nodes = LARGEST / MEDIUM
        found.append(
            Check(f"VGG19-22K, {mode}: communication on {LARGEST} nodes over that on {MEDIUM}",
                  f"{number(large / small)}{TIMES}", f"{number(nodes)}{TIMES}",
                  f"{LARGEST} / {paper.speedup(VGG19_22K, mode, LARGEST):g} - 1 = {number(large)} over {MEDIUM} / "
                  f"{paper.speedup(VGG19_22K, mode, MEDIUM):g} - 1 = {number(small)} iterations of one node; follows: "
                  "nodes that share a blade's link", nodes * small / large)
        )  # fmt: skip
    return found


def linear(paper: Published) -> list[Check]:
    """Figure 6: what is left where pushes cost nothing, with VGG19-22K's communication by parameters."""
    of = communication(LARGEST, paper.speedup(VGG19_22K, DEFAULT, LARGEST)) / 2
    pull = of * paper.parameters(VGG19) / paper.parameters(VGG19_22K)
    most = LARGEST / (1 + max(0.0, pull - FORWARD))
    return [
        check(f"VGG19, {LARGEST} nodes, sparsified: speed-up (\"almost linear\")",
              paper.value("Figure 6", "all", "ibatch", "nodes, almost linear with sparsification"), most, TIMES,
              f"pushes free, pulls {number(pull)} iterations of one node (VGG19-22K's by parameters), of which the "
              f"forward pass hides a third: {LARGEST} / (1 + {number(max(0.0, pull - FORWARD))})")
    ]  # fmt: skip


def sizes(paper: Published) -> list[Check]:
    """Table 1 against the networks as commonly built."""
    return [
        check(f"{network}: parameters (Table 1)", 1e-6 * paper.parameters(network), 1e-6 * count, " million",
              f"the usual network has {count:,}")
        for network, count in USUAL.items()
    ]  # fmt: skip


def layers(paper: Published) -> list[Check]:
    """The case study's layers."""
    many, place = (int(paper.value("Case study", "GoogLeNet", "all", name))
                   for name in ("layers", "layer whose communication is much longer"))  # fmt: skip
    deep = int(paper.value("Models", "GoogLeNet", "all", "layers"))
    return [
        Check("GoogLeNet: the fully connected layer (\"e.g., layer 11\")", str(place), str(many),
              f"it is the last of the {many} layers of Figure 4 (c); GoogLeNet has one"),
        Check("GoogLeNet: layers", f"{deep} (section Dataset and DL Models)", f"{many} (Figure 4 c)",
              "layers along a path against convolutions with their pooling and whole inception modules"),
    ]  # fmt: skip


def nodes(paper: Published) -> list[Check]:
    """Nodes a blade."""
    blades = int(paper.value("Testbed", "all", "all", "blades"))
    return [
        Check(f"Nodes of a blade on {n} nodes", f"{blades} blades in all", f"{n / blades:g}",
              "virtual machines; how they share cores and the network card is not described")
        for n in (int(paper.value(SCALING, "all", "all", "nodes, almost linear up to")), MEDIUM, LARGEST)
    ]  # fmt: skip


def table(paper: Published) -> pd.DataFrame:
    """Every check as text."""
    return arithmetic.table([*improvements(paper), *swapped(paper), *growth(paper), *linear(paper), *sizes(paper),
                             *layers(paper), *nodes(paper)])  # fmt: skip
