"""The configuration of a run in the process that executes it: what the command planned, whatever its folder now says.

A results folder may be shared with others, and a configuration names code to import. So the command sends a digest of
the configuration and of the user's own code with the launch, and a process imports nothing before it has checked it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.core import own_code
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.core.paths import CONFIG_FILE
from repro.core.registry import PLUGINS
from repro.experiment import code_digest, files
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig

ADDED = ("hardware", "provenance")  # entries that change between planning and launch; they name no code


def launch_digest(run: Run) -> str:
    """The digest that a command sends with a run's launch."""
    return config_digest(run.config.plain() | {"key": run.key}, run.users_code)


def read_config(folder: Path, expected: str) -> RunConfig:
    """The configuration in a run's folder, whose plugins this process may import from now on.

    InputError if its digest is not `expected`, that of `launch_digest`.
    """
    path = folder / CONFIG_FILE
    configured = files.read_resolved(path)
    own_code.admit_configured(configured)
    plugins = {group: part.get("name") for group in PLUGINS if isinstance(part := configured.get(group), Mapping)}
    code = code_digest.users_code({group: str(name) for group, name in plugins.items()})
    if config_digest(configured, code) != expected:
        raise InputError(f"{path}: this, or the user's code that it names, has changed since the launch; run it again")
    return check_fields(RunConfig, configured)


def config_digest(configured: Mapping[str, Any], users_code: Mapping[str, str]) -> str:
    planned = {name: value for name, value in configured.items() if name not in ADDED}
    return hashlib.sha256(files.yaml_of({"planned": planned, "code": dict(users_code)}).encode()).hexdigest()
