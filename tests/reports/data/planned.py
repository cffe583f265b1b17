"""What the experiments' files plan, for made-up runs of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from repro.answers.figures import specification
from repro.answers.tables.results import arrange
from repro.core.paths import REPORTS
from repro.experiment import config, files
from tests.support.configs import own_strategy, own_variants
from tests.support.records import found_of

NOWHERE = Path("/nonexistent")  # no validation, so no error of simulated times


class Experiment(NamedTuple):
    """variants: label -> (strategy, its options), in the order of the files; factors: label -> factors"""

    name: str
    variants: dict
    factors: dict


@cache
def planned(paper, name):
    """An experiment by the files whose runs are its."""
    own = [file for file in config.group_names("experiment") if file.startswith(f"{paper}/")]
    own = [file for file in own if name in (config.own_file(file).get("experiment"), file.partition("/")[2])]
    every = [(config.own_file(file), variant) for file in own for variant in own_variants(file)]
    variants = {variant.label: _strategy(of_file, variant) for of_file, variant in every}
    return Experiment(name, variants, {variant.label: variant.factors for _, variant in every})


def _strategy(own, variant):
    made = dict(override.partition("=")[::2] for override in variant.overrides)
    name = made.get("strategy") or own_strategy(own)
    options = files.group_file("strategy", name) | (own.get("strategy") or {})
    options |= {key.removeprefix("strategy."): value for key, value in made.items() if key.startswith("strategy.")}
    read = {key: yaml.safe_load(value) if isinstance(value, str) else value for key, value in options.items()}
    return name, {key: value for key, value in read.items() if key != "name" and "${" not in str(value)}


def training(paper):
    """The experiments of a page that train, in its order."""
    names = specification.read(REPORTS / paper / "figures.yaml").experiments
    every = (planned(paper, name) for name in names)
    probes = {name for name in names for one in [f"{paper}/{name}"] if "program" in _own(one)}
    return [experiment for experiment in every if experiment.variants and experiment.name not in probes]


def _own(file):
    return config.own_file(file) if file in config.group_names("experiment") else {}


def shown(paper, runs, experiment):
    """kind -> the runs that a page shows of an experiment, of these, made from flat summaries."""
    return arrange(paper, map(found_of, runs), NOWHERE).of(getattr(experiment, "name", experiment))
