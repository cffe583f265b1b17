"""Where the paper does not add up, as data frames: every number from reference/eagersgd.csv and arithmetic on it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from repro.reports import arithmetic
from repro.reports.arithmetic import Check, check, plain
from repro.reports.eagersgd.experiments import FIG10_DELAYS, FIG11_DELAYS, HOROVOD, MAJORITY, SOLO
from repro.reports.eagersgd.frames_imbalance import steps_an_epoch
from repro.reports.eagersgd.published import Published
from repro.reporting.stats import DASH, TIMES, number

if TYPE_CHECKING:
    import pandas as pd


_check = partial(check, written=(plain, plain))


def hyperplane(paper: Published) -> list[Check]:
    """Figure 10's throughputs, speed-ups and strong scaling against each other."""
    solo = paper.value("Figure 10", "200 ms", SOLO, "throughput")
    one = paper.value("Figure 10", "one node", "single GPU node", "throughput")
    scaling = paper.value("Figure 10", "400 ms", SOLO, "strong scaling on 8 nodes")
    speedup = paper.speedup("Figure 10", "200 ms")
    synchronous = solo / speedup
    lost, delay = 1 / synchronous - 1 / solo, min(FIG10_DELAYS) / 1e3
    return [
        _check("Hyperplane: strong scaling with 400 ms", scaling, solo / one, TIMES,
               f"{solo:g} steps/s (solo, 200 ms; \"stable\") over {one:g} steps/s on one node"),
        _check("Hyperplane: throughput of solo with 400 ms, \"stable\"", solo, scaling * one, " steps/s",
               f"{scaling:g} times {one:g} steps/s"),
        _check("Hyperplane: seconds a step that 200 ms can cost Synch-SGD", delay, lost, " s",
               f"1 / ({solo:g} / {speedup:g}) - 1 / {solo:g}: more than was injected"),
    ]  # fmt: skip


def implied_computation(paper: Published) -> pd.DataFrame:
    """Seconds of computation a step that each speed-up implies, if the delay is all that Synch-SGD loses.

    *alone*: (c + d) / c = s. *with its share*: (c + d) / (c + d n/P) = s, as n of P ranks are delayed themselves.
    """
    import pandas as pd

    rows = []
    for place, delays, task, late, over in (
        ("Figure 10", FIG10_DELAYS, "Hyperplane regression", 1, "Deep500"),
        ("Figure 11", FIG11_DELAYS, "ImageNet", int(paper.value("Figure 11", "all", "injection", "delayed processes")),
         "Deep500"),
    ):  # fmt: skip
        P = paper.table1(task, "processes")
        for ms in delays:
            d, s = ms / 1e3, paper.speedup(place, f"{ms} ms", over)
            alone, shared = d / (s - 1), d * (1 - s * late / P) / (s - 1)
            rows.append(
                {
                    "figure": place,
                    "injected (ms)": str(ms),
                    f"speed-up over {over}, paper": f"{s:g}{TIMES}",
                    "a step of one node with a rank's batch, paper (s)": _step(paper, place),
                    "computation, alone (s)": number(alone),
                    "computation, with its share of delays (s)": number(shared),
                    "steps/s of solo then": number(1 / (shared + d * late / P)),
                    "printed steps/s of solo": _printed(paper, place, ms),
                }
            )
    return pd.DataFrame(rows)


def _step(paper: Published, place: str) -> str:
    """Seconds a step of the single node, where its batch is that of one of the ranks."""
    if place != "Figure 11":
        return DASH
    return number(1 / paper.value(place, "one node", "single GPU node", "throughput"))


def _printed(paper: Published, place: str, ms: int) -> str:
    t = paper.table[paper.table["place"] == place]
    found = t[(t["row"] == f"{ms} ms") & (t["setting"] == SOLO) & (t["quantity"] == "throughput")]
    return found["value"].item() if len(found) else DASH


def resnet50(paper: Published) -> list[Check]:
    """Figure 11's weak scaling, and what its synchronous runs would need."""
    one = paper.value("Figure 11", "one node", "single GPU node", "throughput")
    solo = paper.value("Figure 11", "460 ms", SOLO, "throughput")
    P = paper.table1("ImageNet", "processes")
    printed = paper.value("Figure 11", "460 ms", SOLO, "weak scaling on 64 nodes")
    own, delay = paper.value("Figure 11", "one node", "single GPU node", "batch size"), max(FIG11_DELAYS) / 1e3
    checks = [
        _check("ResNet-50: weak scaling with 460 ms", printed, P * solo / one, TIMES,
               f"{P} times {solo:g} over {one:g} steps/s"),
        _check("ResNet-50: batch of a process", own, paper.table1("ImageNet", "batch size") / P, "",
               f"{paper.table1('ImageNet', 'batch size'):,} over {P} processes"),
    ]  # fmt: skip
    for over in ("Deep500", "Horovod"):
        step = paper.speedup("Figure 11", "460 ms", over) / solo
        checks.append(
            _check(f"ResNet-50: seconds a step of Synch-SGD ({over}) with 460 ms", step, 1 / one + delay, " s",
                   f"one node's computation 1 / {one:g} and the delay of the slowest rank: it cannot take less")
        )  # fmt: skip
    return checks


def ucf101(paper: Published, lengths: Mapping[str, float] | None) -> list[Check]:
    """Section 6.3 against Figure 2 and Table 1; lengths: mean, min, max of the training data here, or None."""
    epochs, samples = paper.table1("UCF101", "epochs"), paper.table1("UCF101", "training samples")
    batch, P = paper.table1("UCF101", "batch size"), paper.table1("UCF101", "processes")
    own = batch // P
    at = {b: paper.value("Figure 13", "one node", f"batch size {b}", "training time of 50 epochs") for b in (16, 128)}
    runtime = paper.statistics("Figure 2", "runtimes")
    weak = {n: paper.value("Figure 13", "8 nodes", n, "weak scaling") for n in (HOROVOD, MAJORITY)}
    gain = {n: paper.value("Figure 13", "all", n, "speed-up over Horovod") for n in (SOLO, MAJORITY)}
    seconds = {name: at[own] / speedup for name, speedup in weak.items()}
    of_solo = seconds[HOROVOD] / gain[SOLO]
    frames = {name: paper.value("Figure 2", "lengths", "UCF101", name) for name in ("min", "max")}
    checks = [
        _check("UCF101: batches of two epochs (Figure 2 b)", paper.value("Figure 2", "runtimes", "LSTM on UCF101",
               "batches"), 2 * (samples // own), "", f"{samples:,} videos in batches of {own}, twice"),
        _check(f"UCF101: seconds of {epochs} epochs on one node with batch {own}", at[own],
               epochs * (samples // own) * runtime["mean"] / 1e3, " s",
               f"{epochs} times {samples // own} batches times the mean of Figure 2 (b), {runtime['mean']:g} ms"),
        _check("UCF101: majority over Horovod", gain[MAJORITY], weak[MAJORITY] / weak[HOROVOD], TIMES,
               f"weak scaling {weak[MAJORITY]:g} over {weak[HOROVOD]:g}"),
        _check("UCF101: strong scaling of solo", paper.value("Figure 13", "8 nodes", SOLO, "strong scaling"),
               at[batch] / of_solo, TIMES,
               f"{at[batch]:,.0f} s over {at[own]:,.0f} / {weak[HOROVOD]:g} / {gain[SOLO]:g} s"),
        Check("UCF101: strong scaling of Synch-SGD and majority", "no speed-up",
              f"{number(at[batch] / seconds[HOROVOD])}{TIMES} and {number(at[batch] / seconds[MAJORITY])}{TIMES}",
              f"{at[batch]:,.0f} s over what weak scaling leaves of {at[own]:,.0f} s: none"),
        Check(f"UCF101: a step of one node with batch {batch} and {own}", DASH,
              f"{number(at[batch] / epochs / steps_an_epoch(paper, 'UCF101'))} and "
              f"{number(at[own] / epochs / (samples // own))} s",
              f"{at[batch]:,.0f} and {at[own]:,.0f} s over {epochs} epochs; Horovod on {P} nodes is left with "
              f"{seconds[HOROVOD]:,.0f} s, one with batch {batch} takes {at[batch]:,.0f} s"),
        _check("UCF101: longest over shortest runtime (\"proportional to the number of frames\")",
               frames["max"] / frames["min"], runtime["max"] / runtime["min"], TIMES,
               f"{runtime['max']:,.0f} over {runtime['min']:,.0f} ms: as if no batch were longer than "
               f"{number(frames['min'] * runtime['max'] / runtime['min'])} frames"),
    ]  # fmt: skip
    if lengths:
        checks.append(
            _check("UCF101: longest video (from the mean runtime)", frames["max"],
                   lengths["mean"] * runtime["max"] / runtime["mean"], " frames",
                   f"mean length here {lengths['mean']:.1f} frames times {runtime['max']:,.0f} over "
                   f"{runtime['mean']:,.0f} ms: videos seem to be cut")
        )  # fmt: skip
        checks.append(
            _check("UCF101: median length of the training data", paper.value("Figure 2", "lengths", "UCF101", "median"),
                   lengths["median"], " frames", "counted here")
        )  # fmt: skip
    return checks


def microbenchmark(paper: Published) -> list[Check]:
    """Section 6.1 against what a uniformly drawn initiator implies."""
    from repro.reports.eagersgd.frames_collectives import expected

    place, row = "Figure 9", "microbenchmark"
    P = int(paper.value(place, row, "all", "processes"))
    of = expected(P)
    fewer = (P // 2 - 1) / P
    return [
        _check("Majority: expected number of active processes", paper.value(place, row, "majority", "NAP"),
               of["majority"]["nap"], "", f"the initiator drawn uniformly of {P}: (P + 1) / 2"),
        Check("Majority: \"at least half must contribute\"", "always",
              f"not in {100 * fewer:.0f} % of the rounds", f"{P // 2 - 1} of {P} come before half are there"),
        _check("Majority: latency reduction",
               paper.value(place, row, "majority", "latency reduction over MPI_Allreduce"),
               of["allreduce"]["wait"] / of["majority"]["wait"], TIMES,
               "of the skew alone; the rest is what the collectives themselves take"),
    ]  # fmt: skip


def conclusions(paper: Published) -> list[Check]:
    """Words against numbers."""
    solo, base = (paper.value("Figure 13", "all", name, "test top-1") for name in (SOLO, HOROVOD))
    best = paper.value("Figure 13", "all", SOLO, "test top-1, best run")
    return [
        Check("UCF101: \"a negligible loss of accuracy\" with solo (section 8)", "negligible",
              f"{100 * (base - solo):.1f} points of top-1",
              f"{100 * solo:.1f} % against {100 * base:.1f} % (section 6.3)"),
        Check("UCF101: solo, best run and mean of four", f"{100 * best:.1f} %", f"{100 * solo:.1f} %",
              "the best run is as good as Horovod's mean: the runs differ widely"),
    ]  # fmt: skip


def table(paper: Published, lengths: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Every check as text."""
    checks = [*hyperplane(paper), *resnet50(paper), *ucf101(paper, lengths), *microbenchmark(paper),
              *conclusions(paper)]  # fmt: skip
    return arithmetic.table(checks)
