"""Solo and majority allreduce against the fabric's own, and what their tasks cost a rank that computes.

Latency: 8 and 32 ranks of this machine, 64 B to 4 MB, all coming at once and one after the other (Figure 8). Cost:
matrix products a second on as many ranks as cores, with the tasks of a partial allreduce waiting beside them and
without, in turns. How long a rank that computes needs to hear of a round is in the skewed latency of solo: the task
looks for messages the less often, the longer none came (at most `LONGEST_IDLE_SLEEP_S` apart).
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from repro.bench.goals import Goal
from repro.bench.ranks import run_jobs
from repro.fabric.mpi import LONGEST_IDLE_SLEEP_S
from repro.timing.initiators import SOLO

PROGRAM = "repro.bench.partial_program"
WORLDS, SIZES = (8, 32), (64, 4096, 262144, 4 << 20)
COLLECTIVES = ("allreduce", "recursive_doubling", "solo", "majority")
STEP_S = (0.0, 0.005)  # rank i comes i x step_s after the first
CALLS, ROUNDS = 8, 3
UNSKEWED = Goal("latency of solo over the library's own allreduce, all coming at once", 2.0)
SECONDS, TURNS = 1.0, 10


def measure(
    worlds: tuple[int, ...] = WORLDS,
    sizes: tuple[int, ...] = SIZES,
    calls: int = CALLS,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    turns: int = TURNS,
) -> dict[str, Any]:
    """{rows, progress, against_goals}.

    rows: {ranks, bytes, step_s, collective, latency_s {median, all}, nap, ratio (of the fabric's own latency to it)}.
    progress: {ranks, with, without (products a second, medians over turns and ranks), cost (share lost), looks_s}.
    """
    rows = [row for ranks in worlds for row in latencies(ranks, sizes, calls, rounds)]
    return {"rows": rows, "progress": progress(seconds, turns), "against_goals": goals(rows)}


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of solo where all come at once: there a partial collective has nothing to gain."""
    found = []
    for row in rows:
        if row["collective"] == SOLO and row["step_s"] == 0:
            what = f"{UNSKEWED.what}, {row['bytes']} bytes, {row['ranks']} ranks"
            found.append(UNSKEWED._replace(what=what).of(1 / row["ratio"]))
    return found


def latencies(ranks: int, sizes: tuple[int, ...], calls: int, rounds: int) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = [
        {"what": "latency", "collective": name, "bytes": nbytes, "step_s": step_s, "calls": calls}
        for step_s in STEP_S
        for nbytes in sizes
        for name in COLLECTIVES
    ]
    rows = []
    for job, found in zip(jobs, run_jobs("mpi", ranks, jobs, rounds, PROGRAM), strict=True):
        all_ = [row["latency_s"]["mean"] for row in found]
        rows.append(
            {
                "ranks": ranks,
                "bytes": job["bytes"],
                "step_s": job["step_s"],
                "collective": job["collective"],
                "latency_s": {"median": statistics.median(all_), "all": all_},
                "nap": statistics.fmean(row["nap"] for row in found),
            }
        )
    median = {(row["collective"], row["bytes"], row["step_s"]): row["latency_s"]["median"] for row in rows}
    own = {place[1:]: seconds for place, seconds in median.items() if place[0] == "allreduce"}
    return [row | {"ratio": own[row["bytes"], row["step_s"]] / row["latency_s"]["median"]} for row in rows]


def progress(seconds: float, turns: int) -> dict[str, Any]:
    jobs = [{"what": "progress", "tasks": with_tasks, "seconds": seconds} for with_tasks in (False, True)]
    ranks = max(2, os.cpu_count() or 2)
    without, with_tasks = run_jobs("mpi", ranks, jobs, turns, PROGRAM)
    # neighbours in time, so that a slow minute of the machine is in both
    lost = [1 - beside / alone for alone, beside in zip(without, with_tasks, strict=True)]
    return {
        "ranks": ranks,
        "without": statistics.median(without),
        "with": statistics.median(with_tasks),
        "cost": {"median": statistics.median(lost), "all": lost},
        "looks_s": LONGEST_IDLE_SLEEP_S,
    }


def table(result: dict[str, Any]) -> str:
    lines = ["partial allreduce on ranks of this machine: latency in ms, mean over ranks; the fabric's own over it"]
    lines.append(f"  {'ranks':>6}{'apart':>8}{'bytes':>10}  {'collective':20}{'ms':>10}{'ratio':>8}{'active':>8}")
    for row in result["rows"]:
        lines.append(
            f"  {row['ranks']:>6}{1e3 * row['step_s']:>6g}ms{row['bytes']:>10}  {row['collective']:20}"
            f"{1e3 * row['latency_s']['median']:>10.3f}{row['ratio']:>8.2f}{row['nap']:>8.1f}"
        )
    found = result["progress"]
    lines.append(
        f"  tasks that wait beside {found['ranks']} computing ranks cost {found['cost']['median']:.1%} of their "
        f"throughput (median of {len(found['cost']['all'])}); they look for messages up to "
        f"{1e3 * found['looks_s']:g} ms apart"
    )
    return "\n".join(lines)
