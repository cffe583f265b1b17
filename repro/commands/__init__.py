"""The commands of `repro`, a module for each group; `add(commands)` registers a module's own.

Heavy libraries are imported inside the functions that need them: `list` and `show` are quick.
"""

from repro.commands import benchmarks, experiments, machine, pages, slurm, testbed, tracking

MODULES = (experiments, slurm, pages, benchmarks, machine, tracking, testbed)  # in the order of `repro --help`
