"""An experiment's grid of factors: what varies from run to run, and the overrides that make each of its values.

    grid:
      method:                        # a factor: each value with the overrides that make it
        Dense: [strategy=dsync]
        Top-k: [strategy=topk]
      workers: [1, 2]                # a factor that is a key of the configuration: the value sets it,
      batch: {64: [epochs=2]}        # with further overrides, if any
    exclude:                         # combinations that there are not
      - {method: Top-k, workers: 1}
    label: "{method}, P={workers}"   # a template over factors; by default the values, joined with ", "

Every combination of the factors' values is a variant. `grid` may be a list of such mappings, each with factors of its
own; their variants follow one another. `label` may be a list of templates: the first is taken whose factors the variant
has. A factor of value `none` counts there as one that it has not.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from repro.core.errors import InputError, unknown

NONE = "none"
FIELD = re.compile(r"\{([^{}]*)\}")  # of a label
LONGEST = 200  # characters of a label
SEEDS = ("seeds", "seed")  # swept, they name the seeds; no factor, but known beside the factors
BESIDE = ("testbed", *SEEDS)
QUOTES = "'\""
EXAMPLE = "{method: {fast: ['epochs=1']}, workers: [2, 4]}"

Value = str | int | float | bool
Block = dict[str, dict[Value, list[str]]]  # factor -> value -> overrides
Changes = tuple[list[str], list[str]]  # overrides of the grid, and of the user
Choices = dict[str, list[str]]  # factor -> the values that are left


@dataclass(frozen=True)
class Variant:
    """A combination of the factors' values. `given`: overrides of values that the user swept; they count most."""

    label: str
    factors: dict[str, Value]
    overrides: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


def split(overrides: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The user's overrides of one value each, and those of several, `key=a,b` or `key=choice(a)`, as key -> values."""
    plain, swept = [], {}
    for override in overrides:
        if values := _several(override):
            swept[override.partition("=")[0]] = values
        else:
            plain.append(override)
    return plain, swept


def _several(override: str) -> list[str]:
    given = override.partition("=")[2]
    if "," not in given and not given.startswith("choice("):  # the parser is slow to import
        return []
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException:
        return []  # refused where it is composed, with the reason
    if not parsed.is_choice_sweep():
        return []
    return [value.replace("\\:", ":") for value in parsed.sweep_string_iterator()]  # which puts a sign before a colon


def seeds_of(swept: Mapping[str, Sequence[str]], first: int, count: int) -> list[int]:
    """The seeds of a variant's runs: those of `seeds=0,1`, else `count` of them from the first on."""
    given = [value for name in SEEDS for value in swept.get(name, ())]
    if wrong := [value for value in given if not re.fullmatch(r"[0-9]{1,12}", value)]:
        raise InputError(f"seeds={','.join(given)}: '{wrong[0]}' is no seed; must be whole numbers, 0 or more")
    return [*dict.fromkeys(map(int, given))] or list(range(first, first + count))


def variants(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> list[Variant]:
    """The variants of an experiment, the first factor outermost; `config` has `grid`, `exclude`, `label` and all keys.

    A user's override of a factor leaves the values that it names, with what the grid says of them. `strategy=...` takes
    the place of the factors whose overrides set a strategy or options of it. A key that the user sweeps (`key=a,b`) is
    a factor too. InputError in one line for a grid, exclusion or label that cannot be.
    """
    given, exclude, template = (config.get(name) for name in ("grid", "exclude", "label"))
    if not given:  # `grid=null` takes with it what is said of its factors
        exclude, template = None, None if FIELD.search(str(template)) else template
    blocks = [_block(each, config) for each in _blocks(given)]
    excluded, templates = _exclusions(exclude, blocks), _templates(template, blocks)
    user = _given(overrides)
    found: dict[tuple, Variant] = {}
    for block in blocks:
        changed = _changed(block, user)
        silent = {"strategy"} if block.keys() - changed.keys() or not (block or templates) else set()
        more = [name for name in changed if name not in block and name not in silent]
        for values in itertools.product(*(each.items() for each in changed.values())):
            factors = {name: value for name, (value, _) in zip(changed, values, strict=True)}
            if not any(_matches(factors, combination) for combination in excluded):
                label = _label(factors, templates, more) or config["strategy"]["name"]
                ours, theirs = (tuple(o for _, made in values for o in made[of]) for of in (0, 1))
                found.setdefault(tuple(factors.items()), Variant(label, factors, ours, theirs))
    if not found:
        raise InputError("exclude: leaves no combination of the grid")
    _check_labels(list(found.values()))
    return list(found.values())


def choices(own: Mapping[str, Any], keys: Container[str], overrides: Iterable[str]) -> tuple[list[str], Choices]:
    """Overrides without those of factors that are no key of the configuration, and these as `left` takes them.

    own: the experiment's file. keys: of every configuration. InputError for a value that its grid does not have.
    """
    known: dict[str, dict[str, None]] = {}
    for block in _blocks(own.get("grid")):
        for name, values in block.items():
            if isinstance(values, dict) and name not in keys and name not in own and "." not in name:
                known.setdefault(name, {}).update(dict.fromkeys(map(_text, values)))
    rest, leaves = [], {}
    for override in overrides:
        if not isinstance(override, str):  # from Python
            raise InputError(f"override {override!r}: must be a text key=value; several are arguments of their own")
        name, _, text = override.partition("=")
        if name not in known:
            rest.append(override)
            continue
        leaves[name] = _several(override) or [text]
        for value in leaves[name]:
            if (plain := _plain(value)) not in known[name]:
                raise unknown(f"value of factor {name}", plain, known[name])
    return rest, leaves


def _plain(value: str) -> str:
    """A value without its quotes, or without the backslashes that Hydra puts before its spaces."""
    return re.sub(r"\\(.)", r"\1", value.strip(QUOTES))


def left(found: Sequence[Variant], leaves: Mapping[str, Sequence[str]]) -> list[Variant]:
    """The variants that a testbed's choices (`workers=2,4`, of one `workers=choice(4)`) leave, factor -> values; those
    without the factor stay. Values that need quotes (`method='eager-SGD (solo)',D-Sync`) stand in them."""
    leaves = {name: list(map(_plain, values)) for name, values in leaves.items()}
    return [
        each
        for each in found
        if all(_text(each.factors[name]) in values for name, values in leaves.items() if name in each.factors)
    ]


def _given(overrides: Sequence[str]) -> dict[str, list[tuple[str, bool]]]:
    """Key -> the values that the user gave it, each with whether it is one of several."""
    plain, swept = split(overrides)
    parts = [override.partition("=") for override in plain]
    one = {key: [(value, False)] for key, _, value in parts}
    return one | {key: [(value, True) for value in values] for key, values in swept.items() if key not in BESIDE}


def _changed(block: Block, user: Mapping[str, list[tuple[str, bool]]]) -> dict[str, dict[Value, Changes]]:
    """The factors of a block under what the user gave."""
    found: dict[str, dict[Value, Changes]] = {}
    for name, values in block.items():
        if "strategy" in user and any(_sets_strategy(override) for made in values.values() for override in made):
            found["strategy"] = _chosen("strategy", {}, user)
        elif name in user:
            found[name] = _chosen(name, values, user)
        else:
            found[name] = {value: (made, []) for value, made in values.items()}
    swept = [name for name, values in user.items() if any(several for _, several in values)]
    return found | {name: _chosen(name, {}, user) for name in swept if name not in found}


def _sets_strategy(override: str) -> bool:
    return override.partition("=")[0].lstrip("+").split(".")[0] == "strategy"


def _chosen(
    name: str, known: Mapping[Value, list[str]], user: Mapping[str, list[tuple[str, bool]]]
) -> dict[Value, Changes]:
    """The values of a factor that the user names; one of several is an override of its own."""
    by_text = {_text(value): value for value in known}
    found: dict[Value, Changes] = {}
    for text, several in user[name]:
        value = by_text[text] if text in by_text else _value(text)
        found[value] = known.get(value, []), [f"{name}={text}"] if several else []
    return found


def _value(text: str) -> Value:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, Value) else text


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- what an experiment's file says


def _blocks(grid: Any) -> list[Mapping]:
    blocks = grid if isinstance(grid, list) and grid else [grid or {}]
    if not all(isinstance(block, dict) for block in blocks):
        raise InputError(f"grid={grid}: must be factors with their values, as {EXAMPLE}, or a list of such")
    return blocks


def _block(given: Mapping, config: Mapping[str, Any]) -> Block:
    """The factors of a grid, or of one of several, each with all overrides that make its values."""
    block: Block = {}
    for name, values in given.items():
        if not isinstance(name, str) or not isinstance(values, list | dict) or not values:
            raise InputError(f"grid.{name}={values}: must be values, each with a list of overrides, as {EXAMPLE}")
        named = isinstance(values, list) or "." in name or name in config
        made = values if isinstance(values, dict) else {value: None for value in values if isinstance(value, Value)}
        if isinstance(values, list) and len(made) != len(values):
            raise InputError(f"grid.{name}={values}: must be different values, as {EXAMPLE}")
        block[name] = {value: _overrides(name, value, changes, named) for value, changes in made.items()}
    return block


def _overrides(name: str, value: Any, changes: Any, named: bool) -> list[str]:
    """What makes a value; `named`: where nothing else sets the key of the factor's name, the value does."""
    if not _text(value).strip() or not _text(value).isprintable():
        raise InputError(f"grid.{name}: {value!r}: must be a text on one line or a number")
    changes = [] if changes is None else changes
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        raise InputError(f"grid.{name}.{value}={changes}: must be a list of overrides, as ['epochs=1']")
    if named and name not in {change.partition("=")[0].lstrip("+") for change in changes}:
        return [f"{name}={_text(value)}", *changes]
    return changes


def _exclusions(given: Any, blocks: Sequence[Block]) -> list[dict[str, list[Value]]]:
    """The combinations that there are not, factor -> values; each excludes some combination of the grid."""
    if not isinstance(given, list | None) or not all(isinstance(entry, dict) and entry for entry in given or ()):
        raise InputError(f"exclude={given}: must be a list of combinations, as [{{method: fast, workers: 2}}]")
    found = []
    for entry in given or ():
        _check_factors("exclude", entry, blocks)
        entry = {name: values if isinstance(values, list) else [values] for name, values in entry.items()}
        for name, values in entry.items():
            known = dict.fromkeys(value for block in blocks for value in block.get(name, ()))
            for value in values:
                if not isinstance(value, Value) or value not in known:
                    raise unknown(f"value of factor {name} in exclude", _text(value), map(_text, known))
        if not any(all(set(values) & block.get(name, {}).keys() for name, values in entry.items()) for block in blocks):
            raise InputError(f"exclude: {entry}: the grid has no such combination")
        found.append(entry)
    return found


def _matches(factors: Mapping[str, Value], combination: Mapping[str, list[Value]]) -> bool:
    return all(name in factors and factors[name] in values for name, values in combination.items())


def _check_factors(where: str, names: Iterable[str], blocks: Sequence[Block]) -> None:
    known = dict.fromkeys(name for block in blocks for name in block)
    for name in names:
        if name not in known:
            raise unknown(f"factor in {where}", str(name), known)


# --- labels


def _templates(given: Any, blocks: Sequence[Block]) -> list[str]:
    templates = given if isinstance(given, list) else [] if given is None else [given]
    for template in templates:
        if not isinstance(template, str) or not template.strip() or not template.isprintable():
            raise InputError(f"label={given}: must be a text over factors, as '{{method}}, P={{workers}}', or several")
        _check_factors("label", FIELD.findall(template), blocks)
    return templates


def _label(factors: Mapping[str, Value], templates: Sequence[str], more: Sequence[str]) -> str:
    """The first template that fits, filled; else the values. Then what the user varies besides; '' without any."""
    has = {name: _text(value) for name, value in factors.items() if value != NONE}
    fitting = (template for template in templates if set(FIELD.findall(template)) <= has.keys())
    plain = ", ".join(value for name, value in has.items() if name not in more)
    first = FIELD.sub(lambda match: has[match[1]], next(fitting, plain))
    return ", ".join([*filter(None, [first]), *(f"{name}={_text(factors[name])}" for name in more)])


def _check_labels(found: Sequence[Variant]) -> None:
    """InputError for a label that two variants have, or that is too long for a name."""
    known: dict[str, Variant] = {}
    for variant in found:
        if len(variant.label) > LONGEST:
            raise InputError(f"label {variant.label[:40]!r}...: must be a text of 1 to {LONGEST} characters")
        if (other := known.setdefault(variant.label, variant)) is not variant:
            raise InputError(
                f"label '{variant.label}' is of two combinations, {dict(other.factors)} and {dict(variant.factors)}; "
                "must tell them apart"
            )
