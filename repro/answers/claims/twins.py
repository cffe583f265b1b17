"""Where runs were emulated too: by how much their steps are off in simulation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from repro.answers.claims.residuals import Residual, Twins
from repro.answers.tables.runs import Runs

Summary = Mapping[str, Any]


def of(pairs: Iterable[tuple[Runs | None, Runs | None]]) -> dict[str, Twins]:
    """By experiment and model, those of pairs of emulated runs and their simulations; of a run that is in several
    pairs one."""
    every: dict[tuple[Any, ...], tuple[Summary, float]] = {}
    for emulated, simulated in pairs:
        if emulated is not None and simulated is not None:
            ours = _steps(simulated)
            both = {name: of for name, of in _steps(emulated).items() if name in ours}
            every |= {name: (run, median(times) / median(ours[name][1])) for name, (run, times) in both.items()}
    found: dict[str, Twins] = {}
    for run, factor in every.values():
        nbytes = 4.0 * int(run["model"].get("parameters") or 0)
        twins = found.setdefault(f"{run['experiment']} {run['model']['name']}", Twins(nbytes))
        twins.of.append(Residual(run["strategy"], factor, run.get("options") or {}, run["workers"]))
    return {name: one for name, one in found.items() if one.bytes}


def _steps(runs: Runs) -> dict[tuple[Any, ...], tuple[Summary, list[float]]]:
    """The medians of their steps, of all seeds of what trains alike."""
    found: dict[tuple[Any, ...], tuple[Summary, list[float]]] = {}
    for run in runs.records.values():
        step = (run.get("step") or {}).get("median_s")
        if step and run.get("strategy"):
            same = json.dumps([run.get("options"), run.get("imbalance")], sort_keys=True)
            name = run["experiment"], run["model"]["name"], run["workers"], run["strategy"], same
            found.setdefault(name, (run, []))[1].append(step)
    return found
