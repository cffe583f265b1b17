"""Draws behind a prediction's interval: values for unknown inputs, each with a measured error of the simulation."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from repro.answers.claims import residuals
from repro.answers.claims.evidence import validation_steps
from repro.answers.claims.residuals import Residuals
from repro.answers.ranking.setting import Setting, cluster_entries
from repro.experiment import inputs
from repro.experiment.draws import with_entries
from repro.experiment.inputs import Input

DRAWS = 64


def assumed_inputs(known: Collection[str]) -> dict[str, Input]:
    """The inputs of `cluster.yaml` that are not known, by name."""
    every = {name: Input.model_validate(each) for name, each in cluster_entries()["inputs"].items()}
    inputs.check_inputs(every, "cluster.yaml")
    return {name: each for name, each in every.items() if name not in known}


def drawn_settings(setting: Setting, known: Collection[str]) -> Iterator[Setting]:
    """The setting at each draw."""
    plain = setting.testbed.model_dump(mode="json") | {"late": setting.late}
    unknown = assumed_inputs(known)
    quantiles = {name: inputs.draw_quantiles(name, DRAWS) for name in unknown}
    for draw in range(DRAWS):
        entries: dict[str, Any] = {}
        for name, each in unknown.items():
            entries |= each.drawn(float(quantiles[name][draw]), plain)
        drawn = with_entries(plain, entries)
        costs = {path.partition(".")[0] for path in entries} - {"late", "device"}
        usual, device = plain["device"]["utilisation"], drawn["device"]["utilisation"]
        at = setting.with_entries(**{name: drawn[name] for name in costs})
        yield replace(at if usual == device else at.slower(usual / device), late=drawn["late"])


def simulation_errors(strategies: Collection[str], nbytes: float) -> Residuals | None:
    """The errors of simulated times of these strategies."""
    return residuals.residuals_for(validation_steps(None), strategies, nbytes)
