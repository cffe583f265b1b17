"""A prediction's interval: draws of what was not given, each with an error of the simulation that was measured."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from repro.answers.claims import residuals
from repro.answers.claims.evidence import validation
from repro.answers.claims.residuals import Residuals
from repro.experiment import inputs
from repro.experiment.inputs import Input
from repro.ranking.setting import Setting, cluster

DRAWS = 64
COVERS = 0.9  # of the draws


def assumed(given: Collection[str]) -> dict[str, Input]:
    """The inputs of `cluster.yaml` that are not given, by name."""
    every = {name: Input.model_validate(one) for name, one in cluster()["inputs"].items()}
    inputs.check_names(every, "cluster.yaml")
    return {name: one for name, one in every.items() if name not in given}


def settings(setting: Setting, given: Collection[str], count: int = DRAWS) -> Iterator[Setting]:
    """The setting at each draw."""
    plain = setting.testbed.model_dump(mode="json") | {"late": 0.0}
    unknown = assumed(given)
    quantiles = {name: inputs.quantiles(name, count) for name in unknown}
    for draw in range(count):
        drawn: dict[str, Any] = {}
        for name, one in unknown.items():
            drawn |= one.drawn(float(quantiles[name][draw]), plain)
        yield _with(setting, drawn)


def _with(setting: Setting, drawn: dict[str, Any]) -> Setting:
    late = drawn.pop("late", None)
    utilisation = drawn.pop("device.utilisation", None)
    entries: dict[str, Any] = {}
    for path, value in drawn.items():
        name, _, key = path.partition(".")
        entries[name] = entries.get(name, dict(getattr(setting.testbed, name))) | {key: value} if key else value
    found = setting.with_entries(**entries)
    if utilisation is not None:
        found = found.slower(cluster()["device"]["utilisation"] / utilisation)
    return found if late is None else replace(found, late=late)


def errors(strategies: Collection[str], nbytes: float) -> Residuals | None:
    """By how much simulated times of these strategies may be off."""
    return residuals.of(validation(None), strategies, nbytes)
