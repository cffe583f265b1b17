"""A prediction's interval: draws of what was not given, each with an error of the simulation that was measured."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from repro.answers.claims import residuals
from repro.answers.claims.evidence import validation
from repro.answers.claims.residuals import Residuals
from repro.experiment import inputs
from repro.experiment.draws import with_entries
from repro.experiment.inputs import Input
from repro.ranking.setting import Setting, cluster

DRAWS = 64
COVERS = 0.9  # of the draws


def assumed(given: Collection[str]) -> dict[str, Input]:
    """The inputs of `cluster.yaml` that are not given, by name."""
    every = {name: Input.model_validate(one) for name, one in cluster()["inputs"].items()}
    inputs.check_names(every, "cluster.yaml")
    return {name: one for name, one in every.items() if name not in given}


def settings(setting: Setting, given: Collection[str]) -> Iterator[Setting]:
    """The setting at each draw."""
    plain = setting.testbed.model_dump(mode="json") | {"late": setting.late}
    unknown = assumed(given)
    quantiles = {name: inputs.quantiles(name, DRAWS) for name in unknown}
    for draw in range(DRAWS):
        entries: dict[str, Any] = {}
        for name, one in unknown.items():
            entries |= one.drawn(float(quantiles[name][draw]), plain)
        drawn = with_entries(plain, entries)
        costs = {path.partition(".")[0] for path in entries} - {"late", "device"}
        usual, device = plain["device"]["utilisation"], drawn["device"]["utilisation"]
        found = setting.with_entries(**{name: drawn[name] for name in costs})
        yield replace(found if usual == device else found.slower(usual / device), late=drawn["late"])


def errors(strategies: Collection[str], nbytes: float) -> Residuals | None:
    """By how much simulated times of these strategies may be off."""
    return residuals.of(validation(None), strategies, nbytes)
