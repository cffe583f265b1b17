"""The files of configurations: Hydra's groups in `paper_configs/`, and a run's resolved one in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from repro.common import yaml_files
from repro.common.atomic import write_atomically
from repro.common.errors import InputError
from repro.common.paths import CONFIGS
from repro.common.registry import PLUGINS

# libyaml's where PyYAML has it: it takes a tenth of the time and writes the same
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
GROUPS = ("strategy", "model", "dataset", "testbed", "imbalance")


def group_names(group: str) -> list[str]:
    """What a config group has: its files, without `.yaml` (those in folders as `folder/name`), and its plugins."""
    return sorted({*_files(group), *(PLUGINS[group].names() if group in PLUGINS else ())})


def plugins_without_file() -> Iterator[tuple[str, str]]:
    """The group and name of each plugin that has no file of its options: installed ones, and of ours some."""
    for group, registry in PLUGINS.items():
        for name in sorted({*registry.names()} - {*_files(group)}):
            yield group, name


def _files(group: str) -> list[str]:
    root = CONFIGS / group
    return [path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml")]


def own_file(experiment: str) -> dict[str, Any]:
    """The experiment's own file, uncomposed; empty where there is none."""
    return group_file("experiment", experiment)


def group_file(group: str, name: str) -> dict[str, Any]:
    """A file of a config group, uncomposed; empty where there is none; InputError for one that is no YAML."""
    path = CONFIGS / group / f"{name}.yaml"
    try:
        return yaml_files.read(path) if path.is_file() else {}
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None


def write_yaml(path: Path, config: dict[str, Any]) -> None:
    """The resolved configuration as a file, atomically."""
    write_atomically(path, yaml_of(config))


def yaml_of(config: dict[str, Any]) -> str:
    return str(yaml.dump(config, Dumper=DUMPER, sort_keys=False, allow_unicode=True))


def read_yaml(path: Path) -> dict[str, Any]:
    """A file that `write_yaml` wrote; InputError where it is not one."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: not a readable configuration ({' '.join(str(error).split())})") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: not a configuration: must be entries `name: value`")
    return found
