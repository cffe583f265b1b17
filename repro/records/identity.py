"""What tells runs apart. A run's identity is every value that was configured for it, its seed aside, by its path:
`strategy.K`, `optimizer.lr`, `epochs`.

Two runs are of one configuration where these are the same; nothing else may be averaged. What the values do not say
(the data that were found, the hardware, the code) is in the run's key. Records differ in age: an entry that came later
with a value that changes nothing counts as that value where it is missing (`NEUTRAL`, and a plugin's defaults).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from repro.core import user_cache
from repro.core.paths import PACKAGE
from repro.core.registry import PLUGINS
from repro.records import kinds, summary_schema

Identity = dict[str, Any]  # path -> value: a number, a text, true, false, null, or a list

# of a configuration, what can change a result; the others name a run, or say where its data lie
PARTS = (
    *("program", "probe", "strategy", "model", "dataset", "testbed", "imbalance", "workers", "batch", "epochs"),
    *("accumulate", "optimizer", "numerics", "min_compute_s", "metric", "targets", "eval_every", "eval_train"),
    *("checkpoint_every", "breakdown", "breakdown_steps", "trace_steps", "device"),
)
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
    "testbed.threads_per_rank": 1,
    "testbed.backend": "auto",
    "testbed.arithmetic": "real",
    "testbed.shrink": 1.0,
}
# how a value is said, in this order; others as `NAME=value`, by the last part of their path where that is one's alone
SAID = {
    "strategy.name": "{}",
    "workers": "{} workers",
    "batch": "batch {}",
    "epochs": "{} epochs",
    "model.name": "{}",
    "dataset.name": "on {}",
    "imbalance.name": "imbalance {}",
    "testbed.name": "{}",
}
DESCRIPTION = "testbed.network"  # words for people
OF_SIMULATION = ("testbed.fair", "testbed.share_spread")  # an emulated testbed has them of its simulated twin, unused
BY_NAME = ("testbed.encode_s_per_byte.", "testbed.decode_s_per_byte.", "testbed.select_s_per_byte.")
# said only of runs that differ in them: how often is looked, and what is seen elsewhere
MINOR = ("dataset.standin", "eval_every", "checkpoint_every", "trace_steps", "targets", "device", "breakdown_steps")
# a strategy, and what some libraries bring with theirs
STRATEGY = ("strategy.", "testbed.launcher", "testbed.backend", "testbed.fabric")
CHANGED = "changed"  # of a configuration: where overrides made it another than its experiment's own
DEEPEST, LONGEST = 20, 40  # mappings in one another; characters of a value that is said in full


def of(summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Identity:
    """The identity of a run by its resolved configuration, and for parts that this lacks by its summary.

    summary: or an entry of MLflow's mirror, which has parts as a configuration does.
    """
    given = {name: part for name, part in (config or {}).items() if name in PARTS}
    parts = _of_summary(summary) | given
    found: Identity = {}
    for name in PARTS:
        found.update(_flat(name, parts.get(name)))
    found.pop(DESCRIPTION, None)
    if found.get("testbed.kind") == kinds.EMULATED:
        for name in OF_SIMULATION:
            found.pop(name, None)
    if isinstance(targets := found.get("targets"), list):
        found["targets"] = sorted(targets, key=str)
    return found


def completed(identities: Sequence[Identity]) -> list[Identity]:
    """The same, with what some lack and others have, where that is sure to be the same: a plugin's option at its
    default, and what a testbed takes for a codec that it did not know yet."""
    known: dict[tuple[Any, ...], set[str]] = {}  # plugin -> the paths of its options that any has
    costs: dict[tuple[Any, str], list[Any]] = {}
    for identity in identities:
        for group, prefix, name in _plugins(identity):
            paths = {path for path in identity if path.startswith(f"{prefix}.")}
            known.setdefault((group, prefix, name), set()).update(paths)
        for path in identity:
            if path.startswith(BY_NAME):
                costs.setdefault((identity.get("testbed.name"), path), []).append(identity[path])
    lacking = [(each, plugin) for each in identities for plugin in _plugins(each) if known[plugin] - each.keys()]
    defaults = _defaults(sorted({(group, name) for _, (group, _, name) in lacking})) if lacking else {}
    more: dict[int, Identity] = {}
    for identity, (group, prefix, name) in lacking:
        options = {f"{prefix}.{option}": value for option, value in defaults[f"{group} {name}"].items()}
        there = known[group, prefix, name] - identity.keys()
        more.setdefault(id(identity), {}).update({path: value for path, value in options.items() if path in there})
    for identity in identities:
        for (testbed, path), values in costs.items():
            if testbed == identity.get("testbed.name") and path not in identity and len({*map(str, values)}) == 1:
                more.setdefault(id(identity), {})[path] = values[0]
    return [identity | more.get(id(identity), {}) for identity in identities]


def digest(identity: Identity, without: tuple[str, ...] = ()) -> str:
    """Equal for runs of one configuration (`completed` together). without: beginnings of paths that do not count."""
    counts = {path: value for path, value in identity.items() if not _is_neutral(path, value)}
    entries = sorted((path, _plain(value)) for path, value in counts.items() if not path.startswith(without))
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:12]


def agree(one: Identity, other: Identity) -> bool:
    """Whether two runs are of one configuration, as far as both say."""
    return all(_same(path, one[path], other[path]) for path in one.keys() & other.keys())


def differing(identities: Sequence[Identity]) -> list[str]:
    """The paths at which identities differ, but for options that follow from the name of their plugin."""
    paths = dict.fromkeys(path for identity in identities for path in identity)
    apart = [path for path in paths if len({_key(path, identity.get(path)) for identity in identities}) > 1]
    return [path for path in apart if not _follows(path, apart, identities)]


def described(identity: Identity, paths: Sequence[str]) -> str:
    """What an identity has at some paths, in words: `H=40, 9 epochs, tiny_vit on shapes16`."""
    there = [path for path in paths if path in identity]
    ordered = [path for path in SAID if path in there] + [path for path in there if path not in SAID]
    ordered.sort(key=lambda path: not path.startswith("strategy."))
    last = [path.rpartition(".")[2] for path in ordered]
    words = []
    for path, name in zip(ordered, last, strict=True):
        text = _text(identity[path])
        name = name if last.count(name) == 1 and name != "name" else path
        words.append(SAID[path].format(text) if path in SAID else f"{name}={text}")
    return ", ".join(words).replace(", on ", " on ") if "model.name" in there else ", ".join(words)


def label(variant: str, identity: Identity, paths: Sequence[str]) -> str:
    """A variant's name, and what tells this run of it from others."""
    return ", ".join(filter(None, [variant, described(identity, paths)]))


def changed(own: Identity, made: Identity, given: Sequence[str]) -> list[str]:
    """The paths at which a run's configuration is not its experiment's own. given: those that the user set."""
    own, made = completed([own, made])
    set_here = [path for path in given if path in made and not _same(path, own.get(path), made[path])]
    return [*dict.fromkeys([*(path for path in differing([own, made]) if path in made), *set_here])]


def changes(config: Mapping[str, Any]) -> list[str]:
    """The paths at which a resolved configuration says that it is not as its experiment has it, if they matter."""
    found = config.get(CHANGED)
    return [path for path in found if isinstance(path, str) and path not in MINOR] if isinstance(found, list) else []


def _of_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a configuration that a summary says."""
    found = {name: summary[name] for name in PARTS if summary.get(name) is not None}
    if isinstance(strategy := found.get("strategy"), str):
        found["strategy"] = {"name": strategy} | (summary.get("options") or {})
    if isinstance(testbed := found.get("testbed"), str):
        found["testbed"] = (summary.get("testbed_model") or {}) | {"name": testbed}
    if isinstance(model := found.get("model"), dict):
        found["model"] = {name: value for name, value in model.items() if name != "parameters"}
    if isinstance(dataset := found.get("dataset"), dict) and isinstance(dataset.get("standin", False), bool):
        del found["dataset"]  # what was found, not what was configured
    if isinstance(targets := found.get("targets"), dict):
        found["targets"] = [_number(target) for target in targets]
    return found


def _flat(path: str, value: Any, deep: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and deep < DEEPEST:
        for name, entry in value.items():
            if name not in summary_schema.NOT_VALUES:
                yield from _flat(f"{path}.{name}", entry, deep + 1)
    elif value is not None:
        yield path, value


def _plugins(identity: Identity) -> Iterator[tuple[str, str, str]]:
    """Group, path and name of each plugin in it; those in the lists of a probe are strategies."""
    for path, name in identity.items():
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
                options = _plain(PLUGINS[group].defaults(name))
            except Exception:  # whatever a plugin that is broken, or not installed here, ends with
                options = {}
            user_cache.save("defaults", key, options)
        found[f"{group} {name}"] = {option: value for option, value in options.items() if value is not None}
    return found


def _follows(path: str, apart: Sequence[str], identities: Sequence[Identity]) -> bool:
    """Whether an entry is an option that all runs with a plugin of one name have alike, the names being different."""
    group = path.partition(".")[0]
    name = f"{group}.name"
    if group not in (*PLUGINS, "testbed") or path == name or name not in apart:
        return False
    pairs = {(identity.get(name), _key(path, identity.get(path))) for identity in identities}
    return len(pairs) == len({first for first, _ in pairs})


def _is_neutral(path: str, value: Any) -> bool:
    return not value or value == NEUTRAL.get(path)


def _same(path: str, one: Any, other: Any) -> bool:
    return _key(path, one) == _key(path, other)


def _key(path: str, value: Any) -> str | None:
    return None if _is_neutral(path, value) else json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    """A value for comparison: whole numbers as others."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in sorted(value.items(), key=str)}
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**53 else str(value)
    return value if isinstance(value, bool | float | str) or value is None else str(value)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    text = (
        value
        if isinstance(value, str)
        else json.dumps(_plain(value) if isinstance(value, dict) else value, default=str)
    )
    return text if len(text) <= LONGEST else f"#{hashlib.sha256(text.encode()).hexdigest()[:6]}"
