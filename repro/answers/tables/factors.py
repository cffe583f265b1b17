"""The factors of a run: what its experiment's grid varies, as its record carries them.

A record from before there were factors has a label alone: its factors are those that the experiment's file, today,
gives that label.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from repro.experiment import config, files
from repro.experiment.grid import Value, Variant

Factors = Mapping[str, Value]


def of(run: Mapping[str, Any]) -> Factors:
    """A run's factors, by name; none of a run that nobody planned."""
    return run.get("factors") or known(run["paper"], run["experiment"]).get(run["variant"], {})


@cache
def known(paper: str, experiment: str) -> Mapping[str, Factors]:
    """Label -> factors, in the order of the files, of all files whose runs are an experiment's."""
    return {
        variant.label: variant.factors
        for name in _files(paper).get(experiment, ())
        for variant in config.own_variants(name)
    }


@cache
def _files(paper: str) -> Mapping[str, list[str]]:
    """Experiment -> the files whose runs are its; a file's own name, by which pages tell them apart -> itself."""
    found: dict[str, list[str]] = {}
    for name in config.group_names("experiment"):
        if name.startswith(f"{paper}/"):
            for called in {config.own_file(name).get("experiment", ""), name.partition("/")[2]}:
                found.setdefault(called, []).append(name)
    return found


@cache
def variants(paper: str, experiment: str) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Label -> (strategy, its options) as an experiment's files have them, without what they take from elsewhere."""
    return {
        variant.label: _strategy(config.own_file(name), variant)
        for name in _files(paper).get(experiment, ())
        for variant in config.own_variants(name)
    }


def _strategy(own: Mapping[str, Any], variant: Variant) -> tuple[str, Mapping[str, Any]]:
    made = dict(override.partition("=")[::2] for override in variant.overrides)
    name = made.get("strategy") or config.own_strategy(own)
    options = files.group_file("strategy", name) | (own.get("strategy") or {})
    options |= {key.removeprefix("strategy."): value for key, value in made.items() if key.startswith("strategy.")}
    read = {key: yaml.safe_load(value) if isinstance(value, str) else value for key, value in options.items()}
    return name, {key: value for key, value in read.items() if key != "name" and "${" not in str(value)}
