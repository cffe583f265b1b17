"""What the ranks of a cell do: train, or a probe that measures something without training towards an accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro import strategies
from repro.common.registry import Modules
from repro.experiment.files import strategy_options

if TYPE_CHECKING:
    from repro.fabric.base import Fabric

TRAIN = "train"
PROBES = Modules("program", "repro.probes", [TRAIN])


def ranks(config: dict[str, Any]) -> int:
    """How many ranks a cell needs; InputError for an unknown program or strategy."""
    if config["program"] == TRAIN:
        return strategy_ranks(config)
    return PROBES.load(config["program"]).ranks(config)


def strategy_ranks(config: dict[str, Any]) -> int:
    """How many ranks a configuration's strategy needs for its workers; InputError for options that it does not have."""
    strategy = strategies.load(config["strategy"]["name"])
    return strategy.ranks(strategy.parse(strategy_options(config)), config["workers"])


def check(config: dict[str, Any]) -> None:
    """InputError for parameters of a probe that cannot be used."""
    if config["program"] != TRAIN and hasattr(probe := PROBES.load(config["program"]), "check"):
        probe.check(config)


def run(fabric: Fabric, config: dict[str, Any], folder: Path) -> None:
    """One rank's whole part of a cell, from a started fabric to its close."""
    if config["program"] == TRAIN:
        from repro.rank.session import run_rank

        run_rank(fabric, config, folder)
    else:
        PROBES.load(config["program"]).run(fabric, config, folder)


def modules(config: dict[str, Any]) -> list[str]:
    """The modules that a program's numbers come from, strategies included."""
    if config["program"] == TRAIN:
        return [
            "repro.rank.session",
            "repro.rank.summary",
            "repro.rank.loop",
            strategies.module_of(config["strategy"]["name"]),
        ]
    used = {config["strategy"]["name"]} | {given["name"] for given in config["probe"].get("strategies", {}).values()}
    return [f"repro.probes.{config['program']}", *sorted(strategies.module_of(name) for name in used)]
