"""Tables of the controls, whose results are known: emulated step times beside simulated ones with the same
constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from repro.core.not_none import not_none
from repro.records.kinds import EMULATED, SIMULATED
from repro.records.record import Found
from repro.records.variants import but_strategy, same_work


def pairs(runs: Sequence[Found]) -> pd.DataFrame:
    """A row for each pair of an emulated run and its simulation with the same seed and constants: median steps in ms.

    error: simulated over emulated less 1, in %.
    """
    works = same_work([run.identity for run in runs])
    of_pairs = [(*work, run.identity.seed, _constants(run)) for run, work in zip(runs, works, strict=True)]
    simulated = {pair: run for pair, run in zip(of_pairs, runs, strict=True) if run.kind == SIMULATED}
    rows = []
    for run, pair in zip(runs, of_pairs, strict=True):
        if run.kind == EMULATED and (twin := simulated.get(pair)):
            emulated_s, simulated_s = _median_s(run), _median_s(twin)
            error = 100 * (simulated_s / emulated_s - 1)
            times = {"emulated": 1e3 * emulated_s, "simulated": 1e3 * simulated_s, "error": error}
            rows.append(_facts(run) | times | {"counts": True, "spread": float("nan")})
    return pd.DataFrame(rows)


def ratios(runs: Sequence[Found]) -> pd.DataFrame:
    """A row an emulated run of a control: its median step in ms, and over D-Sync's with all else equal."""
    emulated = [run for run in runs if run.kind == EMULATED]
    shared = but_strategy([run.identity for run in emulated])
    places = [(*others, run.identity.seed) for run, others in zip(emulated, shared, strict=True)]
    steps = {
        place: _median_s(run)
        for run, place in zip(emulated, places, strict=True)
        if run.identity.factors["method"] == "D-Sync"
    }
    rows = [
        _facts(run) | {"emulated": 1e3 * _median_s(run), "ratio": _median_s(run) / steps[place]}
        for run, place in zip(emulated, places, strict=True)
        if place in steps
    ]
    return pd.DataFrame(rows)


def by_factor(runs: Sequence[Found], factor: str) -> pd.DataFrame:
    """A row a strategy of the experiment that varies a factor: its step in ms by the factor, mean over seeds."""
    rows = [run.identity.factors | {"ms": 1e3 * _median_s(run)} for run in runs if factor in run.identity.factors]
    if not rows:
        return pd.DataFrame()
    wide = pd.DataFrame(rows).pivot_table("ms", "method", factor, sort=False)
    return wide.rename(columns=lambda value: f"by {value}").reset_index()


def shares(runs: Sequence[Found]) -> pd.DataFrame:
    """A row a network of the program `shares`: the spread of the links' shares in %, by the size of messages."""
    rows = []
    for run in runs:
        by_size = {f"by {point['bytes']}": 100 * point["spread"] for point in run.probe.found["points"]}
        rows.append({"kind": run.kind, "known": run.identity.testbed.parameters.get("share_spread"), **by_size})
    return pd.DataFrame(rows)


def _facts(run: Found) -> dict[str, Any]:
    of_testbed = {name: run.identity.testbed.parameters.get(name) for name in ("slow_down", "shrink")}
    about = {"experiment": run.identity.experiment, "variant": run.label, "workers": run.identity.workers}
    return about | of_testbed


def _median_s(run: Found) -> float:
    return not_none(run.training.step.median_s)


def _constants(run: Found) -> str:
    """The constants that an emulated run shares with its simulation."""
    return repr(sorted((name, repr(value)) for name, value in run.identity.testbed.shared_constants.items()))
