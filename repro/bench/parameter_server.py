"""A sharded parameter server's exchange against a library's allreduce; what simulating 72 nodes takes.

Exchange: every rank pulls all weights and pushes all gradients (no computation), in one piece and in four, against the
fabric's own allreduce of the gradients and the same update by every rank, which is what a user would pick instead; in
turns, in one run. Simulated: CPU seconds of set-up and two iterations of VGG19-22K (229 million parameters) on
paper/ibatch, in a process that has imported everything, as those have that a run's are forked from.
"""

from __future__ import annotations

import statistics
from typing import Any

from repro.bench.ranks import run_jobs

PROGRAM = "repro.bench.parameter_server_program"
WORLDS, SIZES = (2, 4), (1 << 20, 10 << 20, 40 << 20)
WAYS = ("allreduce", "one pull", "four pulls")
CALLS, ROUNDS, NODES, TURNS = 3, 6, 72, 5
GOALS = {"nodes": NODES, "cpu_s": 10.0}  # set-up and two iterations of any of the modes
MODES = {"default": "ps_default", "layerwise": "ps_layerwise", "ibatch": "ibatch"}


def measure(
    worlds: tuple[int, ...] = WORLDS,
    sizes: tuple[int, ...] = SIZES,
    calls: int = CALLS,
    rounds: int = ROUNDS,
    nodes: int = NODES,
    turns: int = TURNS,
) -> dict[str, Any]:
    """{rows, simulated, goals}.

    rows: {fabric, ranks, bytes, way, seconds {median, all} an iteration, ratio (allreduce's median to it)}.
    simulated: {nodes, mode, messages, setup_cpu_s, cpu_s (with two iterations; both of the best of all turns),
    iteration_s (virtual)}.
    """
    places = [(fabric, ranks) for fabric in ("mpi", "torch") for ranks in worlds]
    rows = [row for place in places for row in exchanges(*place, sizes, calls, rounds)]
    return {"rows": rows, "simulated": [simulated(nodes, mode, turns) for mode in MODES], "goals": GOALS}


def exchanges(fabric: str, ranks: int, sizes: tuple[int, ...], calls: int, rounds: int) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = [{"way": way, "bytes": nbytes, "calls": calls} for nbytes in sizes for way in WAYS]
    found = run_jobs(fabric, ranks, jobs, rounds, PROGRAM)
    rows = [
        job | {"fabric": fabric, "ranks": ranks, "seconds": {"median": statistics.median(all_), "all": all_}}
        for job, all_ in zip(jobs, found, strict=True)
    ]
    base = {row["bytes"]: row["seconds"]["median"] for row in rows if row["way"] == "allreduce"}
    return [row | {"ratio": base[row["bytes"]] / row["seconds"]["median"]} for row in rows]


def simulated(nodes: int, mode: str, turns: int) -> dict[str, Any]:
    """Two iterations on the virtual testbed, in this process, the best of some turns."""
    from repro.bench.parameter_server_program import simulate

    found = [simulate(nodes, MODES[mode]) for _ in range(turns)]
    return {"nodes": nodes, "mode": mode} | min(found, key=lambda one: one["cpu_s"])


def table(result: dict[str, Any]) -> str:
    from tabulate import tabulate

    rows = [
        [row["fabric"], row["ranks"], row["bytes"] / 2**20, row["way"], 1e3 * row["seconds"]["median"], row["ratio"]]
        for row in result["rows"]
    ]
    head = ["fabric", "ranks", "MiB", "exchange", "ms", "allreduce / it"]
    said = ("nodes", "mode", "messages", "setup_cpu_s", "cpu_s", "iteration_s")
    steps = [[one[name] for name in said] for one in result["simulated"]]
    second = ["nodes", "VGG19-22K", "messages", "CPU s of set-up", "and of 2 iterations", "virtual s an iteration"]
    goals = result["goals"]
    return (
        f"{tabulate(rows, head, floatfmt='.3g')}\n\n{tabulate(steps, second, floatfmt='.3g')}\n"
        f"  goal at {goals['nodes']} nodes: set-up and 2 iterations in {goals['cpu_s']:g} CPU s"
    )
