"""gTopKAllReduce against its authors' code and against the wire, its own cost, and memory a rank.

Against the authors' (`gtopk_authors`): a whole exchange (gradient into the residual, select, aggregate, put back, as a
vector), real ranks, the sides in turns; in shared memory, and between hosts with limited links where this machine has
them. The wire bound is Table I's, 2 alpha log2 P + 16 k beta log2 P: there with the links' own numbers.

Own cost is what ranks compute between messages: packing, unpacking and merging (Definition 1), measured in this process
on one thread, along the longest way through tree and broadcast, over the bound with the paper's alpha and beta.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from repro.algorithms.timing import collective_forms, sparse_forms
from repro.bench import gtopk_memory
from repro.bench.goals import Goal, of_ratio, ratio
from repro.bench.ranks import run_jobs
from repro.fabric.sparse.gradients import Sparse, Wire, merge
from repro.launch.namespaces import network
from repro.launch.namespaces.links import GOODPUT_SHARE

ALPHA, BETA = 4.36e-4, 9e-9  # section IV-C
WORLDS, SIZES = (4, 8, 16), (1_000, 10_000, 100_000, 1_000_000)
DENSITY, TURNS = 0.001, 3
RANKS, RATE_GBIT, PING_TURNS = 4, 1.0, 5
SIDES = ("authors", "ours", "sampled")  # the last with selection by a sampled threshold
BARE = "bare"  # on links: the messages alone
GRADIENTS = {1_000_000: 15, 10_000_000: 7, 60_000_000: 3}  # elements -> turns
FASTER = Goal("the authors' time over ours, a whole exchange", 1.0, at_least=True)
TWICE_FROM, TWICE = 10_000_000, FASTER._replace(bound=2.0)
PARTS = ("select_s", "allreduce_s", "apply_s", "whole_s")
WIRE = Goal("the best allreduce over its wire bound", 1.3)


def measure(
    sizes: tuple[int, ...] = SIZES,
    turns: int = TURNS,
    gradients: dict[int, int] = GRADIENTS,
    memory: tuple[int, ...] = gtopk_memory.ELEMENTS,
    rates: tuple[float | None, ...] = (None, RATE_GBIT),
) -> dict[str, Any]:
    """{alpha_s, beta_s_per_byte, own: [...], ranks, steps: [...], not_here, memory: [...], against_goals}.

    own: {ranks, k, pack_s, unpack_s, merge_s (medians), own_s, wire_s, ratio (own over wire)}.
    steps: {elements, k, rate_gbit, sides {side: {part: {median, min}}}, authors_over {side: {part: ratio}}} and, of
    links, {alpha_s, beta_s_per_byte, wire_s, over_wire, bare_over_wire, over_bare, own_cpu_over_wire}: of what is over
    the wire's bound, bare_over_wire is the machine's (its messages alone), over_bare what selecting and merging add.
    not_here: why there are none with links.
    memory: see `gtopk_memory.measure`.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        works = {k: work_seconds(k, turns) for k in sizes}
    finally:
        torch.set_num_threads(threads)
    missing = network.why_not()
    places = [rate for rate in rates if rate is None or not missing]
    steps = [against_authors(elements, count, rate) for rate in places for elements, count in gradients.items()]
    return {
        "alpha_s": ALPHA,
        "beta_s_per_byte": BETA,
        "density": DENSITY,
        "own": [own(p, k, works[k]) for p in WORLDS for k in sizes],
        "ranks": RANKS,
        "steps": steps,
        "not_here": missing,
        "memory": [row for elements in memory for row in gtopk_memory.measure(elements)],
        "against_goals": [goal for row in steps for goal in goals(row)],
    }


def goals(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of a row of `steps`."""
    where = f", {row['elements']} elements, {place(row)}"
    faster = TWICE if row["elements"] >= TWICE_FROM else FASTER
    found = [of_ratio(faster._replace(what=faster.what + where), row["authors_over"]["ours"]["whole_s"])]
    if row["rate_gbit"]:
        over = row["over_wire"]
        found.append(WIRE._replace(what=WIRE.what + where).of(over["min"], (over["min"], over["max"])))
    return found


def place(row: dict[str, Any]) -> str:
    return f"{row['rate_gbit']:g} Gbit/s" if row["rate_gbit"] else "shared memory"


def own(p: int, k: int, work: dict[str, float]) -> dict[str, Any]:
    """A row of `own`: pack, unpack and merge in each round of the tree, pack and unpack of the broadcast."""
    rounds = collective_forms.rounds(p)
    own_s = rounds * sum(work.values()) + work["pack_s"] + work["unpack_s"]
    wire_s = sparse_forms.gtopk_tree(p, k, ALPHA, BETA)
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


def against_authors(elements: int, turns: int, rate_gbit: float | None) -> dict[str, Any]:
    """A row of `steps`: all sides in turns on 4 ranks; rate_gbit: of links between them, None: shared memory."""
    sides = (*SIDES, BARE) if rate_gbit else SIDES
    jobs: list[dict[str, Any]] = [{"what": "step", "elements": elements, "sides": sides, "turns": turns}]
    if rate_gbit:
        jobs.append({"what": "latency", "turns": PING_TURNS})
    found, *pings = run_jobs("mpi", RANKS, jobs, 1, "repro.bench.gtopk_program", rate_gbit)
    k = round(DENSITY * elements)
    row: dict[str, Any] = {"elements": elements, "k": k, "rate_gbit": rate_gbit, "sides": {}, "authors_over": {}}
    for side in SIDES:
        parts = found[0][side]
        row["sides"][side] = {
            part: {"median": statistics.median(times), "min": min(times)}
            for part in parts
            if (times := [turn[side][part] for turn in found])
        }
    for side in SIDES[1:]:
        row["authors_over"][side] = {
            part: ratio([turn["authors"][part] for turn in found], [turn[side][part] for turn in found])
            for part in ("whole_s", "allreduce_s", "cpu_s")
        }
    if rate_gbit:
        alpha, beta = min(pings[0]), 8e-9 / (rate_gbit * GOODPUT_SHARE)
        bound = sparse_forms.gtopk_tree(RANKS, k, alpha, beta)
        ours, bare = ([turn[side]["allreduce_s"] for turn in found] for side in ("ours", BARE))
        row |= {"alpha_s": alpha, "beta_s_per_byte": beta, "wire_s": bound, "over_bare": ratio(ours, bare)}
        row |= {"over_wire": ratio(ours, [bound] * len(ours)), "bare_over_wire": ratio(bare, [bound] * len(bare))}
        row["own_cpu_over_wire"] = row["sides"]["ours"]["allreduce_cpu_s"]["min"] / bound
    return row


def table(result: dict[str, Any]) -> str:
    lines = ["gTopKAllReduce: its own cost (pack, unpack, merge) over the wire bound of 1 Gbit/s, ms"]
    lines.append(f"  {'ranks':>6}{'k':>10}{'merge':>10}{'own':>10}{'wire':>10}{'own / wire':>12}")
    for row in result["own"]:
        times = "".join(f"{1e3 * row[name]:>10.3f}" for name in ("merge_s", "own_s", "wire_s"))
        lines.append(f"  {row['ranks']:>6}{row['k']:>10}{times}{row['ratio']:>12.2f}")
    lines.append(
        f"  an exchange on {result['ranks']} ranks, density {result['density']:g}, in turns; ms, medians; CPU: of all"
    )
    head = ("select", "allreduce", "apply", "whole", "CPU")
    lines.append(
        f"  {'':13}{'elements':>10}  {'':8}" + "".join(f"{name:>11}" for name in head) + f"{'authors over it':>17}"
    )
    for row in result["steps"]:
        for side, parts in row["sides"].items():
            times = "".join(f"{1e3 * parts[part]['median']:>11.2f}" for part in (*PARTS, "cpu_s"))
            over = row["authors_over"].get(side)
            factor = "{median:>8.2f} ({min:.2f}-{max:.2f})".format(**over["whole_s"]) if over else ""
            lines.append(f"  {place(row):13}{row['elements']:>10}  {side:8}{times}{factor}")
        if row["rate_gbit"]:
            lines.append(
                f"  {'':13}wire bound {1e3 * row['wire_s']:.2f} ms (alpha {1e6 * row['alpha_s']:.0f} us): ours "
                "takes {median:.2f} ({min:.2f}-{max:.2f}) of it, ".format(**row["over_wire"])
                + "its messages alone {median:.2f} ({min:.2f}-{max:.2f}), ".format(**row["bare_over_wire"])
                + f"its CPU time on all ranks {row['own_cpu_over_wire']:.2f}"
            )
    if result["not_here"]:
        lines.append(f"  no limited links here: {result['not_here']}")
    return "\n".join([*lines, gtopk_memory.table(result["memory"])])
