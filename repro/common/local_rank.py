"""Which of its host's ranks a rank is: what its launcher says, for the choice of a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping

# The innermost launcher first: mpirun or torchrun inside a batch job inherit Slurm's variables of the job's own script.
VARIABLES = (
    "LOCAL_RANK",  # torchrun; ours under srun
    "OMPI_COMM_WORLD_LOCAL_RANK",  # Open MPI's mpirun
    "MPI_LOCALRANKID",  # MPICH and Intel MPI
    "PALS_LOCAL_RANKID",  # Cray
    "SLURM_LOCALID",  # srun
)


def local_rank(environment: Mapping[str, str] | None = None, otherwise: int = 0) -> int:
    """From 0, among the ranks of this host; `otherwise` where no launcher says it."""
    given = os.environ if environment is None else environment
    return next((int(given[name]) for name in VARIABLES if given.get(name, "").isdigit()), otherwise)
