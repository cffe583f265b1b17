"""The floor of a solo allreduce (eager-SGD, section 4.1) where all ranks come at once, over MPI's own allreduce.

Side `bare` is a program that only does what the algorithm cannot do without: every rank, as all of them initiate the
round, sends the messages that activate it (log2 P of 16 bytes), calls MPI's blocking allreduce, and receives as many
messages. It has no second thread, no send buffer and no round that a late rank could miss. The benchmark `partial` has
the seconds of our solo allreduce.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from repro.fabric.base import Fabric
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.stopwatch import start_together
from tests.bench.ranks import print_rows, run_ranks

SIZES = {"quick": ([2], [64], 2), "full": ([8, 32], [64, 262144, 4194304], 9)}  # ranks; bytes; turns
GOALS = [
    {"what": "a bare program's solo allreduce over MPI's allreduce, all coming at once", "where": {"side": "bare"},
     "over": {"side": "allreduce"}, "number": "latency_s", "by": ["ranks", "bytes"], "at_most": 2.0},
]  # fmt: skip


def measure_rows(scale: str) -> list[dict[str, Any]]:
    """A row for each number of ranks, size and side: seconds of a call, mean over ranks, of the fastest turn."""
    worlds, sizes, turns = SIZES[scale]
    settings = {"worlds": worlds, "sizes": sizes, "turns": turns}
    return run_ranks("tests.bench.solo_floor", max(worlds), "here", settings)


def latency_rows(fabric: Fabric, worlds: list[int], sizes: list[int], turns: int) -> list[dict[str, Any]]:
    """The rows, on every rank."""
    rows = []
    for ranks in worlds:
        group = fabric.subgroup(range(ranks))
        if group is not None:
            for nbytes in sizes:
                vector = np.ones(nbytes // 4, np.float32)
                sides = {side: partial(mean_seconds, group, call, vector) for side, call in SIDES.items()}
                for side, seconds in run_in_turns(sides, turns, alternate=True).items():
                    rows.append({"ranks": ranks, "bytes": nbytes, "side": side, "latency_s": min(seconds)})
        fabric.exchange(None)
    return rows


def mean_seconds(group: Any, call: Callable[[Any, np.ndarray], None], vector: np.ndarray) -> float:
    """Seconds of a call, mean over ranks, which start together."""
    start_together(group)
    start = group.now()
    call(group, vector)
    return fmean(group.exchange(group.now() - start))


def allreduce(group: Any, vector: np.ndarray) -> None:
    group.comms[0].Allreduce(group.mpi.IN_PLACE, vector, group.mpi.SUM)


def bare_solo(group: Any, vector: np.ndarray) -> None:
    signals, message, received = group.comms[1], np.zeros(2, np.int64), np.empty(2, np.int64)
    partners = [group.rank ^ (1 << dimension) for dimension in range((group.size - 1).bit_length())]
    sends = [signals.Isend(message, partner) for partner in partners]
    allreduce(group, vector)
    for partner in partners:
        signals.Recv(received, partner)
    group.mpi.Request.Waitall(sends)


SIDES = {"allreduce": allreduce, "bare": bare_solo}


if __name__ == "__main__":
    print_rows(latency_rows)
