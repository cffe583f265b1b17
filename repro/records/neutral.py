"""What a value that a record lacks counts as: it was introduced later, so that its neutral value changes nothing.

Neutral are 0, false and empty values, the defaults in `repro.records.configured`, those of the parts of a configuration
where they are declared (`repro.experiment.schema.default_of_part`), and the defaults of a plugin's options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from repro.core import user_cache
from repro.core.paths import PACKAGE
from repro.core.registry import PLUGINS, home_module
from repro.records.configured import Configured
from repro.records.identity import Identity, Values, plain_value

IMBALANCE = "imbalance.name"


@cache
def neutral_value(path: str) -> Any:
    """The neutral value of the entry at a path, if that is not 0, false or empty."""
    if path == IMBALANCE:
        return Identity.model_fields["imbalance"].get_default(call_default_factory=True).name
    entry = Configured.model_fields.get(path)
    return entry.get_default(call_default_factory=True) if entry else home_module("configuration").default_of_part(path)


def is_neutral(path: str, value: Any) -> bool:
    """Whether a value equals that of a record without it."""
    return not value or value == neutral_value(path)


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


def completed_alone(values: Values) -> Values:
    """One run's values, with the defaults of all options of its plugins."""
    plugins = [*_plugins(values)]
    defaults = _defaults(sorted({(group, name) for group, _, name in plugins}))
    options = [(f"{prefix}.{option}", value) for group, prefix, name in plugins
               for option, value in defaults[group, name].items()]  # fmt: skip
    return dict(options) | values


def keep_defaults(plugins: Iterable[tuple[str, str]]) -> None:
    """Cache the defaults of plugins (group, name) while PyTorch is imported, for commands that only show runs."""
    _defaults(sorted({*plugins}))


def _plugins(values: Values) -> Iterator[tuple[str, str, str]]:
    """Group, path and name of each plugin; plugins in the lists of a probe are strategies."""
    for path, name in values.items():
        if path.endswith(".name") and isinstance(name, str):
            prefix = path.removesuffix(".name")
            if prefix in PLUGINS:
                yield prefix, prefix, name
            elif prefix.startswith("probe.strategies."):
                yield "strategy", prefix, name


def _defaults(plugins: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The default options of each plugin (group, name); empty for one that cannot be loaded. Cached until the code
    changes, because loading plugins imports PyTorch."""
    code = user_cache.tree_digest([PACKAGE], (".py",))
    defaults = {}
    for group, name in plugins:
        key = [group, name, code]
        if (options := user_cache.load_cached("defaults", key)) is None:
            try:
                options = plain_value(PLUGINS[group].defaults(name))
            except Exception:  # of a plugin that is broken or not installed
                options = {}
            user_cache.save_cached("defaults", key, options)
        defaults[group, name] = {option: value for option, value in options.items() if value is not None}
    return defaults
