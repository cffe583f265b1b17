"""The commands of `repro`, a module for each group; `add(commands)` registers a module's own.

Heavy libraries are imported inside the functions that need them: `list` is quick.
"""

from repro.commands import (
    batching,
    benchmarks,
    experiments,
    faults,
    machine,
    pages,
    planning,
    results,
    schedules,
    slurm,
    testbed,
    tracking,
)

# in the order of `repro --help`
MODULES = (
    *(experiments, results, slurm, pages, planning, batching, schedules, benchmarks, faults, machine, tracking),
    testbed,
)
