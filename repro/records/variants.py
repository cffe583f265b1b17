"""Which runs are of one variant, and what tells others apart: the values of their identities, compared.

Records differ in age: a value that came later and changes nothing counts as that value where it is missing (`NEUTRAL`,
and a plugin's defaults).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from repro.core import user_cache
from repro.core.paths import PACKAGE
from repro.core.registry import PLUGINS
from repro.records.identity import Values, plain_value

# values besides 0, false and nothing that change nothing: `repro.experiment.schema` has them as defaults
NEUTRAL: dict[str, Any] = {
    "program": "train",
    "accumulate": 1,
    "breakdown_steps": 300,
    "device": "auto",
    "imbalance.name": "none",
    "numerics.precision": "fp32",
    "optimizer.name": "sgd",
    "optimizer.alpha": 0.99,
    "optimizer.eps": 1e-8,
    "optimizer.schedule": "constant",
    "optimizer.decay": 0.1,
    "optimizer.power": 1.0,
    "optimizer.betas": [0.9, 0.999],
    "testbed.threads_per_rank": 1,
    "testbed.backend": "auto",
    "testbed.arithmetic": "real",
    "testbed.shrink": 1.0,
}
# a strategy, and what some libraries bring with theirs
STRATEGY = ("strategy.", "testbed.launcher", "testbed.backend", "testbed.fabric")


def completed(found: Sequence[Values]) -> list[Values]:
    """The same, with the options that some lack and others with the same plugin have, at the plugin's defaults."""
    known: dict[tuple[Any, ...], set[str]] = {}  # plugin -> the paths of its options that any has
    for values in found:
        for group, prefix, name in _plugins(values):
            paths = {path for path in values if path.startswith(f"{prefix}.")}
            known.setdefault((group, prefix, name), set()).update(paths)
    lacking = [(each, plugin) for each in found for plugin in _plugins(each) if known[plugin] - each.keys()]
    defaults = _defaults(sorted({(group, name) for _, (group, _, name) in lacking})) if lacking else {}
    more: dict[int, Values] = {}
    for values, (group, prefix, name) in lacking:
        options = {f"{prefix}.{option}": value for option, value in defaults[f"{group} {name}"].items()}
        there = known[group, prefix, name] - values.keys()
        more.setdefault(id(values), {}).update({path: value for path, value in options.items() if path in there})
    return [values | more.get(id(values), {}) for values in found]


def digest(values: Values, without: tuple[str, ...] = ()) -> str:
    """Equal for runs of one configuration (`completed` together). without: beginnings of paths that do not count."""
    counts = {path: value for path, value in values.items() if not _is_neutral(path, value)}
    entries = sorted((path, plain_value(value)) for path, value in counts.items() if not path.startswith(without))
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:12]


def differing(found: Sequence[Values]) -> list[str]:
    """The paths at which identities differ, but for options that follow from the name of their plugin."""
    paths = dict.fromkeys(path for values in found for path in values)
    apart = [path for path in paths if len({_key(path, values.get(path)) for values in found}) > 1]
    return [path for path in apart if not _follows(path, apart, found)]


def changed(own: Values, made: Values, given: Sequence[str]) -> list[str]:
    """The paths at which a run's configuration is not its experiment's own. given: those that the user set."""
    own, made = completed([own, made])
    set_here = [path for path in given if path in made and _key(path, own.get(path)) != _key(path, made[path])]
    return [*dict.fromkeys([*(path for path in differing([own, made]) if path in made), *set_here])]


def _plugins(values: Values) -> Iterator[tuple[str, str, str]]:
    """Group, path and name of each plugin in it; those in the lists of a probe are strategies."""
    for path, name in values.items():
        if path.endswith(".name") and isinstance(name, str):
            prefix = path.removesuffix(".name")
            if prefix in PLUGINS:
                yield prefix, prefix, name
            elif prefix.startswith("probe.strategies."):
                yield "strategy", prefix, name


def keep_defaults(plugins: Iterable[tuple[str, str]]) -> None:
    """Remember the defaults of plugins (group, name), where PyTorch is imported already: who shows runs need not."""
    _defaults(sorted({*plugins}))


def _defaults(plugins: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """The options of each plugin (group, name) at their defaults, none of one that is not installed here. To load
    plugins imports PyTorch, so they are remembered while the code stays as it is."""
    code = user_cache.tree_digest([PACKAGE], (".py",))
    found = {}
    for group, name in plugins:
        key = [group, name, code]
        if (options := user_cache.load("defaults", key)) is None:
            try:
                options = plain_value(PLUGINS[group].defaults(name))
            except Exception:  # whatever a plugin that is broken, or not installed here, ends with
                options = {}
            user_cache.save("defaults", key, options)
        found[f"{group} {name}"] = {option: value for option, value in options.items() if value is not None}
    return found


def _follows(path: str, apart: Sequence[str], found: Sequence[Values]) -> bool:
    """Whether an entry is an option that all runs with a plugin of one name have alike, the names being different."""
    group = path.partition(".")[0]
    name = f"{group}.name"
    if group not in (*PLUGINS, "testbed") or path == name or name not in apart:
        return False
    pairs = {(values.get(name), _key(path, values.get(path))) for values in found}
    return len(pairs) == len({first for first, _ in pairs})


def _is_neutral(path: str, value: Any) -> bool:
    return not value or value == NEUTRAL.get(path)


def _key(path: str, value: Any) -> str | None:
    return None if _is_neutral(path, value) else json.dumps(plain_value(value))
