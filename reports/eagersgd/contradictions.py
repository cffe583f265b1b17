"""Contradictions within the eager-SGD paper: checks by arithmetic on the paper's own numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import pandas as pd

from repro.answers.claims import arithmetic
from repro.answers.claims.arithmetic import Check, check_numbers, plain_number
from repro.answers.claims.stats import TIMES, format_number, format_percent
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import Results

PAPER = "eagersgd"
HOROVOD = "Synch-SGD (Horovod)"
SOLO, MAJORITY = "eager-SGD (solo)", "eager-SGD (majority)"
SPEEDUP = "speed-up over "  # prefix of a quantity; the baseline follows

_check = partial(check_numbers, written=(plain_number, plain_number))


def of_table1(task: str, quantity: str) -> int:
    """A number of the paper's Table 1."""
    return int(quoted(PAPER).text("Table 1", task, "all", quantity))


def expected(ranks: int) -> dict[str, dict[str, float]]:
    """Collective -> the number of active processes (NAP) and a rank's mean wait in units of the largest skew, from
    linear skew alone.

    Ranks arrive at 0, 1 .. P-1 (units of skew / (P-1)). MPI_Allreduce waits for the last, (P-1)/2 on average; solo
    waits for nobody; majority waits for a rank drawn uniformly: (P^2-1)/6P on average, with (P+1)/2 ranks in time.
    """
    P = ranks
    return {
        "allreduce": {"nap": float(P), "wait": 0.5},
        "solo": {"nap": 1.0, "wait": 0.0},
        "majority": {"nap": (P + 1) / 2, "wait": (P * P - 1) / (6 * P) / (P - 1)},
    }


def implied(results: Results) -> pd.DataFrame:
    """The computation c of a step (seconds) that each printed speed-up s over Deep500 implies, if Synch-SGD loses only
    the delay d: (c + d) / c = s."""
    paper, rows = quoted(PAPER), []
    for line in _speedups_over_deep500():
        place, ms, s = line["place"], line["row"], float(line["value"])
        single = paper.maybe(place, "one node", "single GPU node", "throughput") if place == "Figure 11" else None
        steps = paper.maybe(place, ms, SOLO, "throughput")
        row = {"kind": "paper", "figure": place, "injected": ms, "speedup": s}
        row |= {"implied": float(ms.split()[0]) / 1e3 / (s - 1)}
        rows.append(row | {"alone": _inverse(single), "step": _inverse(steps)})
    return pd.DataFrame(rows)


def _inverse(rate: str | None) -> float:
    """Seconds a step; NaN where no rate is printed."""
    return 1 / float(rate) if rate else math.nan


def _speedups_over_deep500() -> Iterator[dict[str, str]]:
    yield from quoted(PAPER).where(quantity=f"{SPEEDUP}Deep500", variant=SOLO).to_dict("records")


def checks(results: Results) -> pd.DataFrame:
    """Numbers of the paper that follow from other numbers of it."""
    return arithmetic.checks_table([*_hyperplane(), *_resnet50(), *_ucf101(), *_microbenchmark()])


def _hyperplane() -> list[Check]:
    paper, place = quoted(PAPER), "Figure 10"
    solo = paper.value(place, "200 ms", SOLO, "throughput")
    single = paper.value(place, "one node", "single GPU node", "throughput")
    scaling = paper.value(place, "400 ms", SOLO, "strong scaling on 8 nodes")
    speedup = paper.value(place, "200 ms", SOLO, f"{SPEEDUP}Deep500")
    return [
        _check("Hyperplane: strong scaling with 400 ms", scaling, solo / single, TIMES,
               f"{solo:g} steps/s (solo, 200 ms; \"stable\") over {single:g} steps/s on one node"),
        _check("Hyperplane: seconds a step that 200 ms can cost Synch-SGD", 0.2, speedup / solo - 1 / solo, " s",
               f"1 / ({solo:g} / {speedup:g}) - 1 / {solo:g}: more than was injected"),
    ]  # fmt: skip


def _resnet50() -> list[Check]:
    paper, place = quoted(PAPER), "Figure 11"
    single = paper.value(place, "one node", "single GPU node", "throughput")
    solo, P = paper.value(place, "460 ms", SOLO, "throughput"), of_table1("ImageNet", "processes")
    step = paper.value(place, "460 ms", SOLO, f"{SPEEDUP}Deep500") / solo
    late = 1 - (1 - 1 / P) ** (2 * P)  # of the steps (github.com/Shigangli/eager-SGD, `random_draws`)
    return [
        _check("ResNet-50: weak scaling with 460 ms", paper.value(place, "460 ms", SOLO, "weak scaling on 64 nodes"),
               P * solo / single, TIMES, f"{P} times {solo:g} over {single:g} steps/s"),
        _check("ResNet-50: seconds a step of Synch-SGD (Deep500) with 460 ms", step, 1 / single + 0.46 * late, " s",
               f"one node's computation 1 / {single:g} and the delay in {format_percent(late)} of the steps: as "
               f"released each rank draws by itself, up to twice a step; with a late rank in every step "
               f"{format_number(1 / single + 0.46)} s"),
    ]  # fmt: skip


def _ucf101() -> list[Check]:
    """Section 6.3 against Figure 2 and Table 1."""
    paper, place = quoted(PAPER), "Figure 13"
    epochs, samples = of_table1("UCF101", "epochs"), of_table1("UCF101", "training samples")
    at = {b: paper.value(place, "one node", f"batch size {b}", "training time of 50 epochs") for b in (16, 128)}
    runtime = {name: paper.value("Figure 2", "runtimes", "LSTM on UCF101", name) for name in ("min", "mean", "max")}
    weak = {name: at[16] / paper.value(place, "8 nodes", name, "weak scaling") for name in (HOROVOD, MAJORITY)}
    frames = [paper.value("Figure 2", "lengths", "UCF101", name) for name in ("max", "min")]
    top1 = {name: paper.value(place, "all", name, "test top-1") for name in (SOLO, HOROVOD)}
    gain, printed = (paper.value(place, "all", name, f"{SPEEDUP}Horovod") for name in (SOLO, MAJORITY))
    return [
        _check(f"UCF101: seconds of {epochs} epochs on one node with batch 16", at[16],
               epochs * (samples // 16) * runtime["mean"] / 1e3, " s",
               f"{epochs} times {samples // 16} batches times the mean of Figure 2 (b), {runtime['mean']:g} ms"),
        _check("UCF101: strong scaling of solo", paper.value(place, "8 nodes", SOLO, "strong scaling"),
               at[128] * gain / weak[HOROVOD], TIMES, f"{at[128]:,.0f} s over Horovod's over {gain:g}{TIMES}"),
        Check("UCF101: Horovod and majority on 8 nodes against one with batch 128", "no speed-up",
              " and ".join(f"{format_number(at[128] / seconds)}{TIMES}" for seconds in weak.values()),
              f"{at[128]:,.0f} s on one node; so {printed:g}{TIMES} is over a baseline slower than one GPU"),
        _check("UCF101: longest over shortest runtime (\"proportional to the number of frames\")",
               frames[0] / frames[1], runtime["max"] / runtime["min"], TIMES,
               f"{runtime['max']:,.0f} over {runtime['min']:,.0f} ms: videos seem to be cut"),
        Check("UCF101: \"a negligible loss of accuracy\" with solo (section 8)", "negligible",
              f"{100 * (top1[HOROVOD] - top1[SOLO]):.1f} points", f"{100 * top1[SOLO]:.1f} % against "
              f"{100 * top1[HOROVOD]:.1f} % (section 6.3)"),
    ]  # fmt: skip


def _microbenchmark() -> list[Check]:
    """Section 6.1 against the consequences of a uniformly drawn initiator."""
    paper, place, row = quoted(PAPER), "Figure 9", "microbenchmark"
    P = int(paper.value(place, row, "all", "processes"))
    active, fewer = expected(P), P // 2 - 1
    return [
        Check("Majority: \"at least half must contribute\" (abstract)", "always",
              f"not in {100 * fewer / P:.0f} % of the rounds", f"{fewer} of {P} ranks come before half are there, and "
              "each is drawn as often"),
        _check("Majority: latency reduction",
               paper.value(place, row, "majority", "latency reduction over MPI_Allreduce"),
               active["allreduce"]["wait"] / active["majority"]["wait"], TIMES,
               "of the skew alone; the rest is what the collectives themselves take"),
    ]  # fmt: skip
