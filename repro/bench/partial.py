"""Solo and majority allreduce against the fabric's own, and what their tasks cost a rank that computes.

Latency: 8 and 32 ranks of this machine, 64 B to 4 MB, all coming at once and one after the other (Figure 8). Rounds are
by recursive doubling, as the paper's and by default, and by the library's own allreduce on a channel beside (`native`):
what is over its latency then is the activation and the tasks. CPU time says what of a latency is work where ranks share
cores. Cost: matrix products a second on as many ranks as cores, with the tasks of a partial allreduce waiting beside
them and without, in turns. How long a rank that computes needs to hear of a round is in the skewed latency of solo: the
task looks for messages the less often, the longer none came (at most `LONGEST_IDLE_SLEEP_S` apart).
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from repro.bench.goals import Goal, of_ratio, ratio
from repro.bench.ranks import run_jobs
from repro.fabric.collectives.activation import SOLO
from repro.fabric.collectives.auto import NATIVE
from repro.fabric.real.mpi import LONGEST_IDLE_SLEEP_S

PROGRAM = "repro.bench.partial_program"
WORLDS, SIZES = (8, 32), (64, 262144, 4 << 20)
# collective, and the algorithm of its rounds
COLLECTIVES = (
    ("allreduce", NATIVE),
    ("recursive_doubling", "recursive_doubling"),
    ("solo", "recursive_doubling"),
    ("solo", NATIVE),
    ("majority", "recursive_doubling"),
    ("majority", NATIVE),
)
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

    rows: {ranks, bytes, step_s, collective, algorithm (of its rounds), latency_s {median, all}, cpu_s (of a call, mean
    over ranks, least of the rounds), nap, over_own {median, min, max} (its latency over the library's own, turn by
    turn)}.
    progress: {ranks, with, without (products a second, medians over turns and ranks), cost (share lost), looks_s}.
    """
    rows = [row for ranks in worlds for row in latencies(ranks, sizes, calls, rounds)]
    return {"rows": rows, "progress": progress(seconds, turns), "against_goals": goals(rows)}


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of solo where all come at once: there a partial collective has nothing to gain."""
    found = []
    for row in rows:
        if row["collective"] == SOLO and row["step_s"] == 0:
            what = f"{UNSKEWED.what}, rounds by {row['algorithm']}, {row['bytes']} bytes, {row['ranks']} ranks"
            found.append(of_ratio(UNSKEWED._replace(what=what), row["over_own"]))
    return found


def latencies(ranks: int, sizes: tuple[int, ...], calls: int, rounds: int) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = [
        {
            "what": "latency",
            "collective": name,
            "algorithm": algorithm,
            "bytes": nbytes,
            "step_s": step_s,
            "calls": calls,
        }
        for step_s in STEP_S
        for nbytes in sizes
        for name, algorithm in COLLECTIVES
    ]
    rows = []
    own: list[float] = []
    for job, found in zip(jobs, run_jobs("mpi", ranks, jobs, rounds, PROGRAM), strict=True):
        all_ = [row["latency_s"]["mean"] for row in found]
        if job["collective"] == COLLECTIVES[0][0]:
            own = all_  # those that follow are of the same size and skew
        rows.append(
            {
                "ranks": ranks,
                "bytes": job["bytes"],
                "step_s": job["step_s"],
                "collective": job["collective"],
                "algorithm": job["algorithm"],
                "latency_s": {"median": statistics.median(all_), "all": all_},
                "cpu_s": min(row["cpu_s"] for row in found),
                "nap": statistics.fmean(row["nap"] for row in found),
                "over_own": ratio(all_, own),
            }
        )
    return rows


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
    lines = ["partial allreduce on ranks of this machine: latency, mean over ranks, and over the library's own; CPU"]
    lines.append(
        f"  {'ranks':>6}{'apart':>8}{'bytes':>10}  {'collective':20}{'rounds by':20}{'ms':>10}{'over':>8}{'CPU ms':>10}"
        f"{'active':>8}"
    )
    for row in result["rows"]:
        lines.append(
            f"  {row['ranks']:>6}{1e3 * row['step_s']:>6g}ms{row['bytes']:>10}  {row['collective']:20}"
            f"{row['algorithm']:20}{1e3 * row['latency_s']['median']:>10.3f}{row['over_own']['median']:>8.2f}"
            f"{1e3 * row['cpu_s']:>10.3f}{row['nap']:>8.1f}"
        )
    found = result["progress"]
    lines.append(
        f"  tasks that wait beside {found['ranks']} computing ranks cost {found['cost']['median']:.1%} of their "
        f"throughput (median of {len(found['cost']['all'])}); they look for messages up to "
        f"{1e3 * found['looks_s']:g} ms apart"
    )
    return "\n".join(lines)
