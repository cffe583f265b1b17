"""The fastest strategy over bandwidth, computation : communication, workers and imbalance: `repro map`.

Closed forms on the whole grid; beside a border, where another strategy is the fastest in a neighbouring cell, the two
best are simulated as far as there is time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from repro.experiment.testbeds import testbed_of
from repro.ranking import answer, forms, workload
from repro.ranking.candidates import ANY, SYNCHRONOUS, Candidate, every
from repro.ranking.cells import Cell, neighbours
from repro.ranking.flips import alike
from repro.ranking.setting import Setting, cluster

GBITS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
RATIOS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)  # computation over the time to send the gradient twice
WORKERS = (2, 4, 8, 16, 32, 128)
LATE = (0.0, 0.25, 1.0)  # share of its computation by which one random worker is late in each iteration
MODEL = "resnet50"
SIMULATED = 8  # workers up to which cells beside a border are simulated
KINDS = (SYNCHRONOUS, ANY)


def setting(base: Setting, gbit: float, ratio: float, workers: int, late: float) -> Setting:
    """One cell: the model's gradient, with a computation that is `ratio` times as long as sending it twice."""
    computation_s = ratio * 2 * base.nbytes * 8 / (gbit * 1e9)
    own = replace(base, workers=workers, late=late).with_entries(beta_s_per_byte=8 / (gbit * 1e9))
    return own.slower(computation_s / base.computation_s)


def of_model(model: str = MODEL) -> Setting:
    bed: Any = testbed_of(cluster())
    load = workload.of(model, 32).taking(1.0, "given by the ratio")
    return Setting(load.profile, 2, bed, matrices=load.matrices)


def cells(base: Setting, say: Callable[[str], object] = lambda line: None) -> list[Cell]:
    """The whole grid by closed forms."""
    among, found = every(), []
    for workers in WORKERS:
        say(f"{workers} workers ...")
        for gbit, ratio, late in product(GBITS, RATIOS, LATE):
            times = forms.seconds(among, setting(base, gbit, ratio, workers, late))
            found += [_cell(among, times, (gbit, ratio, workers, late), kind) for kind in KINDS]
    return found


def _cell(
    among: Mapping[str, Candidate], times: Mapping[str, float], place: tuple[float, float, int, float], kind: str
) -> Cell:
    """Of those that are alike the simplest."""
    own = {name: seconds for name, seconds in times.items() if among[name].counts(kind)}
    best = alike(own)[0]
    second = min((name for name in own if name != best), key=lambda name: own[name])
    return Cell(*place, kind, best, own[best], second, max(0.0, own[second] / own[best] - 1))


def borders(found: Sequence[Cell]) -> list[Cell]:
    """The cells with a neighbour where another is the fastest; the smallest margins first."""
    beside = {cell.place for _, *both in neighbours(found) for cell in both}
    return sorted((cell for cell in found if cell.place in beside), key=lambda one: one.margin)


def simulated(base: Setting, cell: Cell) -> Cell:
    """The two best of a cell, simulated: the cell as that has it."""
    where, among = setting(base, cell.gbit, cell.ratio, cell.workers, cell.late), every()
    times = {name: answer.of_code(among[name], where).seconds for name in among if name in (cell.best, cell.second)}
    found = _cell(among, times, cell.place[:4], cell.kind)
    return replace(found, by="simulation", agrees=found.best == cell.best)


def made(seconds: float, say: Callable[[str], object] = lambda line: None, model: str = MODEL) -> list[Cell]:
    """The map, in about so many seconds."""
    until = time.perf_counter() + seconds
    base, among = of_model(model), every()
    found = {cell.place: cell for cell in cells(base, say)}
    done = 0
    for cell in borders(list(found.values())):
        if time.perf_counter() > until:
            break
        if cell.workers <= SIMULATED and among[cell.best].modelled and among[cell.second].modelled:
            found[cell.place] = simulated(base, cell)
            done += 1
            if not done % 20:
                say(f"{done} cells beside a border simulated ...")
    return list(found.values())
