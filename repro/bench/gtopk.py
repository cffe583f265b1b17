"""gTopKAllReduce: its own cost over the wire bound, against dense and top-k on real ranks, and memory a rank.

Own cost is what ranks compute between messages: packing, unpacking and merging (Definition 1), measured in this process
on one thread, along the longest way through tree and broadcast. The wire bound is Table I's, 2 alpha log2 P + 16 k beta
log2 P, with the paper's alpha and beta (1 Gbit/s).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from repro.bench import gtopk_memory
from repro.bench.ranks import run_jobs
from repro.fabric.sparse import Sparse, Wire, merge
from repro.timing import closed_forms

ALPHA, BETA = 4.36e-4, 9e-9  # section IV-C
WORLDS, SIZES = (4, 8, 16), (1_000, 10_000, 100_000, 1_000_000)
DENSITY, TURNS = 0.001, 3
RANKS, ROUNDS, REPEAT = 4, 1, 5
GRADIENTS = (269_722, 14_728_266)  # parameters of ResNet-20 and VGG-16


def measure(
    sizes: tuple[int, ...] = SIZES,
    turns: int = TURNS,
    gradients: tuple[int, ...] = GRADIENTS,
    memory: tuple[int, ...] = gtopk_memory.ELEMENTS,
) -> dict[str, Any]:
    """{alpha_s, beta_s_per_byte, own: [...], ranks, collectives: [...], memory: [...]}.

    own: {ranks, k, pack_s, unpack_s, merge_s (medians), own_s, wire_s, ratio (own over wire)}.
    collectives: {elements, k, seconds {dense, topk, gtopk: {median, all}}, dense_over_gtopk, topk_over_gtopk}, of 4
    real ranks of this machine, in one run.
    memory: see `gtopk_memory.measure`.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        works = {k: work_seconds(k, turns) for k in sizes}
    finally:
        torch.set_num_threads(threads)
    return {
        "alpha_s": ALPHA,
        "beta_s_per_byte": BETA,
        "density": DENSITY,
        "own": [own(p, k, works[k]) for p in WORLDS for k in sizes],
        "ranks": RANKS,
        "collectives": collectives(gradients),
        "memory": [row for elements in memory for row in gtopk_memory.measure(elements)],
    }


def own(p: int, k: int, work: dict[str, float]) -> dict[str, Any]:
    """A row of `own`: pack, unpack and merge in each round of the tree, pack and unpack of the broadcast."""
    rounds = closed_forms.rounds(p)
    own_s = rounds * sum(work.values()) + work["pack_s"] + work["unpack_s"]
    wire_s = closed_forms.gtopk_tree(p, k, ALPHA, BETA)
    return {"ranks": p, "k": k, **work, "own_s": own_s, "wire_s": wire_s, "ratio": own_s / wire_s}


def work_seconds(k: int, turns: int) -> dict[str, float]:
    """Medians {pack_s, unpack_s, merge_s} for k elements of a gradient of k / DENSITY."""
    draw, wire = torch.Generator().manual_seed(k), Wire(k)
    mine, other = (draws(k, draw) for _ in range(2))
    message = wire.pack(other)
    calls: dict[str, Callable[[], Any]] = {
        "pack_s": lambda: wire.pack(mine),
        "unpack_s": lambda: wire.unpack(message),
        "merge_s": lambda: merge(mine, other, k),
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if turn:  # the first touches fresh pages
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


def draws(k: int, draw: torch.Generator) -> Sparse:
    """k normal values at random places of a vector of k / DENSITY."""
    places = torch.randint(round(k / DENSITY), (2 * k,), generator=draw).unique()
    chosen = places[torch.randperm(len(places), generator=draw)[:k]].sort().values
    return Sparse(torch.randn(k, generator=draw), chosen.to(torch.int32))


def collectives(gradients: tuple[int, ...]) -> list[dict[str, Any]]:
    """Dense, top-k and gTop-k on real ranks, in turns."""
    names = ("dense", "topk", "gtopk")
    common = {"codec": "none", "repeat": REPEAT, "sparsity": {"density": DENSITY}}
    jobs = [{"name": name, "bytes": 4 * elements} | common for elements in gradients for name in names]
    times = iter(run_jobs("mpi", RANKS, jobs, ROUNDS))
    rows = []
    for elements in gradients:
        seconds = {name: next(times) for name in names}
        medians = {name: statistics.median(all_) for name, all_ in seconds.items()}
        rows.append(
            {
                "elements": elements,
                "k": round(DENSITY * elements),
                "seconds": {name: {"median": medians[name], "all": seconds[name]} for name in names},
                "dense_over_gtopk": medians["dense"] / medians["gtopk"],
                "topk_over_gtopk": medians["topk"] / medians["gtopk"],
            }
        )
    return rows


def table(result: dict[str, Any]) -> str:
    lines = ["gTopKAllReduce: its own cost (pack, unpack, merge) over the wire bound of 1 Gbit/s, ms"]
    lines.append(f"  {'ranks':>6}{'k':>10}{'merge':>10}{'own':>10}{'wire':>10}{'own / wire':>12}")
    for row in result["own"]:
        times = "".join(f"{1e3 * row[name]:>10.3f}" for name in ("merge_s", "own_s", "wire_s"))
        lines.append(f"  {row['ranks']:>6}{row['k']:>10}{times}{row['ratio']:>12.2f}")
    lines.append(f"  {result['ranks']} real ranks of this machine, density {result['density']:g}, ms")
    lines.append(f"  {'elements':>12}{'dense':>10}{'topk':>10}{'gtopk':>10}{'dense / gtopk':>16}{'topk / gtopk':>14}")
    for row in result["collectives"]:
        times = "".join(f"{1e3 * row['seconds'][name]['median']:>10.3f}" for name in ("dense", "topk", "gtopk"))
        lines.append(f"  {row['elements']:>12}{times}{row['dense_over_gtopk']:>16.2f}{row['topk_over_gtopk']:>14.2f}")
    return "\n".join([*lines, gtopk_memory.table(result["memory"])])
