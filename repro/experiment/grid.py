"""An experiment's grid: its factors, their values, and the overrides of each value.

    grid:
      method:                        # a factor: each value with its overrides
        Dense: [strategy=dsync]
        Top-k: [strategy=topk]
      workers: [1, 2]                # a factor that is a key of the configuration: the value sets it,
      batch: {64: [epochs=2]}        # with further overrides, if any
    exclude:                         # excluded combinations
      - {method: Top-k, workers: 1}
    label: "{method}, P={workers}"   # a template over factors; by default the values, joined with ", "

Every combination of the factors' values is a variant. `grid` may be a list of such mappings with different factors;
their variants follow one another. `label` may be a list of templates: a variant takes the first whose factors it has.
There a factor of value `none` counts as missing.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from repro.core import user_files
from repro.core.errors import InputError, unknown_name
from repro.core.registry import PLUGINS
from repro.experiment import limits
from repro.experiment.override_keys import key_of

NONE = "none"
FIELD = re.compile(r"\{([^{}]*)\}")  # a factor in a label
LONGEST = 200  # characters of a label
SEEDS = ("seeds", "seed")  # several values of them are the seeds, not a factor
BESIDE = ("testbed", *SEEDS)
QUOTES = "'\""
EXAMPLE = "{method: {fast: ['epochs=1']}, workers: [2, 4]}"

Value = str | int | float | bool
Block = dict[str, dict[Value, list[str]]]  # factor -> value -> overrides
Changes = tuple[list[str], list[str]]  # overrides of the grid, and of the user
Choices = dict[str, list[str]]  # factor -> chosen values
UsersValues = dict[str, list[tuple[str, list[str]]]]  # key -> values, each with its override if it is one of several


@dataclass(frozen=True)
class Variant:
    """A combination of the factors' values. `swept`: the user's overrides of several values; they have priority."""

    label: str
    factors: dict[str, Value]
    overrides: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()


def split_overrides(overrides: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The user's overrides of one value each, and those of several, `key=a,b` or `key=choice(a)`, as key -> values."""
    plain, swept = [], {}
    for override in overrides:
        if values := _several(override):
            swept[key_of(override)] = values
        else:
            plain.append(override)
    return plain, swept


def keep_single_values(overrides: Iterable[str]) -> list[str]:
    """The overrides of one value, with the first of several plugins: one configuration that stands for all, so that
    overrides of a plugin's options (`strategy=topk,gtopk strategy.density=0.01`) have a plugin that they belong to."""
    plain, swept = split_overrides(overrides)
    return [*(f"{group}={swept[group][0]}" for group in PLUGINS if group in swept), *plain]


def split_values(override: str) -> list[str]:
    """An override for each of several values, `key=a` and `key=b` of `key=a,b`; none of one value."""
    key, _, _ = override.partition("=")
    return [f"{key}={value}" for value in _several(override)]


def _several(override: str) -> list[str]:
    text = _text_of(override)
    if "," not in text and not text.startswith("choice("):  # the parser is slow to import
        return []
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException:
        return []  # composing it raises the error
    if not parsed.is_choice_sweep():
        return []
    return [value.replace("\\:", ":") for value in parsed.sweep_string_iterator()]  # which escapes colons


def choose_seeds(swept: Mapping[str, Sequence[str]], first: int, count: int) -> list[int]:
    """The seeds of a variant's runs: those of `seeds=0,1`, else `count` of them from the first on."""
    seeds = [value for name in SEEDS for value in swept.get(name, ())]
    if wrong := [value for value in seeds if not re.fullmatch(r"[0-9]{1,12}", value)]:
        raise InputError(f"seeds={','.join(seeds)}: '{wrong[0]}' is no seed; must be whole numbers, 0 or more")
    if twice := [seed for seed, times in Counter(map(int, seeds)).items() if times > 1]:
        raise InputError(f"seeds={','.join(seeds)}: {twice[0]} occurs twice; each seed is a run")
    return [*map(int, seeds)] or list(range(first, first + count))


def list_variants(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> list[Variant]:
    """The variants of an experiment, the first factor outermost; `config` has `grid`, `exclude`, `label` and all keys.

    A user's override of a factor selects its values, which keep the grid's overrides. `strategy=...` replaces the
    factors whose overrides set a strategy or its options. A key of which the user names several values (`key=a,b`) is a
    factor too. InputError for an invalid grid, exclusion or label.
    """
    factors_of, exclude, template = (config.get(name) for name in ("grid", "exclude", "label"))
    if not factors_of:  # `grid=null` also removes exclusions and labels of its factors
        exclude, template = None, None if FIELD.search(str(template)) else template
    blocks = [_block(each, config) for each in _blocks(factors_of)]
    excluded, templates = _exclusions(exclude, blocks), _templates(template, blocks)
    user = _values_by_key(overrides)
    made: dict[tuple, Variant] = {}
    for block in blocks:
        changed = _changed(block, user)
        unlabelled = {"strategy"} if block.keys() - changed.keys() or not (block or templates) else set()
        more = [name for name in changed if name not in block and name not in unlabelled]
        limits.check_limit("grid: combinations of values", math.prod(map(len, changed.values())), limits.COMBINATIONS)
        for values in itertools.product(*(each.items() for each in changed.values())):
            factors = {name: value for name, (value, _) in zip(changed, values, strict=True)}
            if not any(_matches(factors, combination) for combination in excluded):
                label = _label(factors, templates, more) or config["strategy"]["name"]
                ours, swept = (tuple(o for _, changes in values for o in changes[kind]) for kind in (0, 1))
                made.setdefault(tuple(factors.items()), Variant(label, factors, ours, swept))
    if not made:
        raise InputError("exclude: leaves no combination of the grid")
    _check_labels(list(made.values()))
    return list(made.values())


def split_choices(file: Mapping[str, Any], keys: Container[str], overrides: Iterable[str]) -> tuple[list[str], Choices]:
    """Split overrides: those of the configuration, and those of factors that are no key of it, for `select_variants`.

    file: the experiment's; keys: of every configuration. InputError for a value that the grid does not have.
    """
    known: dict[str, dict[str, None]] = {}
    for block in _blocks(file.get("grid")):
        for name, values in block.items():
            if isinstance(values, dict) and name not in keys and name not in file and "." not in name:
                known.setdefault(name, {}).update(dict.fromkeys(map(_text, values)))
    rest, chosen = [], {}
    for override in overrides:
        if not isinstance(override, str):  # from Python
            raise InputError(f"override {override!r}: must be a text key=value; several are arguments of their own")
        name, text = key_of(override), _text_of(override)
        if name not in known:
            rest.append(override)
            continue
        if text.startswith("["):
            raise InputError(f"{override}: several values of a factor stand without brackets, {name}=A,B")
        chosen[name] = _several(override) or [text]
        for value in map(_plain, chosen[name]):
            if value not in known[name]:
                raise unknown_name(f"value of factor {name}", value, known[name])
    return rest, chosen


def _plain(value: str) -> str:
    """A value without quotes and without Hydra's backslashes before spaces."""
    return re.sub(r"\\(.)", r"\1", value.strip(QUOTES))


def select_variants(every: Iterable[Variant], chosen: Mapping[str, Sequence[str]]) -> list[Variant]:
    """The variants that have a chosen value of each factor, or lack the factor. Values may have quotes."""
    chosen = {name: list(map(_plain, values)) for name, values in chosen.items()}
    return [
        variant
        for variant in every
        if all(_text(variant.factors[name]) in values for name, values in chosen.items() if name in variant.factors)
    ]


def _values_by_key(overrides: Sequence[str]) -> UsersValues:
    """The values of the user's overrides, but for several testbeds or seeds, which are no factor."""
    user: UsersValues = {}
    for override in overrides:
        several = split_values(override)
        if not (several and key_of(override) in BESIDE):
            values = [(_text_of(each), [each]) for each in several] or [(_text_of(override), [])]
            user[key_of(override)] = values
    return user


def _text_of(override: str) -> str:
    return override.partition("=")[2]


def _changed(block: Block, user: UsersValues) -> dict[str, dict[Value, Changes]]:
    """The factors of a block under the user's overrides."""
    factors: dict[str, dict[Value, Changes]] = {}
    for name, values in block.items():
        if "strategy" in user and any(_sets_strategy(each) for changes in values.values() for each in changes):
            factors["strategy"] = _chosen("strategy", {}, user)
        elif name in user:
            factors[name] = _chosen(name, values, user)
        else:
            factors[name] = {value: (changes, []) for value, changes in values.items()}
    swept = [name for name, values in user.items() if any(changes for _, changes in values)]
    return factors | {name: _chosen(name, {}, user) for name in swept if name not in factors}


def _sets_strategy(override: str) -> bool:
    return key_of(override).split(".")[0] == "strategy"


def _chosen(name: str, known: Mapping[Value, list[str]], user: UsersValues) -> dict[Value, Changes]:
    """The user's values of a factor, with the grid's overrides; one of several values has an override of its own."""
    by_text = {_text(value): value for value in known}
    chosen: dict[Value, Changes] = {}
    for text, changes in user[name]:
        value = by_text[text] if text in by_text else _value(text)
        chosen[value] = known.get(value, []), changes
    return chosen


def _value(text: str) -> Value:
    try:
        value = user_files.parse_plain(text.encode())
    except (ValueError, yaml.YAMLError):
        return text
    return value if isinstance(value, Value) else text


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- parsing of an experiment's file


def _blocks(grid: Any) -> list[Mapping]:
    blocks = grid if isinstance(grid, list) and grid else [grid or {}]
    if not all(isinstance(block, dict) for block in blocks):
        raise InputError(f"grid={grid}: must be factors with their values, as {EXAMPLE}, or a list of such")
    return blocks


def _block(factors: Mapping, config: Mapping[str, Any]) -> Block:
    """The factors of one grid, each with the overrides of its values."""
    block: Block = {}
    for name, values in factors.items():
        if not isinstance(name, str) or not isinstance(values, list | dict) or not values:
            raise InputError(f"grid.{name}={values}: must be values, each with a list of overrides, as {EXAMPLE}")
        is_key = isinstance(values, list) or "." in name or name in config
        by_value = values if isinstance(values, dict) else dict.fromkeys(v for v in values if isinstance(v, Value))
        if isinstance(values, list) and len(by_value) != len(values):
            raise InputError(f"grid.{name}={values}: must be different values, as {EXAMPLE}")
        block[name] = {value: _overrides(name, value, changes, is_key) for value, changes in by_value.items()}
    return block


def _overrides(name: str, value: Any, changes: Any, is_key: bool) -> list[str]:
    """The overrides of a value. is_key: unless its `changes` set the key of the factor's name, the value does."""
    if not _text(value).strip() or not _text(value).isprintable():
        raise InputError(f"grid.{name}: {value!r}: must be a text on one line or a number")
    changes = [] if changes is None else changes
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        raise InputError(f"grid.{name}.{value}={changes}: must be a list of overrides, as ['epochs=1']")
    if is_key and name not in map(key_of, changes):
        return [f"{name}={_text(value)}", *changes]
    return changes


def _exclusions(entries: Any, blocks: Sequence[Block]) -> list[dict[str, list[Value]]]:
    """The excluded combinations, factor -> values; InputError for one that excludes nothing."""
    if not isinstance(entries, list | None) or not all(isinstance(entry, dict) and entry for entry in entries or ()):
        raise InputError(f"exclude={entries}: must be a list of combinations, as [{{method: fast, workers: 2}}]")
    excluded = []
    for entry in entries or ():
        _check_factors("exclude", entry, blocks)
        entry = {name: values if isinstance(values, list) else [values] for name, values in entry.items()}
        for name, values in entry.items():
            known = dict.fromkeys(value for block in blocks for value in block.get(name, ()))
            for value in values:
                if not isinstance(value, Value) or value not in known:
                    raise unknown_name(f"value of factor {name} in exclude", _text(value), map(_text, known))
        if not any(all(set(values) & block.get(name, {}).keys() for name, values in entry.items()) for block in blocks):
            raise InputError(f"exclude: {entry}: the grid has no such combination")
        excluded.append(entry)
    return excluded


def _matches(factors: Mapping[str, Value], combination: Mapping[str, list[Value]]) -> bool:
    return all(name in factors and factors[name] in values for name, values in combination.items())


def _check_factors(where: str, names: Iterable[str], blocks: Sequence[Block]) -> None:
    known = dict.fromkeys(name for block in blocks for name in block)
    for name in names:
        if name not in known:
            raise unknown_name(f"factor in {where}", str(name), known)


# --- labels


def _templates(label: Any, blocks: Sequence[Block]) -> list[str]:
    templates = label if isinstance(label, list) else [] if label is None else [label]
    for template in templates:
        if not isinstance(template, str) or not template.strip() or not template.isprintable():
            raise InputError(f"label={label}: must be a text over factors, as '{{method}}, P={{workers}}', or several")
        _check_factors("label", FIELD.findall(template), blocks)
    return templates


def _label(factors: Mapping[str, Value], templates: Sequence[str], more: Sequence[str]) -> str:
    """The first template that fits, filled; else the values. Then `name=value` for the factors in `more`."""
    has = {name: _text(value) for name, value in factors.items() if value != NONE}
    fitting = (template for template in templates if set(FIELD.findall(template)) <= has.keys())
    plain = ", ".join(value for name, value in has.items() if name not in more)
    first = FIELD.sub(lambda match: has[match[1]], next(fitting, plain))
    return ", ".join([*filter(None, [first]), *(f"{name}={_text(factors[name])}" for name in more)])


def _check_labels(every: Sequence[Variant]) -> None:
    """InputError for a label of two variants, and for one that is too long for a name."""
    known: dict[str, Variant] = {}
    for variant in every:
        if len(variant.label) > LONGEST:
            raise InputError(f"label {variant.label[:40]!r}...: must be a text of 1 to {LONGEST} characters")
        if (other := known.setdefault(variant.label, variant)) is not variant:
            raise InputError(
                f"label '{variant.label}' is of two combinations, {dict(other.factors)} and {dict(variant.factors)}; "
                "must tell them apart"
            )
