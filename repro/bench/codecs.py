"""Throughput of the codecs, in GB/s of float32 data, beside a plain copy of the same data."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from repro.fabric.codecs import CODECS, codec

SIZES = (648_010, 14_700_000)  # parameters of the MNIST-MLP; of VGG-16 for CIFAR-10
TURNS = 7
LEAST_S = 0.02  # a turn repeats short work until it takes that long


def measure(sizes: tuple[int, ...] = SIZES, turns: int = TURNS) -> dict[str, Any]:
    """{threads, rows: [{elements, work, seconds, gb_per_s, of_clone}]}; `work` is "clone" or "CODEC encode|decode|add".

    One thread. The kinds of work take turns; seconds are medians. GB count the float32 data, not the wire.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [row for elements in sizes for row in _measure(elements, turns)]
    finally:
        torch.set_num_threads(threads)
    return {"threads": 1, "rows": rows}


def table(result: dict[str, Any]) -> str:
    lines = ["codecs, one thread: GB/s of float32 data (and as a fraction of torch.clone)"]
    sizes = sorted({row["elements"] for row in result["rows"]})
    lines.append(f"  {'':20}" + "".join(f"{elements:>16} el." for elements in sizes))
    for work in dict.fromkeys(row["work"] for row in result["rows"]):
        found = {row["elements"]: row for row in result["rows"] if row["work"] == work}
        cells = (f"{found[e]['gb_per_s']:.2f} ({found[e]['of_clone']:.2f})" for e in sizes)
        lines.append(f"  {work:20}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def _measure(elements: int, turns: int) -> list[dict[str, Any]]:
    values = torch.randn(elements, generator=torch.Generator().manual_seed(1))
    works: dict[str, Callable[[], Any]] = {"clone": values.clone}
    for name in sorted(CODECS):
        chosen = codec(name)
        wire, other, out = chosen.encode(values.clone()), chosen.encode(values.clone()), torch.empty(elements)
        if not chosen.lossless:  # `none` encodes and decodes nothing
            works[f"{name} encode"] = partial(chosen.encode, values)
            works[f"{name} decode"] = partial(chosen.decode, wire, out)
        works[f"{name} add"] = partial(chosen.add, wire, other, elements)
    seconds: dict[str, list[float]] = {work: [] for work in works}
    repeats = {work: _repeats(call) for work, call in works.items()}
    for _ in range(turns):
        for work, call in works.items():
            began = time.perf_counter()
            for _ in range(repeats[work]):
                call()
            seconds[work].append((time.perf_counter() - began) / repeats[work])
    medians = {work: statistics.median(taken) for work, taken in seconds.items()}
    return [
        {
            "elements": elements,
            "work": work,
            "seconds": median,
            "gb_per_s": 4 * elements / median / 1e9,
            "of_clone": medians["clone"] / median,
        }
        for work, median in medians.items()
    ]


def _repeats(call: Callable[[], Any]) -> int:
    call()
    began = time.perf_counter()
    call()
    return max(1, round(LEAST_S / max(time.perf_counter() - began, 1e-6)))
