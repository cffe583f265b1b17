"""Draws behind a prediction's interval: values for unknown inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking.cluster import cluster_entries
from repro.answers.ranking.links import Quantiles
from repro.experiment import inputs
from repro.experiment.draws import with_entries
from repro.experiment.inputs import Input

DRAWS = 64


def assumed_inputs(known: Collection[str], setting: Setting) -> dict[str, Input | Quantiles]:
    """The inputs of `cluster.yaml` that are not known, and what the setting's links deliver, by name."""
    every: dict[str, Any] = {name: Input.model_validate(each) for name, each in cluster_entries()["inputs"].items()}
    inputs.check_inputs(every, "cluster.yaml")
    return {name: each for name, each in every.items() if name not in known} | dict(setting.links)


def drawn_settings(setting: Setting, known: Collection[str]) -> Iterator[Setting]:
    """The setting at each draw."""
    unknown = assumed_inputs(known, setting)
    quantiles = {name: inputs.draw_quantiles(name, DRAWS) for name in unknown}
    for draw in range(DRAWS):
        yield setting_at(setting, {name: (each, float(quantiles[name][draw])) for name, each in unknown.items()})


def setting_at(setting: Setting, at: Mapping[str, tuple[Input | Quantiles, float]]) -> Setting:
    """The setting with inputs at their quantiles."""
    plain = setting.testbed.model_dump(mode="json") | {"late": setting.late}
    entries: dict[str, Any] = {}
    for each, quantile in at.values():
        entries |= each.drawn(quantile, plain)
    drawn = with_entries(plain, entries)
    costs = {path.partition(".")[0] for path in entries} - {"late", "device"}
    usual, device = plain["device"]["utilisation"], drawn["device"]["utilisation"]
    where = setting.with_entries(**{name: drawn[name] for name in costs})
    return replace(where if usual == device else where.slower(usual / device), late=drawn["late"])
