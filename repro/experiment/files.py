"""Configuration files: Hydra's groups in `paper_configs/` and other configuration folders, and a run's resolved
configuration in its folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, Field, field_validator

from repro.core import config_folders, user_cache, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Model, Text, check_fields
from repro.core.paths import CONFIGS
from repro.core.registry import PLUGINS
from repro.core.terminal import warn

EACH = "each"  # entry of a file with several configurations, by name
GROUPS = ("strategy", "model", "dataset", "testbed", "imbalance")


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """libyaml's dumper if PyYAML has it: it writes the same in a tenth of the time."""

    def ignore_aliases(self, data: Any) -> bool:
        return True  # `read_resolved` refuses aliases


Dumper.add_implicit_resolver(*user_files.EXPONENT)


class Experiment(Model):
    """Entries of an experiment's file that Hydra does not compose; the composed ones (`common_entries`) are checked by
    `repro.experiment.schema`, `quoted` and `hyperparameters` by `repro.experiment.quoted`."""

    model_config = ConfigDict(extra="ignore")

    title: Text = "-"
    defaults: list[Any] = Field(default_factory=list)
    scales: dict[Text, list[Text]] = Field(default_factory=dict)
    jobs: Any = None
    quoted: Any = None
    hyperparameters: Any = None
    workload: Any = None  # `repro.cli.workloads`
    goals: Any = None

    @field_validator("jobs")
    @classmethod
    def _by_scale(cls, value: Any) -> Any:
        """A list of scales, or scale -> one or several choices of runs: factor -> values."""
        by_scale = value.values() if isinstance(value, dict) else ()
        choices = [each for choice in by_scale for each in (choice if isinstance(choice, list) else [choice])]
        if not isinstance(value, dict | list | None) or not all(
            each is None or (isinstance(each, dict) and all(isinstance(values, list) for values in each.values()))
            for each in choices
        ):
            raise ValueError("must be a list of scales, or entries `scale: {factor: [value, ...]}`")
        return value


def group_names(group: str) -> list[str]:
    """The names of a group's configurations (`folder/name` in subfolders) and plugins."""
    return sorted({*in_files(group), *(PLUGINS[group].names() if group in PLUGINS else ())})


def in_files(group: str) -> list[str]:
    """The names of a group's configurations, folder by folder."""
    names = dict.fromkeys(_loose()) if group == "experiment" else {}
    for root in (each / group for each in config_folders.config_folders()):
        folders = sorted({path.parent for path in root.rglob("*.yaml")})
        names |= {(place / name).relative_to(root).as_posix(): None for place in folders for name in _in_folder(place)}
    return list(names)


def is_there(group: str, name: str) -> bool:
    """Whether a file contains a configuration of that name."""
    return _place(group, name)[0] is not None


def names_in(path: Path) -> list[str]:
    """The names `PAPER/EXPERIMENT` of the experiments in a file, which is added to the configuration folders.

    InputError if the file does not name them, or if another experiment has the same name.
    """
    path = path.resolve()
    every = in_files("experiment")
    if here := [name for name in every if config_file("experiment", name) == path]:
        return here
    experiments = _experiments_of(path)
    if duplicate := next((name for name in every if name in experiments), None):
        other = config_file("experiment", duplicate)
        raise InputError(f"{path}: {other} has an experiment {duplicate}; needs another `paper` or `experiment`")
    config_folders.use_folder(path)
    return list(experiments)


def own_file(experiment: str) -> dict[str, Any]:
    """An experiment's own configuration, not composed; {} if no file has it. InputError for invalid entries."""
    content = group_file("experiment", experiment)
    try:
        check_fields(Experiment, content)
        _check_names(experiment, content)
    except InputError as error:
        raise InputError(f"{config_file('experiment', experiment)}: {experiment}: {error}") from None
    return content


def _check_names(experiment: str, content: Mapping[str, Any]) -> None:
    """InputError for an entry that is no option, and no named value: one that a `${NAME}` of the file uses."""
    known = {*common_entries(), *GROUPS, *Experiment.model_fields}
    if others := [name for name in content if name not in known]:
        text = str(user_files.read_yaml(config_file("experiment", experiment)))
        if unknown := next((name for name in others if not re.search(rf"\$\{{\.*{re.escape(name)}\b", text)), None):
            raise unknown_name("option", unknown, known)


@cache
def common_entries() -> Mapping[str, Any]:
    """The entries of every experiment, with their defaults: `config.yaml`."""
    return user_files.read_entries(CONFIGS / "config.yaml")


def own_files(experiments: Iterable[str]) -> dict[str, dict[str, Any]]:
    """name -> own configuration; an unusable file costs a warning."""
    return _usable(experiments, own_file)


def group_files(group: str) -> dict[str, dict[str, Any]]:
    """name -> configuration of a whole group; an unusable file costs a warning."""
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
    """A configuration of a group, not composed; {} if no file has it; InputError for a file without entries.

    A file contains the configuration of its name, or several in `each`; entries beside `each` are common to all, and
    merged with each one's own entries.
    """
    path, entry = _place(group, name)
    if path is None:
        return {}
    content = user_files.read_entries(path)
    if entry is None:
        return content
    entries = user_files.as_entries(content.pop(EACH)[entry] or {}, f"{path}: {EACH}.{entry}")
    merged = _merged(content, entries)
    return {name: merged[name] for name in (*entries, *merged)}


def config_file(group: str, name: str) -> Path:
    """The file of a configuration; for an unknown one the path that it would have."""
    return _place(group, name)[0] or config_folders.find_config(group, f"{name}.yaml")


Place = tuple[Path, str | None]  # of a configuration: its file, and its entry in `each` if the file has one


def _place(group: str, name: str) -> Place | tuple[None, None]:
    if group == "experiment" and (loose := _loose().get(name)):
        return loose
    for place in (folder / group / name for folder in config_folders.config_folders()):
        if configuration := _in_folder(place.parent).get(place.name):
            return configuration
    return None, None


def _loose() -> dict[str, Place]:
    """The experiments of single files, outside of configuration folders."""
    return {name: place for path in config_folders.experiment_files() for name, place in _experiments_of(path).items()}


def _experiments_of(path: Path) -> dict[str, Place]:
    """The experiments of a single file, by the names in it."""
    content = user_files.read_entries(path)
    several = user_files.as_entries(content.pop(EACH), f"{path}: {EACH}") if EACH in content else {}
    places: dict[str, Place] = {}
    for entry in several or (None,):
        entries = content | user_files.as_entries(several[entry] or {} if entry else {}, f"{path}: {EACH}.{entry}")
        names = [entries.get(part) for part in ("paper", "experiment")]
        if not all(isinstance(name, str) and name for name in names):
            raise InputError(f"{path}: must have a name: `paper: NAME` and `experiment: NAME`")
        places["/".join(map(str, names))] = path, entry
    return places


def _in_folder(folder: Path) -> dict[str, Place]:
    """name -> place of the configurations in a folder, without subfolders."""
    states = {path.name: path.stat() for path in sorted(folder.glob("*.yaml"))}
    return _read_names(folder, tuple((name, state.st_mtime_ns, state.st_size) for name, state in states.items()))


@lru_cache(maxsize=1000)
def _read_names(folder: Path, state: tuple[tuple[str, int, int], ...]) -> dict[str, Place]:
    """As `_in_folder`; kept for later commands, because reading all files takes as long as importing Hydra. state: of
    the folder's files, for the cache alone."""
    key = [str(folder), state]
    if (several := user_cache.load_cached("names", key)) is None:
        several = {name: _names_of_each(folder / name) for name, _, _ in state}
        user_cache.save_cached("names", key, several)
    places: dict[str, Place] = {}
    for name, entries in several.items():
        path = folder / name
        places |= {path.stem: (path, None)} if entries is None else {entry: (path, entry) for entry in entries}
    return places


def _names_of_each(path: Path) -> list[str] | None:
    """The names in a file with several configurations."""
    try:
        content = user_files.read_yaml(path)
    except InputError:
        return None  # its use raises the error
    several = content.get(EACH) if isinstance(content, dict) else None
    return [name for name in several if isinstance(name, str)] if isinstance(several, dict) else None


def _merged(common: dict[str, Any], special: Mapping[str, Any]) -> dict[str, Any]:
    """`common`, recursively updated with the entries of `special`."""
    for name, value in special.items():
        both = isinstance(value, dict) and isinstance(common.get(name), dict)
        common[name] = _merged(common[name], value) if both else value
    return common


def write_resolved(path: Path, config: dict[str, Any]) -> None:
    """Write a resolved configuration to a file, atomically."""
    write_atomically(path, yaml_of(config))


def yaml_of(config: dict[str, Any]) -> str:
    return str(yaml.dump(config, Dumper=Dumper, sort_keys=False, allow_unicode=True))


def read_resolved(path: Path) -> dict[str, Any]:
    """The configuration in a file of `write_resolved`; InputError for any other."""
    return user_files.as_entries(user_files.read_plain_yaml(path, "configuration"), str(path))
