"""Contradictions within the PipeDream paper: checks by arithmetic on the numbers in reference/pipedream.csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from repro.answers.claims import arithmetic
from repro.answers.claims.arithmetic import Check, check_numbers
from repro.answers.claims.stats import TIMES, format_number
from repro.answers.pages.reference import Quoted, quoted
from repro.answers.tables.results import Results
from repro.reports.pipedream.stages import PAPER, replicas

OVER_ONE, OVER_BSP = "speed-up over 1 machine", "speed-up over BSP"
REDUCTION = "communication reduction over BSP"


def table(results: Results) -> pd.DataFrame:
    """All checks."""
    paper = quoted(PAPER)
    group = results.shown.get(("fig5", "simulated"))
    layers = group.first.probe.found["layers"] if group else []
    return arithmetic.checks_table([*texts(paper), *networks(paper), *reductions(paper, layers)])


def texts(paper: Quoted) -> list[Check]:
    """The abstract and the introduction against section 5."""
    six = paper.value("Text", "AlexNet", "PipeDream", "speed-up over BSP, most")
    alex = paper.value("Section 5.2", "AlexNet, 8 (B)", "PipeDream", OVER_BSP)
    gain = paper.value("Table 1", "Inception-v3, 8 (B)", "PipeDream", OVER_BSP)
    saved = paper.value("Section 5.2", "Inception-v3, 8 (B)", "PipeDream", "improvement of training time")
    least = paper.where(place="Table 1", quantity=OVER_ONE, variant="BSP")["value"].astype(float).min()
    networks, trained = (paper.value("Text", "all", "all", name) for name in ("networks", "networks trained"))
    return [
        Check("AlexNet over BSP", f"{six:g}{TIMES} (section 1)", f"{alex:g}{TIMES} (section 5.2)", "printed twice"),
        check_numbers("Networks (abstract)", networks, trained, "", 'section 5.1: "three different DNN models"'),
        check_numbers("Inception-v3 (B): training time saved", saved, 100 * (1 - 1 / gain), " %",
              f"a speed-up of {gain:g}{TIMES}"),
        Check('"Data-parallel is slower than single-machine training"', f"< 1{TIMES}", f"{least:g}{TIMES}",
              "the least speed-up of BSP in Table 1"),
    ]  # fmt: skip


# --- VGG16's speed-ups of BSP against each other


def networks(paper: Quoted) -> list[Check]:
    """BSP's speed-ups against each other, across numbers of machines and clusters.

    With more machines, communication grows as section 3.2's 4 (m - 1) |w| / m. The other cluster sends the same bytes
    over its network, and computes faster by what the printed training times and speed-ups imply.
    """
    four, eight, sixteen, other = (f"VGG16, {place}" for place in ("4 (A)", "8 (A)", "16 (A)", "8 (B)"))
    grown = (1 - 1 / 16) / (1 - 1 / 4)
    hours = [paper.value("Section 5.2", row, "BSP", "training time") for row in (eight, other)]
    speed = [paper.value("Table 1", row, "BSP", OVER_ONE) for row in (eight, other)]
    faster = hours[0] * speed[0] / (hours[1] * speed[1])
    slower = paper.value("Clusters", "A", "all", "network") / paper.value("Clusters", "B", "all", "network")
    return [
        _scaled(paper, (four, 4), (sixteen, 16), grown,
                f"what 4 machines cannot hide grows as (m - 1) / m (section 3.2), {format_number(grown)} times"),
        _scaled(paper, (eight, 8), (other, 8), slower * faster,
                f"what A cannot hide, over a network {slower:g} times slower, "
                f"machines {format_number(faster)} times faster"),
    ]  # fmt: skip


def _scaled(paper: Quoted, before: tuple[str, int], other: tuple[str, int], factor: float, how: str) -> Check:
    """BSP's speed-up in row `other`, if the communication exposed in row `one` takes `factor` times as long there.

    Each row is given with its number of machines. Hidden communication grows too; it lies between none and all of the
    computation.
    """
    (row, m), (base, n) = other, before
    exposed = n / paper.value("Table 1", base, "BSP", OVER_ONE) - 1  # in units of one machine's computation
    low, high = sorted(m / (1 + factor * (exposed + hidden) - hidden) for hidden in (0, 1))
    printed = paper.value("Table 1", row, "BSP", OVER_ONE)
    off = min(max(printed, low), high) / printed  # the nearest that follows
    follows = f"{format_number(low)} to {format_number(high)}{TIMES}"
    return Check(f"{row}: BSP over one machine", f"{printed:g}{TIMES}", follows, how, off)


# --- bytes, from the sizes of layers


def reductions(paper: Quoted, layers: Sequence[Mapping[str, Any]]) -> list[Check]:
    """VGG16's printed reductions that no cut of the printed configuration reaches, and the most that one does."""
    printed = paper.table[(paper.table["quantity"] == REDUCTION) & paper.table["row"].str.startswith("VGG16")]
    checks = []
    for row, value in zip(printed["row"], printed["value"].astype(float)) if layers else ():
        config = paper.text("Table 1", row, "PipeDream", "configuration")
        most = 100 * best_reduction(layers, config)
        how = f"the most over all cuts of {config}, every byte counted (sections 3.2 and 4)"
        if most < value - 0.5:
            checks.append(check_numbers(f"{row}: bytes less than BSP", value, most, " %", how))
    return checks


def best_reduction(layers: Sequence[Mapping[str, Any]], config: str) -> float:
    """The greatest share of BSP's bytes that a configuration saves, over all cuts."""
    counts, last = replicas(config), len(layers) - 1
    ways = [(*ends, last) for ends in combinations(range(last), len(counts) - 1)]
    return 1 - min(sent(layers, ends, counts) for ends in ways) / sent(layers, [last], [sum(counts)])


def sent(layers: Sequence[Mapping[str, Any]], ends: Sequence[int], counts: Sequence[int]) -> float:
    """Bytes that all machines send for as many minibatches as there are machines.

    ends: the last layer of every stage; counts: their replicas. A stage of m replicas pushes and pulls 2 (m - 1) times
    its parameters for every m minibatches; each minibatch crosses every cut forward and backward.
    """
    stages = zip([0, *(end + 1 for end in ends)], ends, counts)
    pushed = sum(2 * (m - 1) / m * sum(layer["parameter_bytes"] for layer in layers[first : end + 1])
                 for first, end, m in stages)  # fmt: skip
    return sum(counts) * (pushed + sum(2 * layers[end]["activation_bytes"] for end in ends[:-1]))
