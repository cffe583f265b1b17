"""Configuration: Hydra's files in `paper_configs/`, composed into the cells of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repro.common.errors import unknown
from repro.experiment.compose import Composer
from repro.experiment.files import group_names, own_file


def experiment_names(pattern: str | None = None) -> list[str]:
    """All experiments, or those of a paper (`pipesgd`), or one (`pipesgd/fig4-mnist`)."""
    names = group_names("experiment")
    if pattern is None:
        return names
    found = [name for name in names if name == pattern or name.startswith(pattern.rstrip("/") + "/")]
    if not found:
        papers = {name.split("/")[0] for name in names}
        raise unknown("experiment", pattern, [*names, *papers], most=3, all_of="repro list")
    return found


def title(experiment: str) -> str:
    """The experiment's one-line title, read without Hydra."""
    return own_file(experiment).get("title", "")


def compose(experiment: str, overrides: Sequence[str] = (), scale: str | None = None) -> dict[str, Any]:
    """The resolved configuration of an experiment under overrides (`key=value`), the scale's first.

    Raises InputError naming what is unknown and what is valid.
    """
    return Composer(experiment, scale).compose(overrides)


def axes(resolved: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """An experiment's settings and testbeds, each name -> its overrides; an override of either leaves just that one.

    A testbed that the experiment knows keeps its overrides when it is the one chosen.
    """
    keys = {override.partition("=")[0] for override in overrides}
    one_setting = "strategy" in keys or not resolved["settings"]
    settings = {resolved["strategy"]["name"]: []} if one_setting else resolved["settings"]
    known = resolved["testbeds"] or ["here"]  # null: an experiment may merge a list or a mapping onto it
    testbeds = {name: list(changes or []) for name, changes in known.items()} if isinstance(known, dict) else {}
    testbeds = testbeds or {name: [] for name in known}
    if "testbed" in keys:
        chosen = resolved["testbed"]["name"]
        testbeds = {chosen: testbeds.get(chosen, [])}
    return settings, testbeds
