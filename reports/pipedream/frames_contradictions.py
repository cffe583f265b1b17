"""Where the paper does not add up, as data frames: every number from reference/pipedream.csv and arithmetic on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from repro.reports import arithmetic
from repro.reports.arithmetic import Check, check
from repro.reports.pipedream.experiments import BY_NAME, TABLE, Row
from repro.reports.pipedream.published import OVER_BSP, OVER_ONE, OVERHEAD, Published
from repro.reports.pipelines import BSP, PIPEDREAM, replicas
from repro.reporting.stats import DASH, TIMES, number

if TYPE_CHECKING:
    import pandas as pd

USUAL = {"VGG16": 138_357_544, "Inception-v3": 27_161_264}  # parameters of the networks as commonly built


def products(paper: Published) -> pd.DataFrame:
    """Table 1's speed-up over BSP from its speed-ups over one machine, a row each, with what rounding allows."""
    import pandas as pd

    rows = []
    for row in (row for row in TABLE if row.in_table):
        bsp, one = paper.number(row, BSP, OVER_ONE), paper.number(row, PIPEDREAM, OVER_ONE)
        over = paper.number(row, PIPEDREAM, OVER_BSP)
        half = 0.005  # of the last printed digit
        low, high = (one - half) / (bsp + half), (one + half) / (bsp - half)
        agrees = low <= over + half and over - half <= high
        rows.append(
            {
                "row": row.label,
                "BSP over 1 machine": f"{bsp:.2f}{TIMES}",
                "PipeDream over 1 machine": f"{one:.2f}{TIMES}",
                "over BSP, printed": f"{over:.2f}{TIMES}",
                "over BSP, from the others": f"{one / bsp:.3f}{TIMES}",
                "within rounding": f"{low:.3f} to {high:.3f}",
                "agrees": "yes" if agrees else "no",
            }
        )
    return pd.DataFrame(rows)


def headlines(paper: Published) -> list[Check]:
    """The abstract, the introduction and the conclusion against section 5."""
    six = paper.value("Text", "AlexNet", "PipeDream", "speed-up over BSP, most")
    alex = paper.value("Section 5.2", "AlexNet, 8 (B)", "PipeDream", OVER_BSP)
    up_to = paper.value("Text", "all", "PipeDream", "time-to-accuracy speed-up over BSP, most")
    best = max(paper.number(row, PIPEDREAM, OVER_BSP) for row in TABLE if row.in_table)
    networks, trained = (paper.value("Text", "all", "all", name) for name in ("networks", "networks trained"))
    gain = paper.number(BY_NAME["table1-inception-8b"], PIPEDREAM, OVER_BSP)
    claimed = paper.value("Section 5.2", "Inception-v3, 8 (B)", "PipeDream", "improvement of training time")
    least = min(paper.number(row, BSP, OVER_ONE) for row in TABLE if row.in_table)
    return [
        Check("AlexNet over BSP", f"{six:g}{TIMES} (section 1)", f"{alex:g}{TIMES} (section 5.2)", "printed twice"),
        check("Speed-up over BSP, \"up to\" (abstract)", up_to, best, TIMES, "the most of Table 1"),
        check("Networks trained (abstract: \"five different DNNs\")", networks, trained, "",
               "section 5.1: \"three different DNN models\""),
        check("Inception-v3, cluster B: training time that PipeDream saves", claimed, 100 * (1 - 1 / gain), " %",
               f"a speed-up of {gain:g}{TIMES}"),
        Check("\"cases where data-parallel is slower than single-machine training\" (section 1)", f"< 1{TIMES}",
              f"{least:.2f}{TIMES}", "the least speed-up of BSP in Table 1"),
    ]  # fmt: skip


def sizes(paper: Published) -> list[Check]:
    """Model sizes as parameters of four bytes."""
    checks = []
    most = paper.value("Text", "all", "all", "parameters of today's models, to")
    for model in ("VGG16", "Inception-v3", "S2VT"):
        megabytes = paper.value("Models", model, "all", "size")
        if model in USUAL:
            checks.append(check(f"{model}: size of the model", megabytes, 4e-6 * USUAL[model], " MB",
                                 f"the usual network has {USUAL[model]:,} parameters"))  # fmt: skip
        checks.append(
            Check(f"{model}: \"models today have ... 10\N{EN DASH}20 million parameters\" (section 1)",
                  f"{most:g} million at most", f"{megabytes / 4:.0f} million", f"{megabytes:g} MB at four bytes each")
        )  # fmt: skip
    return checks


def overheads(paper: Published) -> list[Check]:
    """Communication overheads of section 5.2 against the speed-ups of BSP, and what eliminating them gives."""
    checks = []
    for row in TABLE:
        share, speedup = paper.number(row, BSP, OVERHEAD), paper.number(row, BSP, OVER_ONE)
        if share is not None and speedup is not None:
            checks.append(check(f"{row.label}: overhead of BSP", 100 * share, 100 * (1 - speedup / row.machines),
                                 " %", f"1 - {speedup:g} / {row.machines}"))  # fmt: skip
    for row in (BY_NAME["table1-vgg16-8a"], BY_NAME["table1-s2vt-4a"]):
        share = paper.number(row, BSP, OVERHEAD)
        gone = paper.value("Section 5.2", row.label, "PipeDream", "share of the overhead eliminated") / 100
        bsp, one = paper.number(row, BSP, OVER_ONE), paper.number(row, PIPEDREAM, OVER_ONE)
        checks.append(
            check(f"{row.label}: PipeDream, if {100 * gone:g} % of the overhead's time were gone", one,
                   bsp / (1 - gone * share), TIMES, f"{bsp:g} / (1 - {gone:g} x {share:g})")
        )  # fmt: skip
    return checks


def exposed(paper: Published, row: Row) -> float:
    """Communication that BSP cannot hide, in units of one machine's computation: machines / speed-up - 1."""
    return row.machines / paper.number(row, BSP, OVER_ONE) - 1


def _scaled(paper: Published, row: Row, base: float, factor: float, how: str) -> Check:
    """BSP's speed-up if `base`, which another row cannot hide, takes `factor` times as long.

    What that row hides grows too, and can be as long as the computation: from none of it to all of it.
    """
    ends = [row.machines / (1 + factor * (base + hidden) - hidden) for hidden in (0, 1)]
    printed = paper.number(row, BSP, OVER_ONE)
    nearer = min(ends, key=lambda value: abs(value - printed))
    low, high = (number(value) for value in sorted(ends))
    off = 1.0 if min(ends) <= printed <= max(ends) else nearer / printed
    return Check(f"{row.label}: BSP over one machine", f"{printed:g}{TIMES}", f"{low} to {high}{TIMES}", how, off)


def networks(paper: Published) -> list[Check]:
    """VGG16's speed-ups of BSP against each other: more machines, and the other cluster.

    More machines: communication grows as section 3.2's 4 (m - 1) |w| / m. The other cluster: the same bytes over its
    network, computation faster as the printed training times and speed-ups imply.
    """
    four, eight, sixteen, other = (BY_NAME[f"table1-vgg16-{place}"] for place in ("4a", "8a", "16a", "8b"))
    base = exposed(paper, four)
    checks = []
    for row in (eight, sixteen):
        grown = (1 - 1 / row.machines) / (1 - 1 / four.machines)
        checks.append(
            _scaled(paper, row, base, grown, f"what 4 machines cannot hide, {number(base)} times the computation, "
                    f"grows as (m - 1) / m (section 3.2), {number(grown)} times")
        )  # fmt: skip
    hours = [paper.value("Section 5.2", row.label, "BSP", "training time") for row in (eight, other)]
    speed = [paper.number(row, BSP, OVER_ONE) for row in (eight, other)]
    faster = hours[0] * speed[0] / (hours[1] * speed[1])
    slower = paper.value("Clusters", "A", "all", "network") / paper.value("Clusters", "B", "all", "network")
    how = (
        f"what cluster A cannot hide, over a network {slower:g} times slower and machines {number(faster)} times "
        f"faster ({hours[0]:g} h and {speed[0]:g}{TIMES} against {hours[1]:g} h and {speed[1]:g}{TIMES})"
    )
    return [*checks, _scaled(paper, other, exposed(paper, eight), slower * faster, how)]


def table(paper: Published) -> pd.DataFrame:
    """Every check as text."""
    return arithmetic.table([*headlines(paper), *sizes(paper), *overheads(paper), *networks(paper)])


# --- bytes, from the sizes of layers


def sent(layers: Sequence[dict[str, Any]], ends: Sequence[int], counts: Sequence[int]) -> float:
    """Bytes that all machines send for as many minibatches as there are machines.

    ends: the last layer of every stage; counts: their replicas. A stage of m replicas pushes and pulls 2 (m - 1) times
    its parameters for every m minibatches; each minibatch crosses every cut forward and backward.
    """
    machines, first, total = sum(counts), 0, 0.0
    for place, (end, m) in enumerate(zip(ends, counts, strict=True)):
        total += machines / m * 2 * (m - 1) * sum(layer["parameter_bytes"] for layer in layers[first : end + 1])
        if place < len(ends) - 1:
            total += machines * 2 * layers[end]["activation_bytes"]
        first = end + 1
    return total


def best_reduction(layers: Sequence[dict[str, Any]], config: str) -> tuple[float, list[str]]:
    """(the most that a configuration can save of BSP's bytes, over all cuts; the last layers of its stages there)."""
    counts, last = replicas(config), len(layers) - 1
    bsp = sent(layers, [last], [sum(counts)])
    ways = [(*ends, last) for ends in combinations(range(last), len(counts) - 1)]
    best = min(ways, key=lambda ends: sent(layers, ends, counts))
    return 1 - sent(layers, best, counts) / bsp, [layers[end]["name"] for end in best[:-1]]


def reductions(paper: Published, layers: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A row a row of VGG16: the printed reduction, and the most that any cut of the printed configuration gives."""
    import pandas as pd

    rows = []
    for row in (row for row in TABLE if row.model == "VGG16" and row.in_table):
        config = paper.configuration(row)
        most, at = best_reduction(layers, config)
        printed = float(paper.row(row, PIPEDREAM, "communication reduction over BSP"))
        rows.append(
            {
                "row": row.label,
                "configuration": config,
                "printed": f"{printed:g} %",
                "most over all cuts": f"{100 * most:.1f} %",
                "cut after": ", ".join(at) or DASH,
                "possible": "yes" if 100 * most >= printed - 0.5 else "no",
            }
        )
    return pd.DataFrame(rows)
