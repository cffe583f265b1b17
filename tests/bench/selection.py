"""Selecting 0.1 % of the gradients exactly over `torch.topk`, on one thread (gTop-k's Figure 11), and its floor.

Side `bare` is a program that knows the k-th largest magnitude beforehand: it compares every magnitude with it, and
gathers what is not below it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from repro.probes.selection import SEED, WHOLE, make_selector
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.stopwatch import time_spread

DENSITY = 0.001
OURS, BARE = "exact", "bare"
MODELS = {"ResNet-20": 269_722, "VGG-16": 14_728_266, "AlexNet": 60_965_224}  # elements of the gradient
SIZES = {"quick": (["ResNet-20"], 1), "full": ([*MODELS], 21)}  # models; turns
GOALS = [
    {"what": "exact selection over torch.topk's time", "where": {"side": OURS}, "over": {"side": WHOLE},
     "floor": {"side": BARE}, "number": "seconds.min", "by": ["model"], "at_most": 0.35},
]  # fmt: skip


def measure_rows(scale: str) -> list[dict[str, Any]]:
    """A row for each model and side: seconds of a selection of values and indices."""
    models, turns = SIZES[scale]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [row for model in models for row in model_rows(model, turns)]
    finally:
        torch.set_num_threads(threads)


def model_rows(model: str, turns: int) -> list[dict[str, Any]]:
    elements = MODELS[model]
    vector, k = torch.randn(elements, generator=torch.Generator().manual_seed(SEED)), round(DENSITY * elements)
    calls = {OURS: make_selector(OURS, vector, k), WHOLE: make_selector(WHOLE, vector, k), BARE: bare(vector, k)}
    taken = run_in_turns({side: partial(seconds_of, call) for side, call in calls.items()}, turns, alternate=True)
    return [{"model": model, "k": k, "side": side, "seconds": time_spread(times)} for side, times in taken.items()]


def bare(vector: torch.Tensor, k: int) -> Callable[[], Any]:
    """A call that selects, with the threshold known."""
    values, sizes = vector.numpy(), np.empty(vector.numel(), np.float32)
    least = vector.abs().topk(k).values[-1].item()

    def select() -> tuple[np.ndarray, np.ndarray]:
        places = np.flatnonzero(np.abs(values, out=sizes) >= least)
        return np.take(values, places), places.astype(np.int32)

    return select


def seconds_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
