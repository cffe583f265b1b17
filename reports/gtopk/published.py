"""The paper's numbers (reference/gtopk.csv) and its time model: Table I in seconds, added to Table VI's iteration.

The formulas are independent of the harness's own closed forms.

P workers, alpha seconds a message, beta seconds a byte. The gradient has m bytes of float32, k gradients of it are
sent, each with its index: 8 bytes. (The paper's k is in bytes too, k = rho m, so its 2k is 8 bytes an element.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import pandas as pd

from repro.answers.claims.stats import ALPHA
from repro.answers.pages.reference import quoted

PAPER = "gtopk"
ALGORITHMS = ("Dense", "Top-k", "gTop-k")
MODELS = ("VGG-16", "ResNet-20", "AlexNet", "ResNet-50")
# Trainable parameters of our models; the paper prints none (Figure 9 takes 100 MB for ResNet-50).
PARAMETERS = {"VGG-16": 14_728_266, "ResNet-20": 269_722, "AlexNet": 60_965_224, "ResNet-50": 25_557_032}
DENSITY = 0.001  # Figures 9 and 10
WORLDS = (1, 2, 4, 8, 16, 32)
MOST = WORLDS[-1]  # workers of Table VII
RELEASED_WORLDS = (1, 4, 8, 16, 32)
PARTS = ["computation", "compression", "communication"]  # of an iteration, Figure 11

ELEMENT = 8  # bytes: a float32 value and an int32 index
NAMES = {"dense": "Dense", "topk": "Top-k", "topk_ring": "Top-k, ring", "gtopk": "gTop-k"}
FORMS: dict[str, Callable[[int, float, int, float, float], float]] = {
    # ring allreduce of m bytes, equation (5)
    "Dense": lambda P, m, k, alpha, beta: 2 * (P - 1) * alpha + 2 * (P - 1) / P * m * beta,
    # allgather by recursive doubling, equation (6)
    "Top-k": lambda P, m, k, alpha, beta: math.log2(P) * alpha + ELEMENT * (P - 1) * k * beta,
    # allgather around a ring: the same bytes, P - 1 messages one after another
    "Top-k, ring": lambda P, m, k, alpha, beta: (P - 1) * (alpha + ELEMENT * k * beta),
    # tree and broadcast, equation (7)
    "gTop-k": lambda P, m, k, alpha, beta: 2 * math.log2(P) * (alpha + ELEMENT * k * beta),
}


def selected(elements: int, density: float) -> int:
    """k: the number of elements selected from a gradient."""
    return max(1, round(density * elements))


def alpha_beta() -> tuple[float, float]:
    """Figure 8's alpha and beta in seconds, and seconds a byte."""
    alpha, beta = (1e-3 * quoted(PAPER).value("Figure 8", "cluster", "all", name) for name in (ALPHA, "β"))
    return alpha, beta


def closed_form_s(algorithm: str, workers: int, elements: int, alpha: float, beta: float) -> float:
    """Seconds by Table I at the paper's density; 0 for one worker."""
    form, k = FORMS[algorithm], selected(elements, DENSITY)
    return form(workers, 4 * elements, k, alpha, beta) if workers > 1 else 0.0


def printed() -> pd.DataFrame:
    """A row a model, algorithm and number of workers (one: Table VI; 32: Table VII): seconds of an iteration and of its
    computation, and a worker's batch."""
    paper, rows = quoted(PAPER), []
    for model in MODELS:
        numbers = {name: paper.value("Table VI", model, "one GPU", name) for name in ("batch size", "iteration time")}
        about = {"model": model, "batch": numbers["batch size"], "computation_s": numbers["iteration time"]}
        for algorithm in ALGORITHMS:
            seconds = MOST * about["batch"] / paper.value("Table VII", model, algorithm, "throughput, P = 32")
            rows += [about | {"algorithm": algorithm, "workers": P, "seconds": s}
                     for P, s in ((1, about["computation_s"]), (MOST, seconds))]  # fmt: skip
    return pd.DataFrame(rows)


def released() -> pd.DataFrame:
    """`printed` for the numbers that the authors released beside the paper; with 32 workers also the seconds of the
    parts of gTop-k's iteration."""
    paper, rows = quoted(PAPER), []
    for model, algorithm, workers in product(MODELS, ALGORITHMS, RELEASED_WORLDS):
        batch = paper.value("Table VI", model, "one GPU", "batch size")
        place = "Figure 10, released", model, algorithm
        seconds, alone = (batch / paper.value(*place, f"throughput of a worker, P = {P}") for P in (workers, 1))
        about = {"model": model, "batch": batch, "computation_s": alone}
        rows.append(about | {"algorithm": algorithm, "workers": workers, "seconds": seconds})
        if (algorithm, workers) == ("gTop-k", MOST):
            rows[-1] |= {part: paper.value("Figure 11, released", model, algorithm, f"{part}, P = {MOST}")
                         for part in PARTS}  # fmt: skip
    return pd.DataFrame(rows)


def modelled() -> pd.DataFrame:
    """`printed` by the time model, in which compression takes no time, for all numbers of workers."""
    every = printed().query("workers == 1").drop(columns="workers").merge(pd.DataFrame({"workers": WORLDS}), "cross")
    sent = [
        closed_form_s(line.algorithm, line.workers, PARAMETERS[line.model], *alpha_beta())
        for line in every.itertuples()
    ]
    return every.assign(seconds=every["computation_s"] + sent)


def speedup(model: str, over: str) -> float:
    """gTop-k's speed-up as Table VII prints it."""
    sign = {"Dense": "g/d", "Top-k": "g/t"}[over]
    return quoted(PAPER).value("Table VII", model, "gTop-k", f"speed-up over {over}, {sign}")


def implied_mbit(model: str, algorithm: str, sent_s: float) -> float:
    """The bandwidth (Mbit/s) at which Table I gives `sent_s` seconds with 32 workers."""
    left = sent_s - closed_form_s(algorithm, MOST, PARAMETERS[model], alpha_beta()[0], 0.0)
    return 8e-6 * closed_form_s(algorithm, MOST, PARAMETERS[model], 0.0, 1.0) / left if left > 0 else math.nan
