"""Composition by Hydra: an experiment's files with the chosen groups, values set in them, interpolations resolved.

    choices   experiment=gtopk/fig5, scale=full, strategy=topk, testbed=here      files, merged by Hydra (`_merge`)
    values    epochs=3, strategy.density=0.01                                     set by Hydra in what is merged
    ${...}    other values of the configuration                                   resolved by OmegaConf

`repro.experiment.grid` has an experiment's variants, `repro.experiment.expand` checks each composed configuration.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException, UnsupportedInterpolationType

from repro.core import config_folders, user_cache, user_files
from repro.core.errors import InputError, unknown_name
from repro.core.paths import CONFIGS
from repro.core.registry import PLUGINS
from repro.experiment import interpolation
from repro.experiment.files import GROUPS, config_file, group_names, own_file
from repro.experiment.override_keys import key_of, without_entries
from repro.experiment.overrides import LATER, check_override, parts_of
from repro.experiment.sources import is_made_by_code
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
    """Composes configurations of an experiment at one scale (None: no scale) under many overrides."""

    def __init__(self, experiment: str, scale: str | None = None):
        self.experiment, self.first = experiment, [f"experiment={experiment}"]
        file = own_file(experiment)
        self._parts = parts_of(file)
        # groups of which the experiment's file itself has a configuration, with its name
        self._named = {group for group in GROUPS if isinstance(file.get(group), dict) and "name" in file[group]}
        self._scale, self._scales = scale, file.get("scales", {})
        if scale:
            if not self._scales:
                where = f"{config_file('experiment', experiment)}: {experiment}"
                raise InputError(f"{where}: has no scales; must define them: `scales: {{{scale}: [], {FULL}: []}}`")
            if scale not in self._scales:
                raise unknown_name("scale", scale, self._scales)
            self.first += [f"scale={scale}", *self._scales[scale]]
        self._files = repr([user_cache.tree_digest([CONFIGS], (".yaml",)), *config_folders.folders_state()])
        self._checked: set[str] = set()  # overrides
        self._group_names = cache(group_names)

    def compose(self, overrides: Sequence[str] = (), ours: Sequence[str] = ()) -> dict[str, Any]:
        """The resolved configuration under overrides (`key=value`); `repro.experiment.schema` checks it.

        ours: overrides of the experiment's variant and testbed, applied before the others. If a later override chooses
        another plugin, options of `ours` and of the scale that this plugin does not have are dropped.
        """
        self.check([*ours, *overrides])
        return self._compose([self.first, *([*map(_add_price, each)] for each in (ours, overrides))])

    def check(self, overrides: Iterable[str]) -> None:
        """InputError for an override of an unknown entry."""
        for override in [each for each in overrides if each not in self._checked]:
            check_override(override, self._parts, self._group_names)
            self._checked.add(override)

    def size(self, overrides: Sequence[str]) -> str:
        """The scale that is recorded for a run: `full` if the run would be the same at scale full, else its scale."""
        if self._scale is None:
            return "custom"
        keys = {key_of(override) for override in (*overrides, "seeds=1", "seed=0")}
        chosen_here, full = (
            {override for override in self._scales.get(scale, ()) if key_of(override) not in keys}
            for scale in (self._scale, FULL)
        )
        return FULL if FULL in self._scales and chosen_here == full else self._scale

    def _compose(self, parts: Sequence[Sequence[str]]) -> dict[str, Any]:
        """parts: overrides in the order of their priority, the highest last."""
        try:
            choices = [{key_of(each): each for each in part if _is_choice(each)} for part in parts]
            replaced = [{group for later in choices[n:] for group in later} for n in range(1, 1 + len(parts))]
            merged, later = self._merge({group: each for part in choices for group, each in part.items()}, replaced[0])
            values = [
                override for part, groups in zip(parts, replaced, strict=True) for override in part
                if not _is_choice(override) and not _lacks_option(merged, override, groups)
            ]  # fmt: skip
            if changes := [each for each in values if _is_later(each)]:
                later = OmegaConf.to_container(_set(OmegaConf.create(later), changes))
            merged = _set(merged, [each for each in values if not _is_later(each)])
            return (
                interpolation.resolve_values(merged) | later
            )  # whose interpolations are resolved where they are applied
        except FAULTS as error:
            raise self._one_line(error, parts) from None

    def _merge(self, choices: dict[str, str], replaced: set[str]) -> tuple[DictConfig, Any]:
        """The merged files of these choices, group -> override; `replaced`: groups that no file of ours chose."""
        state = [self._files]  # of all that is read
        for group, _, name in (override.partition("=") for override in choices.values()):
            if group in PLUGINS and is_made_by_code(group, name):
                state.append(repr(PLUGINS[group].defaults(name)))
        own = frozenset(choices.keys() - (self._named & replaced))  # of others a plugin takes the place
        merged, later = pickle.loads(_merge_parts(tuple(choices.items()), own, str(state)))
        return merged, later

    def _one_line(self, error: Exception, parts: Sequence[Sequence[str]]) -> InputError:
        """Hydra's message in one line, with the nearest valid keys for a wrong key."""
        text = " ".join(str(error).split())
        if match := re.search(r"Could not override '([^']+)'", text):
            key, (group, _, _) = match[1], match[1].partition(".")
            if not any(key_of(override) == key for part in parts for override in part):
                file = config_file("experiment", self.experiment)
                return InputError(f"{file}: {self.experiment}: defaults: {unknown_name('group', key, GROUPS)}")
            prefix = key.removesuffix(key.rpartition(".")[2])
            entries = self._entries_beside(key, parts, prefix)
            of_testbed = "testbed.inputs."  # an experiment may have some besides these
            if prefix == "inputs." and not entries and (others := self._entries_beside(key, parts, of_testbed)):
                prefix, entries = of_testbed, others
            empty = f"'{prefix[:-1]}' has no entries; +{key}=VALUE adds one"
            if (valid := [f"{prefix}{name}" for name in entries]) and key in valid:  # its value is a mapping
                return InputError(f"{key}: its value has an unknown entry; +{key}.NAME=value adds one")
            wrong = unknown_name("option", key, valid) if valid else InputError(f"unknown option '{key}': {empty}")
            has_name = (group in PLUGINS or group == "testbed") and entries.get("name")
            plugin = f"{group} {entries['name']}: " if has_name else ""
            return InputError(f"{plugin}{wrong}")
        if match := re.search("Error merging override ([^=]*=(.).*)", text):  # a list for entries, or the reverse
            return InputError(f"{match[1]}: must be {'entries, as {name: value}' if match[2] == '[' else 'a list'}")
        if isinstance(error, MissingConfigException) and error.missing_cfg_file:
            group, _, name = str(error.missing_cfg_file).partition("/")
            if group in GROUPS:
                return unknown_name(group, name, group_names(group))
        if isinstance(error, UnsupportedInterpolationType):
            return InputError(f"configuration: {text}: ${{...}} can only name another value of the configuration")
        if isinstance(error, UnicodeDecodeError):
            for path in sorted(path for folder in config_folders.config_folders() for path in folder.rglob("*.yaml")):
                user_files.read_yaml(path)  # raises InputError for the unreadable file
        if isinstance(error, OverrideParseException) and any(words in text for words in UNQUOTED):
            return unreadable_override(error.override)
        if isinstance(error, OverrideParseException):
            return InputError(
                f"override '{error.override}': its value cannot be read; must be a value, several between commas, a "
                "list [a,b], or entries {a: b}"
            )
        if isinstance(error, RecursionError):
            return InputError("configuration: brackets are nested too deeply")
        return InputError(f"configuration: {text}")

    def _entries_beside(self, wrong: str, parts: Sequence[Sequence[str]], prefix: str) -> dict[str, Any]:
        """The entries with a prefix (`optimizer.`), in the configuration composed without a wrong key."""
        kept = [without_entries(part, [wrong]) for part in parts]
        try:
            node: Any = self._compose(kept)
        except InputError:
            return {}
        for step in prefix.split(".")[:-1]:
            node = node.get(step, {}) if isinstance(node, dict) else {}
        return node if isinstance(node, dict) else {}


def value_of(override: str) -> tuple[str, Any] | None:
    """The entry and the value that an override sets; None if it chooses a file, or has no plain value."""
    try:
        parsed = _parse(override)
        value = parsed.value()
    except FAULTS:
        return None  # composing it raises the error
    key = parsed.key_or_group
    other = "${" in str(value) or parsed.is_delete() or parsed.is_sweep_override()
    return None if key in GROUPS or other else (key, value)


def unreadable_override(override: str) -> InputError:
    """An InputError for an override whose value Hydra's grammar does not allow."""
    return InputError(
        f"override '{override}': its value cannot be read; a text with non-ASCII letters, or with a sign such as =, "
        f"needs quotes (' or \") inside the shell's: '{override.partition('=')[0]}=\"...\"'"
    )


@lru_cache(maxsize=1000)
def _merge_parts(choices: tuple[tuple[str, str], ...], own: frozenset[str], state: str) -> bytes:
    """An experiment's configuration with these choices, (group, override), and its entries of LATER, pickled:
    unpickling takes a seventh of a deep copy's time.

    Each group's files are merged once for all experiments, and then, for groups in `own`, with the experiment's own
    entries of the group. state: of everything that is read, for the cache alone.
    """
    (_, experiment), *others = choices
    merged = pickle.loads(_merge_files((experiment,), state))
    for group, choice in others:
        part = pickle.loads(_merge_files((f"+{choice}",), state, None))[group]
        if group in own:
            alone = pickle.loads(_merge_files((experiment, *(f"~{each}" for each in GROUPS)), state))
            OmegaConf.set_struct(part, False)  # an experiment may have entries that the group's file lacks
            part = OmegaConf.merge(part, alone.get(group) or {})
            OmegaConf.set_struct(part, None)
        merged[group] = part
    later: Any = OmegaConf.to_container(OmegaConf.masked_copy(merged, list(LATER)))
    for name in later:
        merged[name] = None
    return pickle.dumps((merged, later))


@lru_cache(maxsize=1000)
def _merge_files(choices: tuple[str, ...], state: str, start: str | None = "config") -> bytes:
    """What Hydra merges of files, pickled. start: the file of defaults. state: as of `_merge_parts`."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        merged = hydra_compose(start, list(choices))
    for name in RESOLVERS:  # Hydra registers some anew each time
        OmegaConf.clear_resolver(name)
    return pickle.dumps(merged)


@lru_cache(maxsize=10_000)
def _parse(override: str) -> Override:
    return OverridesParser.create().parse_overrides([override])[0]


def _set(config: DictConfig, overrides: list[str]) -> DictConfig:
    """The configuration with these overrides, set as Hydra sets them behind the choices of groups."""
    OmegaConf.set_struct(config, True)
    parsed = [_parse(override) for override in overrides]
    if several := next((each for each in parsed if each.is_sweep_override()), None):
        raise HydraException(f"{several.input_line}: must be one value")
    ConfigLoaderImpl._apply_overrides_to_config(parsed, config)
    return config


def _is_choice(override: str) -> bool:
    """Whether an override chooses a file of a group, as Hydra decides it."""
    key, _, value = override.partition("=")
    return (CONFIGS / key.lstrip("+")).is_dir() and not value.startswith("{")


def _is_later(override: str) -> bool:
    return key_of(override).partition(".")[0] in LATER


def _lacks_option(config: DictConfig, override: str, groups: set[str]) -> bool:
    """Whether an override sets an option that the plugin of one of the groups does not have."""
    group, _, option = key_of(override).partition(".")
    return group in groups and bool(option) and option.partition(".")[0] not in config[group]


def _add_price(override: str) -> str:
    """An override of a testbed's price, which adds the entry if the testbed's file does not have it."""
    return f"++{override}" if override.startswith(PRICES) else override
