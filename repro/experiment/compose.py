"""Hydra's part of the configuration: an experiment's files merged, and values set in what comes of it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException, UnsupportedInterpolationType

from repro.core import config_folders, user_cache, yaml_files
from repro.core.errors import InputError, unknown
from repro.core.paths import CONFIGS
from repro.core.registry import PLUGINS
from repro.core.warnings import warn
from repro.experiment.files import GROUPS, group_file, group_names, own_file, place_of, plugins_without_file
from repro.experiment.overrides import LATER, check_override, parts_of
from repro.experiment.sources import is_own
from repro.experiment.testbeds import NAMED_WORK, WORK

PRICES = (*(f"testbed.{kind}_s_per_byte." for kind in NAMED_WORK), *(f"testbed.{entry}=" for entry in WORK.values()))
FAULTS = (HydraException, OmegaConfBaseException, yaml.YAMLError, RecursionError, UnicodeDecodeError)
FULL = "full"  # the scale of the committed results
UNQUOTED = ("LexerNoViableAlt", "mismatched input '='")  # what Hydra says of a text that needs quotes
# What `${...}` may not call: values of the configuration come into results, not the environment, clock or machine.
RESOLVERS = (
    *("oc.create", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values", "oc.env", "oc.select"),
    *("hydra", "now", "python_version"),
)


class Composer:
    """An experiment's configurations at one scale (None: its own size), under many overrides.

    Hydra reads and merges all files for each, a tenth of a second, and an experiment has up to hundreds of runs; most
    of them differ in values alone, and share what their files make (`_of_files`).
    """

    def __init__(self, experiment: str, scale: str | None = None):
        self.first = [f"experiment={experiment}"]
        own = own_file(experiment)
        self._parts = parts_of(own)
        # plugins that the experiment's own part names, which Hydra puts over the file of one that is chosen
        self._named = {group for group in PLUGINS if isinstance(part := own.get(group), dict) and "name" in part}
        self._scale, self._scales = scale, own.get("scales", {})
        if scale:  # composing twice would take twice the time
            if not self._scales:
                where = f"{place_of('experiment', experiment)}: {experiment}"
                raise InputError(
                    f"{where}: has no scales; must say what each is: `scales: {{{scale}: [], {FULL}: []}}`"
                )
            if scale not in self._scales:
                raise unknown("scale", scale, self._scales)
            self.first += [f"scale={scale}", *self._scales[scale]]
        self._state = repr([user_cache.tree_digest([CONFIGS], (".yaml",)), *config_folders.state()])
        self._plugins = [*plugins_without_file()]
        self._right: set[str] = set()  # overrides that were checked

    def compose(self, overrides: Sequence[str] = (), ours: Sequence[str] = ()) -> dict[str, Any]:
        """The resolved configuration under overrides (`key=value`) (`repro.experiment.schema` checks it).

        ours: those of the experiment's variant and testbed, before the others. What they, or the scale, set of a part
        that a later override chooses anew, and that the chosen one does not have, is left out.
        """
        self.check([*ours, *overrides])
        return self._composed(self.first, *([*map(_price_added, each)] for each in (ours, overrides)))

    def check(self, overrides: Iterable[str]) -> None:
        """InputError for an override of something that there is not."""
        for override in [each for each in overrides if each not in self._right]:
            check_override(override, self._parts)
            self._right.add(override)

    def imports(self, overrides: Iterable[str]) -> bool:
        """Whether composing imports plugins, whose options no file lists."""
        return bool(self._plugins) or any(is_own(*override.split("=", 1)) for override in overrides)

    def size(self, overrides: Sequence[str]) -> str:
        """What the size of a run is called: its scale, or `full` where at that it would be the same run."""
        if self._scale is None:
            return "custom"
        keys = {_key(override) for override in (*overrides, "seeds=1", "seed=0")}
        own, full = (
            {override for override in self._scales.get(scale, ()) if _key(override) not in keys}
            for scale in (self._scale, FULL)
        )
        return FULL if FULL in self._scales and own == full else self._scale

    def _composed(self, *parts: Sequence[str]) -> dict[str, Any]:
        everything = [override for part in parts for override in part]
        offered = _offer_plugins(self._plugins, everything)
        keys = [_key(override) for override in everything]
        if any(key.split(".")[0] in LATER for key in keys):  # changes overrides to come
            return _compose(everything)
        of_files = {key for key in keys if (CONFIGS / key).is_dir()}
        files = tuple(override for override, key in zip(everything, keys) if key in of_files)
        chosen = [of_files & {_key(later) for each in parts[n:] for later in each} for n in range(1, 1 + len(parts))]
        try:
            pairs = (file.partition("=")[::2] for file in files)
            own = [PLUGINS[group].defaults(name) for group, name in pairs if is_own(group, name)]
            merged, later = pickle.loads(_of_files(files, self._state, f"{offered} {own}"))
            for group in self._named & chosen[0]:
                name = next(file.partition("=")[2] for file in reversed(files) if _key(file) == group)
                merged[group] = group_file(group, name) or {"name": name} | PLUGINS[group].defaults(name)
            values = [(each, anew) for part, anew in zip(parts, chosen) for each in part if _key(each) not in of_files]
            _set(merged, [each for each, anew in values if not _of_another(each, anew, merged)])
            return _resolved(merged) | later
        except FAULTS:
            return _compose(everything)  # all by Hydra, which says best what is wrong


@lru_cache(maxsize=1000)
def _of_files(files: tuple[str, ...], state: str, offered: str) -> bytes:
    """What files make, without the overrides to come, and those: half of a configuration, which no run changes.

    Pickled, because to read that takes a seventh of the time of a deep copy. state, offered: of all that is read.
    """
    merged = _merged(files)
    later = _taken(merged)
    return pickle.dumps((merged, later))


def value_of(override: str) -> tuple[str, Any] | None:
    """The entry that an override of one value sets, and that value; None for a part's file, and where it refers to
    another value."""
    try:
        parsed = OverridesParser.create().parse_override(override)
        value = parsed.value()
    except FAULTS:
        return None  # refused where it is composed, with the reason
    key = parsed.key_or_group
    return None if key in GROUPS or "${" in str(value) or parsed.is_delete() else (key, value)


def _of_another(override: str, chosen: set[str], config: DictConfig) -> bool:
    """Whether an override is of an option of the part that another took the place of, which that does not have."""
    group, _, option = _key(override).partition(".")
    return group in chosen and bool(option) and option.split(".")[0] not in config[group]


def _price_added(override: str) -> str:
    """A price is added where the testbed's file has none; a codec's or selection's may have any name."""
    return f"++{override}" if override.startswith(PRICES) else override


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+")


def _compose(overrides: Sequence[str]) -> dict[str, Any]:
    try:
        merged = _merged(overrides)
        later = _taken(merged)
        return _resolved(merged) | later
    except FAULTS as error:
        raise _one_line(error, overrides) from None


def _offer_plugins(plugins: Sequence[tuple[str, str]], overrides: Sequence[str]) -> str:
    """Options that no file lists, given to Hydra's store as if it stood there. Returns them as text.

    A plugin that cannot be imported is known by its name alone: a warning, and an error where it is chosen.
    """
    store, offered = ConfigStore.instance().store, []
    for group, name in plugins:
        options = {"name": name}
        try:
            options |= PLUGINS[group].defaults(name)
        except InputError as error:
            if f"{group}={name}" not in overrides:
                warn(str(error))
        store(name, options, group)
        offered.append((group, options))
    return repr(offered)


def _merged(overrides: Sequence[str]) -> DictConfig:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        merged = hydra_compose("config", list(overrides))
    for name in RESOLVERS:  # Hydra registers some anew each time
        OmegaConf.clear_resolver(name)
    return merged


def _taken(config: DictConfig) -> dict[str, Any]:
    """Take the overrides to come out of a configuration: what an interpolation in them means is known when they are
    applied."""
    parts: Any = OmegaConf.to_container(OmegaConf.masked_copy(config, list(LATER)))
    taken: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
    for name in taken:
        config[name] = None
    return taken


def _resolved(config: DictConfig) -> dict[str, Any]:
    resolved: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    return resolved


def _set(config: DictConfig, overrides: list[str]) -> None:
    """As Hydra does it, once files are merged."""
    for override in OverridesParser.create().parse_overrides(overrides):
        key, value = override.key_or_group, override.value()
        there = override.is_add() and OmegaConf.select(config, key) is not None and not isinstance(value, dict | list)
        if there or override.is_sweep_override():
            raise HydraException(f"{override.input_line}: cannot be set")
        OmegaConf.update(config, key, value, merge=True, force_add=override.is_add() or override.is_force_add())


def _one_line(error: Exception, overrides: Sequence[str]) -> InputError:
    """Hydra's message in one line, with the nearest valid key where a key was wrong."""
    text = " ".join(str(error).split())
    if match := re.search(r"Could not override '([^']+)'", text):
        key = match[1]
        valid = _valid_keys(overrides, key)
        if key in valid:  # a mapping was given for it
            return InputError(f"{key}: has no such entry as is given; +{key}.NAME=value adds one")
        return unknown("option", key, valid) if valid else InputError(f"unknown option '{key}'")
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).partition("/")
        if group in GROUPS:
            return unknown(group, name, group_names(group))
    if isinstance(error, UnsupportedInterpolationType):
        return InputError(f"configuration: {text}: ${{...}} takes another value of the configuration, and no more")
    if isinstance(error, UnicodeDecodeError):
        for path in sorted(path for folder in config_folders.folders() for path in folder.rglob("*.yaml")):
            yaml_files.read(path)  # says which it is
    if isinstance(error, OverrideParseException) and any(words in text for words in UNQUOTED):
        key = error.override.partition("=")[0]
        return InputError(
            f"override '{error.override}': its value cannot be read; a text with letters beyond ASCII, or with a sign "
            f"such as =, needs quotes (' or \") that the shell leaves: '{key}=\"...\"'"
        )
    if isinstance(error, RecursionError):
        return InputError("configuration: brackets are nested too deeply")
    return InputError(f"configuration: {text}")


def _valid_keys(overrides: Sequence[str], wrong: str) -> list[str]:
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
