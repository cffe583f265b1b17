"""Draws of a configuration's assumed inputs: `repro run EXPERIMENT --draws N`.

A draw simulates times without arithmetic, and only the first iterations of a training, which are like the
others but for what happens every some epochs, as a synchronisation of models (`Claim.whole`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from repro.core.errors import InputError, NotHere
from repro.core.fields import check_fields
from repro.core.registry import PLUGINS, TRAIN
from repro.experiment import inputs
from repro.experiment.inputs import Input
from repro.experiment.plugins import Plugin
from repro.experiment.schema import RunConfig

ITERATIONS = 50  # maximum of a drawn training
TESTBED = "testbed."


def inputs_of(config: RunConfig) -> dict[str, Input]:
    """name -> input of a run, with paths in the whole configuration; an experiment's inputs replace its testbed's.

    InputError for an input that no `inputs.yaml` names, and for a value that a printed number excludes.
    """
    testbed = getattr(config.testbed, "inputs", {})
    inputs.check_inputs(testbed, f"testbed {config.testbed.name}")
    inputs.check_inputs(config.inputs, f"{config.paper}/{config.experiment}")
    return {name: _on_testbed(entry) for name, entry in testbed.items()} | dict(config.inputs)


def _on_testbed(entry: Input) -> Input:
    choices = [
        choice.model_copy(update={"sets": {TESTBED + path: value for path, value in choice.sets.items()}})
        for choice in entry.choices
    ]
    entries = {TESTBED + path: range_ for path, range_ in entry.entries.items()}
    return entry.model_copy(update={"entries": entries, "choices": choices})


def has_draws(config: RunConfig) -> bool:
    """Whether the inputs of a run can be drawn."""
    return config.simulated and bool(inputs_of(config))


def check_draws(config: RunConfig) -> None:
    """InputError if a run has nothing to draw, or if a hypothesis makes an invalid configuration."""
    where = f"{config.paper}/{config.experiment} on {config.testbed.name}"
    if not config.simulated:
        raise NotHere(f"--draws: {where} is {config.testbed.kind}; only simulated testbeds have inputs to draw")
    if not (assumed := inputs_of(config)):
        raise NotHere(f"--draws: {where} has no inputs; must have `inputs:` with distributions and sources")
    for name, entry in assumed.items():
        for choice in entry.choices:
            try:
                change_entries(config, dict(choice.sets))
            except InputError as error:
                raise InputError(f"{where}: input {name}: {error}") from None


def describe_inputs(config: RunConfig) -> dict[str, Any]:
    """The distributions as plain data, without sources: a part of the key of a sweep."""
    return {
        name: entry.model_dump(mode="json", exclude={"source", "printed"})
        for name, entry in sorted(inputs_of(config).items())
    }


def draw_entries(config: RunConfig, draws: int) -> list[dict[str, dict[str, Any]]]:
    """For each draw: input -> the entries that it sets, without inputs of costs that the run does not have.

    Hypotheses are drawn first, because ranges of shares are relative to the values that they set.
    """
    assumed, plain = inputs_of(config), config.plain()
    quantiles = {name: inputs.draw_quantiles(name, draws) for name in assumed}
    order = sorted(assumed, key=lambda name: not assumed[name].choices)
    sets = []
    for draw in range(draws):
        configured, drawn = plain, {}
        for name in order:
            drawn[name] = assumed[name].drawn(float(quantiles[name][draw]), configured)
            if assumed[name].choices:
                configured = with_entries(configured, drawn[name])
        sets.append({name: drawn[name] for name in assumed if drawn[name]})
    return sets


def change_entries(config: RunConfig, entries: dict[str, Any]) -> RunConfig:
    """The configuration with these entries, without arithmetic; InputError for an unknown entry."""
    plain = config.plain() | {"draws": 0, "inputs": {}, "numerics": {}, "device": "auto"}
    plain["testbed"] = plain["testbed"] | {"arithmetic": "none", "inputs": {}}
    return check_fields(RunConfig, with_entries(plain, entries))


def with_entries(plain: dict[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of plain data with these entries, path -> value; InputError for an unknown entry."""
    plain = dict(plain)
    for path, value in entries.items():
        *outer, last = path.split(".")
        node = plain
        for name in outer:
            if not isinstance(node.get(name), dict):
                raise InputError(f"{path}: unknown entry")
            node[name] = node = dict(node[name])
        if last not in node and len(outer) < 2:  # a device has entries of either its rate or its time
            raise InputError(f"{path}: unknown entry")
        node[last] = value
    return plain


def cut_training(config: RunConfig, per_epoch: int) -> RunConfig:
    """The configuration of a training's first ITERATIONS iterations; per_epoch: iterations of an epoch."""
    longest = ITERATIONS / per_epoch
    if config.program != TRAIN or config.epochs <= longest:
        return config
    ends = {"epochs": longest, "eval_every": longest, "checkpoint_every": longest}
    return config.model_copy(update=ends | {"strategy": skip_warmup(config.strategy)})


def skip_warmup(strategy: Plugin) -> Plugin:
    """A strategy without warm-up: its options warmup_* at their defaults. A short training would be mostly warm-up."""
    options = strategy.options
    if not is_dataclass(options) or isinstance(options, type):
        return strategy
    defaults = PLUGINS["strategy"].defaults(strategy.name)
    warmups = {field.name for field in fields(options) if field.name.startswith("warmup_")}
    return replace(strategy, options=replace(options, **{name: defaults[name] for name in warmups & defaults.keys()}))
