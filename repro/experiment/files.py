"""The files of configurations: Hydra's groups in `paper_configs/` and in other people's folders, and a run's resolved
one in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, Field, field_validator

from repro.core import config_folders, safe_files, yaml_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.fields import Model, Text, checked
from repro.core.registry import PLUGINS
from repro.core.warnings import warn

EACH = "each"  # of a file: its configurations, by name
GROUPS = ("strategy", "model", "dataset", "testbed", "imbalance")


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """libyaml's where PyYAML has it: it takes a tenth of the time and writes the same."""

    def ignore_aliases(self, data: Any) -> bool:
        return True  # as `read_yaml` takes none


class Experiment(Model):
    """The form of what an experiment's file says of itself; what Hydra composes of it is checked elsewhere."""

    model_config = ConfigDict(extra="ignore")

    title: Text = "-"
    defaults: list[Any] = Field(default_factory=list)
    scales: dict[Text, list[Text]] = Field(default_factory=dict)
    jobs: Any = None

    @field_validator("jobs")
    @classmethod
    def _of_scales(cls, value: Any) -> Any:
        """Scales, or each with one choice of runs or several: factor -> values."""
        of_scales = (
            value if isinstance(value, dict) else dict.fromkeys(map(str, value)) if isinstance(value, list) else None
        )
        choices = [each for one in (of_scales or {}).values() for each in (one if isinstance(one, list) else [one])]
        right = all(each is None or (isinstance(each, dict) and _lists(each)) for each in choices)
        if value is not None and (of_scales is None or not right):
            raise ValueError("must be a list of scales, or entries `scale: {factor: [value, ...]}`")
        return value


def _lists(choice: dict[str, Any]) -> bool:
    return all(isinstance(values, list) for values in choice.values())


def group_names(group: str) -> list[str]:
    """What a config group has: its files' configurations (those in folders as `folder/name`), and its plugins."""
    return sorted({*in_files(group), *(PLUGINS[group].names() if group in PLUGINS else ())})


def plugins_without_file() -> Iterator[tuple[str, str]]:
    """The group and name of each plugin whose options no file lists: installed ones, and of ours some."""
    for group, registry in PLUGINS.items():
        for name in sorted({*registry.names()} - {*in_files(group)}):
            yield group, name


def in_files(group: str) -> list[str]:
    """The names of a group's configurations, folder by folder."""
    found = dict.fromkeys(_loose()) if group == "experiment" else {}
    for root in (each / group for each in config_folders.folders()):
        folders = sorted({path.parent for path in root.rglob("*.yaml")})
        found |= {(place / name).relative_to(root).as_posix(): None for place in folders for name in _in_folder(place)}
    return list(found)


def is_there(group: str, name: str) -> bool:
    """Whether a file has a configuration of that name."""
    return _place(group, name)[0] is not None


def names_in(path: Path) -> list[str]:
    """The experiments in a file, `PAPER/EXPERIMENT`, which from now on are known by these names.

    InputError where it does not say how they are called, or they are called as others are.
    """
    path = path.resolve()
    here = [name for name in in_files("experiment") if place_of("experiment", name) == path]
    if here:
        return here
    own = _experiments_of(path)
    if taken := [name for name in in_files("experiment") if name in own]:
        other = place_of("experiment", taken[0])
        raise InputError(f"{path}: {other} has an experiment {taken[0]}; needs another `paper` or `experiment`")
    config_folders.use(path)
    return list(own)


def own_file(experiment: str) -> dict[str, Any]:
    """The experiment's own configuration, uncomposed; empty where there is none. InputError for one of another form."""
    content = group_file("experiment", experiment)
    try:
        checked(Experiment, content)
    except InputError as error:
        raise InputError(f"{place_of('experiment', experiment)}: {experiment}: {error}") from None
    return content


def own_files(experiments: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Those of several, by name; one that cannot be used is left out, with a warning."""
    return _usable(experiments, own_file)


def group_files(group: str) -> dict[str, dict[str, Any]]:
    """All of a config group, by name, in the same way."""
    return _usable(group_names(group), lambda name: group_file(group, name))


def _usable(names: Iterable[str], read: Callable[[str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    usable = {}
    for name in names:
        try:
            usable[name] = read(name)
        except InputError as error:
            warn(f"{error}; left out")
    return usable


def group_file(group: str, name: str) -> dict[str, Any]:
    """A configuration of a config group, uncomposed; empty where there is none; InputError for a file without entries.

    A file is one, of its name; or with `each` several, of the names there: what stands beside `each` is common to all,
    and each says what is its own, entry by entry.
    """
    path, entry = _place(group, name)
    if path is None:
        return {}
    read = yaml_files.entries(path)
    if entry is None:
        return read
    own = yaml_files.as_entries(read.pop(EACH)[entry] or {}, f"{path}: {EACH}.{entry}")
    merged = _over(read, own)
    return {name: merged[name] for name in (*own, *merged)}


def place_of(group: str, name: str) -> Path:
    """The file that a configuration of a group stands in; for one that there is not, the file that could hold it."""
    return _place(group, name)[0] or config_folders.find(group, f"{name}.yaml")


Place = tuple[Path, str | None]  # of a configuration: its file, and its entry in `each` where the file has several


def _place(group: str, name: str) -> Place | tuple[None, None]:
    if group == "experiment" and (loose := _loose().get(name)):
        return loose
    for place in (folder / group / name for folder in config_folders.folders()):
        if found := _in_folder(place.parent).get(place.name):
            return found
    return None, None


def _loose() -> dict[str, Place]:
    """The experiments of files that stand in no folder."""
    return {name: place for path in config_folders.experiment_files() for name, place in _experiments_of(path).items()}


def _experiments_of(path: Path) -> dict[str, Place]:
    """Those of one file, by the names that it says itself."""
    read = yaml_files.entries(path)
    several = yaml_files.as_entries(read.pop(EACH), f"{path}: {EACH}") if EACH in read else {}
    found: dict[str, Place] = {}
    for entry in several or (None,):
        said = read | yaml_files.as_entries(several[entry] or {} if entry else {}, f"{path}: {EACH}.{entry}")
        names = [said.get(part) for part in ("paper", "experiment")]
        if not all(isinstance(name, str) and name for name in names):
            raise InputError(f"{path}: must say how it is called: `paper: NAME` and `experiment: NAME`")
        found["/".join(map(str, names))] = path, entry
    return found


def _in_folder(folder: Path) -> dict[str, Place]:
    """Name -> its place, of the files in a folder alone."""
    configurations: dict[str, Place] = {}
    for path in sorted(folder.glob("*.yaml")):
        names = _each(path, path.stat().st_mtime_ns)
        configurations |= {path.stem: (path, None)} if names is None else {name: (path, name) for name in names}
    return configurations


@cache
def _each(path: Path, modified_ns: int) -> tuple[str, ...] | None:
    try:
        read = yaml_files.read(path)
    except InputError:
        return None  # said when it is used: it disturbs nobody else
    return tuple(read[EACH]) if isinstance(read, dict) and isinstance(read.get(EACH), dict) else None


def _over(common: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`common` with the entries of `own`, those of mappings in both one by one."""
    for name, value in own.items():
        both = isinstance(value, dict) and isinstance(common.get(name), dict)
        common[name] = _over(common[name], value) if both else value
    return common


def write_yaml(path: Path, config: dict[str, Any]) -> None:
    """The resolved configuration as a file, atomically."""
    write_atomically(path, yaml_of(config))


def yaml_of(config: dict[str, Any]) -> str:
    return str(yaml.dump(config, Dumper=Dumper, sort_keys=False, allow_unicode=True))


def read_yaml(path: Path) -> dict[str, Any]:
    """A file that `write_yaml` wrote; InputError where it is not one."""
    try:
        with safe_files.open_file(path) as file:
            content = yaml_files.parse_plain(file.read(yaml_files.MOST_BYTES + 1))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable configuration ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: not a configuration: must be entries `name: value`")
    return content
