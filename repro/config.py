"""Configuration: Hydra's files in `paper_configs/`, composed into the cells of an experiment."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from repro.errors import InputError, unknown
from repro.paths import CONFIGS

GROUPS = ("strategy", "model", "dataset", "testbed", "imbalance")
LATER = ("settings", "testbeds", "scales")  # parts of an experiment that hold overrides


def group_names(group: str) -> list[str]:
    """The files of a config group, without `.yaml`; those in folders as `folder/name`."""
    root = CONFIGS / group
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))


def experiment_names(pattern: str | None = None) -> list[str]:
    """All experiments, or those of a paper (`pipesgd`), or one (`pipesgd/fig4-mnist`)."""
    names = group_names("experiment")
    if pattern is None:
        return names
    found = [name for name in names if name == pattern or name.startswith(pattern.rstrip("/") + "/")]
    if not found:
        papers = {name.split("/")[0] for name in names}
        raise unknown("experiment", pattern, [*names, *papers])
    return found


def title(experiment: str) -> str:
    """The experiment's one-line title, read without Hydra."""
    return _without_hydra(experiment).get("title", "")


def _without_hydra(experiment: str) -> dict[str, Any]:
    """The experiment's own file, uncomposed; empty where there is none."""
    path = CONFIGS / "experiment" / f"{experiment}.yaml"
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None


def compose(experiment: str, overrides: Sequence[str] = (), scale: str | None = None) -> dict[str, Any]:
    """The resolved configuration of an experiment under overrides (`key=value`), the scale's first.

    Raises InputError naming what is unknown and what is valid.
    """
    scaled: list[str] = []
    if scale:  # composing twice would take twice the time
        scales = _without_hydra(experiment).get("scales", {})
        if scale not in scales:
            raise unknown("scale", scale, scales)
        scaled = [f"scale={scale}", *scales[scale]]
    return _compose([f"experiment={experiment}", *scaled, *overrides])


def axes(
    resolved: dict[str, Any], overrides: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
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


def strategy_options(config: dict[str, Any]) -> dict[str, Any]:
    """The strategy's options without its name."""
    return {key: value for key, value in config["strategy"].items() if key != "name"}


def _compose(overrides: list[str]) -> dict[str, Any]:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for override in overrides:
        _check_form(override)
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            config = hydra_compose("config", overrides)
        found = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        # overrides to come: what an interpolation in them means is known when they are applied
        unresolved = {name: OmegaConf.to_container(config[name]) for name in LATER if config[name] is not None}
        return found | unresolved
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        raise _one_line(error, overrides) from None


def _check_form(override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise InputError(f"override '{override}': must be key=value, for instance strategy=pipe_sgd or epochs=3")
    group = key.lstrip("+")
    if group in GROUPS and value not in group_names(group):
        raise unknown(group, value, group_names(group))


def _one_line(error: Exception, overrides: list[str]) -> InputError:
    """Hydra's message in one line, with the nearest valid key where a key was wrong."""
    text = " ".join(str(error).split())
    if match := re.search(r"Could not override '([^']+)'", text):
        key = match[1]
        valid = _valid_keys(overrides, key)
        near = difflib.get_close_matches(key, valid, n=len(valid) or 1, cutoff=0.0)
        valid_keys = f"; valid: {', '.join(near)}" if near else f" ({text})"
        return InputError(f"unknown option '{key}'{valid_keys}")
    return InputError(f"configuration: {text}")


def _valid_keys(overrides: list[str], wrong: str) -> list[str]:
    """The keys beside a wrong one, in the configuration composed without it."""
    parent = wrong.rpartition(".")[0]
    kept = [override for override in overrides if override.partition("=")[0] != wrong]
    if len(kept) == len(overrides):  # wrong within a file: composing without it is not possible
        return []
    try:
        node: Any = _compose(kept)
    except InputError:
        return []
    for step in parent.split(".") if parent else []:
        node = node.get(step, {}) if isinstance(node, dict) else {}
    return [f"{parent}.{key}" if parent else key for key in node] if isinstance(node, dict) else []


def write_yaml(path: Path, config: dict[str, Any]) -> None:
    """The resolved configuration as a file, atomically."""
    from repro.results import write_atomically

    write_atomically(path, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))


def read_yaml(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
