"""Versions of the parts that compute a run's numbers: the run's key holds them, and not their code.

`versions.lock` has the version of each part, and a digest of its code. The digest is a tripwire and in no key: where
the code has another one, `make test` fails until the version is raised, because numbers change, or `make versions` has
shown that they do not. So a cleaner name makes no run stale. A user's own file, and a plugin of another package, has no
version; its digest counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from repro.core import user_cache, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.fields import Model
from repro.core.paths import PACKAGE
from repro.core.registry import PLUGINS, PROBES, TRAIN, home_module
from repro.experiment import code_digest
from repro.experiment.schema import RunConfig

LOCK = Path(__file__).with_name("versions.lock")
DIGITS = 16  # of a digest
TRAINING = ("repro.rank.session", "repro.rank.summary", "repro.rank.loop")
Digest = Callable[[tuple[str, ...]], str]
Parts = dict[str, tuple[str, ...]]  # part -> the modules that its code begins with; it goes on with what they import


class Locked(Model):
    """A part in `versions.lock`."""

    version: Annotated[int, Field(ge=1)]
    digest: str


@cache
def read_lock() -> dict[str, Locked]:
    """part -> its entry in `versions.lock`; InputError for an invalid one."""
    try:
        return TypeAdapter(dict[str, Locked]).validate_python(user_files.parse_json(LOCK.read_bytes()))
    except ValueError as error:  # a ValidationError is one
        raise InputError(f"{LOCK}: must have a version and a digest for each part ({error})") from None


def digest_of(roots: tuple[str, ...]) -> str:
    """The digest of the code of a part."""
    return code_digest.code_fingerprint(roots)[:DIGITS]


class StoredDigests:
    """`digest_of` for many runs, while nobody edits code; of this project's parts kept in the user's cache."""

    def __init__(self) -> None:
        self._state = user_cache.tree_digest([PACKAGE], (".py",))
        self._stored: dict[str, str] = user_cache.load_cached("digests", self._state) or {}
        self._others = cache(digest_of)

    def __call__(self, roots: tuple[str, ...]) -> str:
        if not all(root.startswith("repro.") for root in roots):
            return self._others(roots)
        if (name := " ".join(roots)) not in self._stored:
            self._stored[name] = digest_of(roots)
            user_cache.save_cached("digests", self._state, self._stored)
        return self._stored[name]


def versions_of(config: RunConfig, digest: Digest = digest_of) -> dict[str, int | str]:
    """part -> version, or the digest of the code of a part without one, of all parts that compute a run's numbers.

    digest: `digest_of`, or a cached one for many runs, of which none edits code.
    """
    known = read_lock()
    return {part: known[part].version if part in known else digest(roots) for part, roots in parts_of(config).items()}


def parts_of(config: RunConfig) -> Parts:
    """The parts that compute a run's numbers."""
    launcher, data, name = (
        home_module("launcher").launcher_for(config.testbed),
        home_module("dataset"),
        config.dataset.name,
    )
    strategies = {config.strategy.name}
    if config.program == TRAIN:
        scored_by = home_module("metric").metric_modules(data.task_of(name), data.input_kind(name))
        parts: Parts = {"training": TRAINING} | {f"metric/{metric}": (module,) for metric, module in scored_by.items()}
    else:
        strategies |= {choice.name for choice in getattr(config.probe, "strategies", {}).values()}
        parts = {f"probe/{config.program}": (PROBES.module_of(config.program),)}
    used = [("strategy", strategy) for strategy in strategies] + [("model", config.model.name), ("dataset", name)]
    if config.imbalance.name != home_module("imbalance").NONE:
        used.append(("imbalance", config.imbalance.name))
    parts |= {f"{kind}/{plugin}": tuple(PLUGINS[kind].modules(plugin)) for kind, plugin in used}
    return (
        parts
        | launcher_part(launcher)
        | {f"fabric/{launcher.fabric}": (home_module("fabric").FABRICS[launcher.fabric],)}
    )


def edited_parts(config: RunConfig, digest: Digest = digest_of) -> list[str]:
    """The parts of a run whose code is another one than when their digest was written."""
    known = read_lock()
    return [part for part, roots in parts_of(config).items() if part in known and known[part].digest != digest(roots)]


def roots_of(config: RunConfig) -> list[str]:
    """The modules with which the code of a run's parts begins."""
    return [root for roots in parts_of(config).values() for root in roots]


def project_parts() -> Parts:
    """All parts of this project."""
    parts: Parts = {"training": TRAINING}
    for kind, registry in (*PLUGINS.items(), ("probe", PROBES)):
        parts |= {f"{kind}/{name}": (module,) for name, module in registry.own_modules().items()}
    parts |= {
        f"metric/{name}": (metric.module,) for name, metric in home_module("metric").METRICS.items() if metric.module
    }
    for launcher in home_module("launcher").LAUNCHERS:
        parts |= launcher_part(launcher)
    return parts | {f"fabric/{name}": (module,) for name, module in home_module("fabric").FABRICS.items()}


def launcher_part(launcher: Any) -> Parts:
    """The part of a launcher (`repro.launch.base.Launcher`), if it affects measured times."""
    name = "/".join([launcher.name, *(["limited"] if launcher.limited else []), launcher.kind])
    return {f"launcher/{name}": tuple(launcher.modules)} if launcher.modules else {}


def project_digests() -> dict[str, str]:
    """part -> digest of its code now, of all parts of this project."""
    return {part: digest_of(roots) for part, roots in sorted(project_parts().items())}


def write_lock(entries: Mapping[str, Locked]) -> None:
    """Write `versions.lock`, a line for each part."""
    lines = (f"{json.dumps(part)}: {entry.model_dump_json()}" for part, entry in sorted(entries.items()))
    write_atomically(LOCK, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
