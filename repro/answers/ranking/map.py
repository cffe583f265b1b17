"""What to use over bandwidth, computation : communication, workers and imbalance: `repro map`.

The whole grid is predicted by closed forms. Beside a border, where a neighbouring cell has another fastest strategy,
the two best are also simulated, up to a number of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms
from repro.answers.ranking.candidates import KINDS, Candidate, read_candidates, tied_names
from repro.answers.ranking.cells import Cell, differing_neighbours
from repro.answers.ranking.cluster import cluster_entries
from repro.answers.ranking.stored_workloads import find_workload
from repro.experiment.testbeds import testbed_of

GBITS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
RATIOS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)  # computation over the time to send the gradient twice
WORKERS = (2, 4, 8, 16, 32, 128)
LATE = (0.0, 0.25, 1.0)  # delay of one random worker in each iteration, a share of its computation
MODEL = "resnet50"
SIMULATED = 8  # the most workers with which cells are simulated


def cell_setting(base: Setting, gbit: float, ratio: float, workers: int, late: float) -> Setting:
    """The setting of a cell: the base's gradient, with a computation `ratio` times as long as sending it twice."""
    computation_s = ratio * 2 * base.nbytes * 8 / (gbit * 1e9)
    setting = replace(base, workers=workers, late=late).with_entries(beta_s_per_byte=8 / (gbit * 1e9))
    return setting.slower(computation_s / base.computation_s)


def of_model() -> Setting:
    """The base setting: MODEL on the cluster."""
    bed: Any = testbed_of(cluster_entries())
    load = find_workload(MODEL, 32).with_seconds(1.0, "given by the ratio")
    return Setting(load.profile, 2, bed, matrices=load.matrices)


def all_cells(base: Setting, lead: float, say: Callable[[str], object]) -> list[Cell]:
    """The whole grid by closed forms. lead: as of `Calibration`."""
    among, grid = read_candidates(), list[Cell]()
    for workers in WORKERS:
        say(f"{workers} workers ...")
        for gbit, ratio, late in product(GBITS, RATIOS, LATE):
            times = forms.step_seconds(among, cell_setting(base, gbit, ratio, workers, late), lead)
            grid += [_cell(among, times, lead, (gbit, ratio, workers, late), kind) for kind in KINDS]
    return grid


def _cell(
    among: Mapping[str, Candidate],
    times: Mapping[str, float],
    lead: float,
    place: tuple[float, float, int, float],
    kind: str,
) -> Cell:
    """The cell of these times: what to use is the simplest candidate that no other one replaces."""
    counted = {name: seconds for name, seconds in times.items() if among[name].counts(kind)}
    best = tied_names(counted, lead)[0]
    second = min((name for name in counted if name != best), key=lambda name: counted[name])
    return Cell(*place, kind, best, counted[best], second, max(0.0, counted[second] / counted[best] - 1))


def border_cells(grid: Sequence[Cell]) -> list[Cell]:
    """The cells with a neighbour whose fastest strategy differs; the smallest margins first."""
    beside = {cell.place for _, *both in differing_neighbours(grid) for cell in both}
    return sorted((cell for cell in grid if cell.place in beside), key=lambda each: each.margin)


def simulate_cell(base: Setting, lead: float, cell: Cell) -> Cell:
    """The cell by simulation of its two best candidates."""
    where, among = cell_setting(base, cell.gbit, cell.ratio, cell.workers, cell.late), read_candidates()
    times = {name: forms.simulate_seconds(among[name], where)[0] for name in among if name in (cell.best, cell.second)}
    by_code = _cell(among, times, lead, cell.place[:4], cell.kind)
    return replace(by_code, by="simulation", agrees=by_code.best == cell.best)


def build_map(simulations: int, lead: float, say: Callable[[str], object]) -> list[Cell]:
    """The map.

    simulations: the most cells to simulate; lead: as of `Calibration`; say: called with lines of progress.
    """
    base, among = of_model(), read_candidates()
    grid = {cell.place: cell for cell in all_cells(base, lead, say)}
    possible = (
        cell
        for cell in border_cells(list(grid.values()))
        if cell.workers <= SIMULATED and among[cell.best].modelled and among[cell.second].modelled
    )
    for done, cell in enumerate(islice(possible, simulations), 1):
        grid[cell.place] = simulate_cell(base, lead, cell)
        if not done % 20:
            say(f"{done} cells beside a border simulated ...")
    return list(grid.values())
