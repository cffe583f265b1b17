"""Comparison of runs' identities: which runs have the same configuration, and at which values others differ.

An older record may lack a value that was introduced later; it counts as the neutral value (`NEUTRAL`, and the defaults
of plugins).
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

# neutral values other than 0, false and empty; they are the defaults in `repro.experiment.schema`
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
# prefixes of a strategy's paths, and of settings that some libraries' strategies require
STRATEGY = ("strategy.", "testbed.launcher", "testbed.backend", "testbed.fabric")


def completed(runs: Sequence[Values]) -> list[Values]:
    """Each run's values, with defaults for the plugin options that only other runs with the same plugin have."""
    known: dict[tuple[str, str, str], set[str]] = {}  # plugin -> paths of its options in any run
    for values in runs:
        for plugin in _plugins(values):
            known.setdefault(plugin, set()).update(path for path in values if path.startswith(f"{plugin[1]}."))
    missing = [{plugin: known[plugin] - values.keys() for plugin in _plugins(values)} for values in runs]
    wanted = sorted({(group, name) for plugins in missing for (group, _, name), paths in plugins.items() if paths})
    defaults = _defaults(wanted) if wanted else {}
    return [
        values
        | {
            path: value
            for (group, prefix, name), paths in plugins.items()
            for option, value in defaults.get((group, name), {}).items()
            if (path := f"{prefix}.{option}") in paths
        }
        for values, plugins in zip(runs, missing, strict=True)
    ]


def digest(values: Values, without: tuple[str, ...] = ()) -> str:
    """Equal for runs of one configuration, if they were `completed` together. without: prefixes of ignored paths."""
    counts = {path: value for path, value in values.items() if not _is_neutral(path, value)}
    entries = sorted((path, plain_value(value)) for path, value in counts.items() if not path.startswith(without))
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:12]


def differing(runs: Sequence[Values]) -> list[str]:
    """The paths at which runs differ, without options that are implied by their plugin's name."""
    paths = dict.fromkeys(path for values in runs for path in values)
    differ = [path for path in paths if len({_key(path, values.get(path)) for values in runs}) > 1]
    return [path for path in differ if not _is_implied(path, differ, runs)]


def changed(original: Values, run: Values, overridden: Sequence[str]) -> list[str]:
    """The paths at which a run differs from its experiment's own values. overridden: the paths that the user set."""
    original, run = completed([original, run])
    own = [path for path in overridden if path in run and _key(path, original.get(path)) != _key(path, run[path])]
    return [*dict.fromkeys([*(path for path in differing([original, run]) if path in run), *own])]


def _plugins(values: Values) -> Iterator[tuple[str, str, str]]:
    """Group, path and name of each plugin; plugins in the lists of a probe are strategies."""
    for path, name in values.items():
        if path.endswith(".name") and isinstance(name, str):
            prefix = path.removesuffix(".name")
            if prefix in PLUGINS:
                yield prefix, prefix, name
            elif prefix.startswith("probe.strategies."):
                yield "strategy", prefix, name


def keep_defaults(plugins: Iterable[tuple[str, str]]) -> None:
    """Cache the defaults of plugins (group, name) while PyTorch is imported, for commands that only show runs."""
    _defaults(sorted({*plugins}))


def _defaults(plugins: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The default options of each plugin (group, name); empty for one that cannot be loaded. Cached until the code
    changes, because loading plugins imports PyTorch."""
    code = user_cache.tree_digest([PACKAGE], (".py",))
    defaults = {}
    for group, name in plugins:
        key = [group, name, code]
        if (options := user_cache.load("defaults", key)) is None:
            try:
                options = plain_value(PLUGINS[group].defaults(name))
            except Exception:  # of a plugin that is broken or not installed
                options = {}
            user_cache.save("defaults", key, options)
        defaults[group, name] = {option: value for option, value in options.items() if value is not None}
    return defaults


def _is_implied(path: str, differ: Sequence[str], runs: Sequence[Values]) -> bool:
    """Whether a path is an option of plugins with different names, and equal in all runs of the same plugin."""
    group = path.partition(".")[0]
    name = f"{group}.name"
    if group not in (*PLUGINS, "testbed") or path == name or name not in differ:
        return False
    pairs = {(values.get(name), _key(path, values.get(path))) for values in runs}
    return len(pairs) == len({plugin for plugin, _ in pairs})


def _is_neutral(path: str, value: Any) -> bool:
    return not value or value == NEUTRAL.get(path)


def _key(path: str, value: Any) -> str | None:
    return None if _is_neutral(path, value) else json.dumps(plain_value(value))
