"""A configuration with its assumed inputs drawn: `repro run EXPERIMENT --draws N`.

Times alone are drawn: nothing is computed, and a training is cut to its first iterations, which are like the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from repro.core.errors import InputError, NotHere
from repro.core.fields import checked
from repro.core.registry import PLUGINS, TRAIN
from repro.experiment import inputs
from repro.experiment.inputs import Input
from repro.experiment.plugins import Plugin
from repro.experiment.schema import RunConfig

ITERATIONS = 50  # of a training, at most
TESTBED = "testbed."


def of(config: RunConfig) -> dict[str, Input]:
    """All inputs of a run, by name, their entries by paths of the whole configuration; an experiment's own count
    before its testbed's. InputError for one without a place in the sequence."""
    testbed = getattr(config.testbed, "inputs", {})
    inputs.check_names(testbed, f"testbed {config.testbed.name}")
    inputs.check_names(config.inputs, f"{config.paper}/{config.experiment}")
    return {name: _on_testbed(one) for name, one in testbed.items()} | dict(config.inputs)


def _on_testbed(one: Input) -> Input:
    choices = [
        choice.model_copy(update={"sets": {TESTBED + path: value for path, value in choice.sets.items()}})
        for choice in one.choices
    ]
    entries = {TESTBED + path: range_ for path, range_ in one.entries.items()}
    return one.model_copy(update={"entries": entries, "choices": choices})


def check(config: RunConfig) -> None:
    """InputError where a run has nothing to draw, or one of its hypotheses is no configuration."""
    where = f"{config.paper}/{config.experiment} on {config.testbed.name}"
    if not config.simulated:
        raise NotHere(f"--draws: {where} is {config.testbed.kind}; only simulated testbeds have inputs to draw")
    if not (known := of(config)):
        raise NotHere(f"--draws: {where} has no inputs; must say `inputs:` with their distributions and sources")
    for name, one in known.items():
        for choice in one.choices:
            try:
                changed(config, dict(choice.sets))
            except InputError as error:
                raise InputError(f"{where}: input {name}: {error}") from None


def described(config: RunConfig) -> dict[str, Any]:
    """The distributions, as plain data: a part of the key of a sweep."""
    return {name: one.model_dump(mode="json", exclude={"source"}) for name, one in sorted(of(config).items())}


def values(config: RunConfig, draws: int) -> list[dict[str, dict[str, Any]]]:
    """Of each draw, by input, the entries that it sets; an input that the run has no cost for is left out.

    Hypotheses come first: the shares of a range are of what they set.
    """
    known, plain = of(config), config.plain()
    quantiles = {name: inputs.quantiles(name, draws) for name in known}
    first = sorted(known, key=lambda name: not known[name].choices)
    found = []
    for draw in range(draws):
        configured, drawn = plain, {}
        for name in first:
            drawn[name] = known[name].drawn(float(quantiles[name][draw]), configured)
            if known[name].choices:
                configured = with_entries(configured, drawn[name])
        found.append({name: drawn[name] for name in known if drawn[name]})
    return found


def changed(config: RunConfig, entries: dict[str, Any]) -> RunConfig:
    """The configuration with these entries, timing alone; InputError for an entry that it does not have."""
    plain = config.plain() | {"draws": 0, "inputs": {}, "numerics": {}, "device": "auto"}
    plain["testbed"] = plain["testbed"] | {"arithmetic": "none", "inputs": {}}
    return checked(RunConfig, with_entries(plain, entries))


def with_entries(plain: dict[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with these entries; InputError for one that it does not have."""
    plain = dict(plain)
    for path, value in entries.items():
        *outer, last = path.split(".")
        node = plain
        for name in outer:
            if not isinstance(node.get(name), dict):
                raise InputError(f"{path}: there is no such entry")
            node[name] = node = dict(node[name])
        if last not in node and len(outer) < 2:  # of a device either its rate or its time is configured
            raise InputError(f"{path}: there is no such entry")
        node[last] = value
    return plain


def cut(config: RunConfig, per_epoch: int) -> RunConfig:
    """A training of no more than its first iterations."""
    longest = ITERATIONS / per_epoch
    if config.program != TRAIN or config.epochs <= longest:
        return config
    ends = {"epochs": longest, "eval_every": longest, "checkpoint_every": longest}
    return config.model_copy(update=ends | {"strategy": warm(config.strategy)})


def warm(strategy: Plugin) -> Plugin:
    """A strategy without its warm-up, by its options warmup_*: a part of a training would be little else."""
    options = strategy.options
    if not is_dataclass(options) or isinstance(options, type):
        return strategy
    usual = PLUGINS["strategy"].defaults(strategy.name)
    own = {field.name for field in fields(options) if field.name.startswith("warmup_")}
    return replace(strategy, options=replace(options, **{name: usual[name] for name in own & usual.keys()}))
