"""Start the ranks of a benchmark and collect what they find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from repro.experiment.testbeds import Measured
from repro.launch.base import Launcher
from repro.launch.local import Mpirun, Torchrun
from repro.launch.shaped import ShapedMpirun, ShapedTorchrun
from repro.launch.supervise import Ranks

NAMES = {"mpi": "mpirun", "torch": "torchrun"}
LAUNCHERS: dict[str, type[Launcher]] = {"mpi": Mpirun, "torch": Torchrun}
SHAPED: dict[str, type[Launcher]] = {"mpi": ShapedMpirun, "torch": ShapedTorchrun}
STALL_S = 150.0  # a little more than a rank's own limit, whose message says more


def run_jobs(
    fabric: str,
    ranks: int,
    jobs: list[dict[str, Any]],
    rounds: int = 1,
    program: str = "repro.bench.rank_program",
    rate_gbit: float | None = None,
    variables: Mapping[str, str] | None = None,
    device: str = "cpu",
) -> list[list[Any]]:
    """What `ranks` processes find in each job: the seconds of every repetition, or what else the program says.

    program: the module that a rank runs. rate_gbit: of links between hosts of namespaces, one a rank; None: this
    machine's shared memory, or loopback. variables: more of the environment. device: of the ranks'
    tensors. The ranks' own errors are raised here; InputError where this machine has no such links.
    """
    name = NAMES[fabric]
    given = json.dumps({"launcher": name, "device": device, "rounds": rounds, "jobs": jobs})
    testbed = Measured(name="bench", kind="measured", network="bench", launcher=name, rate_gbit=rate_gbit)
    launcher = (SHAPED if rate_gbit else LAUNCHERS)[fabric](testbed)
    found: list[list[Any]] = [[] for _ in jobs]
    # both launchers hand what follows to Python; torchrun takes `-m` as an option of its own
    with launcher.place(ranks, ["-m", program, given], 1) as place:
        processes = Ranks(place.command, place.environment | dict(variables or {}), None)
        try:
            processes.follow(lambda message: found[message["job"]].extend(message["seconds"]), STALL_S)
        finally:
            processes.stop()
    return found
