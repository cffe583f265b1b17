"""Composition of configurations by Hydra: the merged files of an experiment, with overrides applied."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
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
from repro.experiment.files import GROUPS, group_names, own_file, place_of, plugins_without_file
from repro.experiment.overrides import LATER, check_override, parts_of
from repro.experiment.sources import is_own
from repro.experiment.testbeds import NAMED_WORK, WORK

PRICES = (*(f"testbed.{kind}_s_per_byte." for kind in NAMED_WORK), *(f"testbed.{entry}=" for entry in WORK.values()))
FAULTS = (HydraException, OmegaConfBaseException, yaml.YAMLError, RecursionError, UnicodeDecodeError)
FULL = "full"  # the scale of the committed results
UNQUOTED = ("LexerNoViableAlt", "mismatched input '='")  # in Hydra's message about a text that needs quotes
# Resolvers that `${...}` must not call: results depend on the configuration, not on environment, clock or machine.
RESOLVERS = (
    *("oc.create", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values", "oc.env", "oc.select"),
    *("hydra", "now", "python_version"),
)


class Composer:
    """Composes configurations of an experiment at one scale (None: no scale) under many overrides.

    Hydra takes a tenth of a second to merge an experiment with its files, and an experiment has up to hundreds of runs.
    They share that merge; a run's choices (`testbed=...`) replace groups in it (`_replaced`).
    """

    def __init__(self, experiment: str, scale: str | None = None):
        self.first = [f"experiment={experiment}"]
        own = own_file(experiment)
        self._parts = parts_of(own)
        self._own = {group: part for group in GROUPS if isinstance(part := own.get(group), dict)}
        # how an override starts that chooses a configuration of a group; where the experiment's defaults put another
        # one into the group too (`/testbed/NAME@testbed`), Hydra merges both
        placed = re.findall(r"@(\w+)", str(own.get("defaults", "")))
        self._starts = tuple(f"{group}=" for group in GROUPS if group not in placed)
        self._merges: dict[Any, bytes] = {}
        self._scale, self._scales = scale, own.get("scales", {})
        if scale:
            if not self._scales:
                where = f"{place_of('experiment', experiment)}: {experiment}"
                raise InputError(f"{where}: has no scales; must define them: `scales: {{{scale}: [], {FULL}: []}}`")
            if scale not in self._scales:
                raise unknown("scale", scale, self._scales)
            self.first += [f"scale={scale}", *self._scales[scale]]
        self._state = repr([user_cache.tree_digest([CONFIGS], (".yaml",)), *config_folders.state()])
        self._plugins = [*plugins_without_file()]
        self._checked: set[str] = set()  # overrides

    def compose(self, overrides: Sequence[str] = (), ours: Sequence[str] = ()) -> dict[str, Any]:
        """The resolved configuration under overrides (`key=value`); `repro.experiment.schema` checks it.

        ours: overrides of the experiment's variant and testbed, applied before the others. If a later override chooses
        another plugin, options of `ours` and of the scale that this plugin does not have are dropped.
        """
        self.check([*ours, *overrides])
        return self._composed(self.first, *([*map(_price_added, each)] for each in (ours, overrides)))

    def check(self, overrides: Iterable[str]) -> None:
        """InputError for an override of an unknown entry."""
        for override in [each for each in overrides if each not in self._checked]:
            check_override(override, self._parts)
            self._checked.add(override)

    def imports(self, overrides: Iterable[str]) -> bool:
        """Whether composing imports plugins, because no file lists their options."""
        return bool(self._plugins) or any(is_own(*override.split("=", 1)) for override in overrides)

    def size(self, overrides: Sequence[str]) -> str:
        """The scale that is recorded for a run: `full` if the run would be the same at scale full, else its scale."""
        if self._scale is None:
            return "custom"
        keys = {_key(override) for override in (*overrides, "seeds=1", "seed=0")}
        own, full = (
            {override for override in self._scales.get(scale, ()) if _key(override) not in keys}
            for scale in (self._scale, FULL)
        )
        return FULL if FULL in self._scales and own == full else self._scale

    def _composed(self, *parts: Sequence[str]) -> dict[str, Any]:
        overrides = [override for part in parts for override in part]
        stored = _store_plugins(self._plugins, overrides)
        keys = [_key(override) for override in overrides]
        if any(key.split(".")[0] in LATER for key in keys):
            return _compose(overrides)
        chosen = {key: override for override, key in zip(overrides, keys) if override.startswith(self._starts)}
        of_files = {key for key in keys if (CONFIGS / key).is_dir()}
        files = [override for override, key in zip(overrides, keys) if key in of_files - chosen.keys()]
        # for each part, the groups that later parts choose
        anew = [of_files & {_key(later) for each in parts[n:] for later in each} for n in range(1, 1 + len(parts))]
        own = {group: part for group, part in self._own.items() if "name" not in part or group not in anew[0]}
        try:
            merge = (tuple(files), tuple(chosen.values()), tuple(own), stored)
            if merge not in self._merges:
                self._merges[merge] = _replaced(*merge[:2], own, self._state, stored)
            merged, later = pickle.loads(self._merges[merge])
            _set(merged, [
                each for part, groups in zip(parts, anew) for each in part
                if each not in files and not each.startswith(self._starts) and not _of_replaced(each, groups, merged)
            ])  # fmt: skip
            return _resolved(merged) | later
        except FAULTS:
            return _compose(overrides)  # by Hydra alone, whose messages are the best


def _replaced(files: tuple[str, ...], chosen: Iterable[str], own: Mapping[str, Any], state: str, stored: str) -> bytes:
    """The merged files with the chosen configurations of groups, and their entries of LATER, pickled.

    Unpickling takes a seventh of the time of a deep copy. own: group -> the experiment's entries, which Hydra merges
    over the chosen file; state, stored: of everything that is read, for the caches alone.
    """
    merged, later = pickle.loads(_of_files(files, state, stored))
    for override in chosen:
        group, _, name = override.partition("=")
        defaults = repr(PLUGINS[group].defaults(name)) if is_own(group, name) else stored
        merged[group] = OmegaConf.merge(pickle.loads(_of_group(override, state, defaults)), own.get(group, {}))
    return pickle.dumps((merged, later))


@lru_cache(maxsize=1000)
def _of_files(files: tuple[str, ...], state: str, stored: str) -> bytes:
    merged = _merged(files)
    later = _take_later(merged)
    return pickle.dumps((merged, later))


@lru_cache(maxsize=1000)
def _of_group(override: str, state: str, stored: str) -> bytes:
    """The configuration that `GROUP=NAME` chooses, without an experiment's entries."""
    (configuration,) = _merged([f"+{override}"], None).values()
    return pickle.dumps(configuration)


def value_of(override: str) -> tuple[str, Any] | None:
    """The entry and the value that an override sets; None if it chooses a file, or has no plain value."""
    try:
        parsed = OverridesParser.create().parse_override(override)
        value = parsed.value()
    except FAULTS:
        return None  # composing it raises the error
    key = parsed.key_or_group
    other = "${" in str(value) or parsed.is_delete() or parsed.is_sweep_override()
    return None if key in GROUPS or other else (key, value)


def unreadable(override: str) -> InputError:
    """An InputError for an override whose value Hydra's grammar does not allow."""
    return InputError(
        f"override '{override}': its value cannot be read; a text with non-ASCII letters, or with a sign such as =, "
        f"needs quotes (' or \") inside the shell's: '{override.partition('=')[0]}=\"...\"'"
    )


def _of_replaced(override: str, chosen: set[str], config: DictConfig) -> bool:
    """Whether an override sets an option of a replaced plugin that the plugin in `config` does not have."""
    group, _, option = _key(override).partition(".")
    return group in chosen and bool(option) and option.split(".")[0] not in config[group]


def _price_added(override: str) -> str:
    """An override of a testbed's price, which adds the entry if the testbed's file does not have it."""
    return f"++{override}" if override.startswith(PRICES) else override


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+")


def _compose(overrides: Sequence[str]) -> dict[str, Any]:
    try:
        merged = _merged(overrides)
        later = _take_later(merged)
        return _resolved(merged) | later
    except FAULTS as error:
        raise _one_line(error, overrides) from None


def _store_plugins(plugins: Sequence[tuple[str, str]], overrides: Sequence[str]) -> str:
    """Put the defaults of plugins without a file into Hydra's store; returns them as text.

    A plugin that cannot be imported is stored by its name alone: a warning, and an error if it is chosen.
    """
    stored = []
    for group, name in plugins:
        options = {"name": name}
        try:
            options |= PLUGINS[group].defaults(name)
        except InputError as error:
            if f"{group}={name}" not in overrides:
                warn(str(error))
        ConfigStore.instance().store(name, options, group)
        stored.append((group, options))
    return repr(stored)


def _merged(overrides: Sequence[str], start: str | None = "config") -> DictConfig:
    """What Hydra merges; start: the file of defaults."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        merged = hydra_compose(start, list(overrides))
    for name in RESOLVERS:  # Hydra registers some anew each time
        OmegaConf.clear_resolver(name)
    return merged


def _take_later(config: DictConfig) -> dict[str, Any]:
    """Remove and return the entries of LATER: their interpolations are resolved when their overrides are applied."""
    parts: Any = OmegaConf.to_container(OmegaConf.masked_copy(config, list(LATER)))
    later: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
    for name in later:
        config[name] = None
    return later


def _resolved(config: DictConfig) -> dict[str, Any]:
    resolved: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    return resolved


def _set(config: DictConfig, overrides: list[str]) -> None:
    """Apply overrides to merged files, as Hydra does."""
    for override in OverridesParser.create().parse_overrides(overrides):
        key, value = override.key_or_group, override.value()
        exists = override.is_add() and OmegaConf.select(config, key) is not None and not isinstance(value, dict | list)
        if exists or override.is_sweep_override():
            raise HydraException(f"{override.input_line}: cannot be set")
        OmegaConf.update(config, key, value, merge=True, force_add=override.is_add() or override.is_force_add())


def _one_line(error: Exception, overrides: Sequence[str]) -> InputError:
    """Hydra's message in one line, with the nearest valid keys for a wrong key."""
    text = " ".join(str(error).split())
    if match := re.search(r"Could not override '([^']+)'", text):
        key, (group, _, _) = match[1], match[1].partition(".")
        entries = _entries_beside(overrides, key)
        prefix = key.removesuffix(key.rpartition(".")[2])
        if (valid := [f"{prefix}{name}" for name in entries]) and key in valid:  # its value is a mapping
            return InputError(f"{key}: its value has an unknown entry; +{key}.NAME=value adds one")
        error = unknown("option", key, valid) if valid else InputError(f"unknown option '{key}'")
        plugin = f"{group} {entries['name']}: " if group in PLUGINS and entries.get("name") else ""
        return InputError(f"{plugin}{error}")
    if match := re.search("Error merging override ([^=]*=(.).*)", text):  # a list for entries, or entries for a list
        return InputError(f"{match[1]}: must be {'entries, as {name: value}' if match[2] == '[' else 'a list'}")
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).partition("/")
        if group in GROUPS:
            return unknown(group, name, group_names(group))
    if isinstance(error, UnsupportedInterpolationType):
        return InputError(f"configuration: {text}: ${{...}} can only name another value of the configuration")
    if isinstance(error, UnicodeDecodeError):
        for path in sorted(path for folder in config_folders.folders() for path in folder.rglob("*.yaml")):
            yaml_files.read(path)  # raises InputError for the unreadable file
    if isinstance(error, OverrideParseException) and any(words in text for words in UNQUOTED):
        return unreadable(error.override)
    if isinstance(error, RecursionError):
        return InputError("configuration: brackets are nested too deeply")
    return InputError(f"configuration: {text}")


def _entries_beside(overrides: Sequence[str], wrong: str) -> dict[str, Any]:
    """The entries beside a wrong key, in the configuration composed without it."""
    kept = [override for override in overrides if override.partition("=")[0] != wrong]
    if len(kept) == len(overrides):  # the key is wrong within a file
        return {}
    try:
        node: Any = _compose(kept)
    except InputError:
        return {}
    for step in wrong.split(".")[:-1]:
        node = node.get(step, {}) if isinstance(node, dict) else {}
    return node if isinstance(node, dict) else {}
