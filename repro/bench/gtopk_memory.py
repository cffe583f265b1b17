"""Memory of a rank by strategy: how far its peak rises above that of a rank that exchanges nothing.

Each strategy trains a model of a given size without computation on two ranks, processes of their own. As a rank
(`python -m repro.bench.gtopk_memory STRATEGY ELEMENTS`) it prints one line for the parent.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

ELEMENTS = (14_728_266,)  # VGG-16
STRATEGIES = ("alone", "dsync", "gtopk")
RANKS, STEPS = 2, 3
TIMEOUT_S, STALL_S = 60.0, 90.0


def measure(elements: int) -> list[dict[str, Any]]:
    """[{strategy, elements, peak_bytes (resident, of the rank with most), gradients}].

    gradients: bytes above those of `alone`, in dense gradients (4 bytes an element); None of `alone`, which holds one.
    """
    rows: list[dict[str, Any]] = [
        {"strategy": name, "elements": elements, "peak_bytes": peak(name, elements)} for name in STRATEGIES
    ]
    alone = rows[0]["peak_bytes"]
    return [
        row | {"gradients": None if row["strategy"] == "alone" else (row["peak_bytes"] - alone) / (4 * elements)}
        for row in rows
    ]


def peak(strategy: str, elements: int) -> int:
    """Peak resident bytes of the rank that has most."""
    from repro.launch.local import environment, mpirun_command
    from repro.launch.supervise import Ranks

    program = ["-m", "repro.bench.gtopk_memory", strategy, str(elements)]
    heard: list[dict[str, Any]] = []
    ranks = Ranks(mpirun_command(RANKS, program), environment(1), None)
    try:
        ranks.follow(heard.append, STALL_S)
    finally:
        ranks.stop()
    return next(message["peak_bytes"] for message in heard if "peak_bytes" in message)


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["  memory of a rank above one that exchanges nothing (and holds one gradient), in dense gradients"]
    for row in rows:
        more = "" if row["gradients"] is None else f"{row['gradients']:+12.2f}"
        lines.append(f"  {row['strategy']:8}{row['elements']:>12}{row['peak_bytes'] / 1e6:>10.0f} MB{more}")
    return "\n".join(lines)


def main(name: str, elements: int) -> None:
    import torch

    from repro import strategies
    from repro.fabric.real.mpi import MpiFabric
    from repro.probes.shared.computation import Alone
    from repro.probes.shared.synthetic import Sleep, Workload, worker

    torch.set_num_threads(1)
    fabric = MpiFabric(timeout_s=TIMEOUT_S)
    strategy_class = Alone if name == "alone" else strategies.load(name)
    strategy = strategy_class() if name == "alone" else strategy_class(strategy_class.parse({}))
    strategy.setup(worker(fabric, RANKS, Workload(4 * elements, 1, 0.0, 0.0), Sleep(fabric)))
    strategy.worker.clock.start()
    for _ in range(STEPS):
        strategy.step()
    strategy.drain()
    mine = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest = max(fabric.exchange(mine))
    strategy.close()
    if fabric.rank == 0:
        print("@" + json.dumps({"peak_bytes": largest}), flush=True)
    fabric.close()


if __name__ == "__main__":
    from repro.rank.main import guarded

    guarded(lambda: main(sys.argv[1], int(sys.argv[2])))
