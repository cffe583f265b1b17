"""The form of every configuration: which parts are mappings, texts, lists, and names of folders.

What the values are is checked by those who use them (`repro.launch.runs.check`), who need not ask first what they
have got.
"""

from __future__ import annotations

import math
import re
from typing import Any

from repro.common.errors import InputError
from repro.experiment.files import GROUPS

FOLDERS = ("paper", "figure")  # of the results folder: `repro.records.store.cell_dir`
TEXTS = ("title", "program", "metric", "device", "scale")
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LONGEST = 200  # characters of a name or title


def check(config: dict[str, Any]) -> None:
    """InputError naming the first part that is not of its form, or a number that is none: no summary could hold it."""
    _check_finite("", config)
    for part in (*GROUPS, "optimizer", "probe", "data"):
        if not isinstance(config.get(part), dict):
            raise InputError(f"{part}={config.get(part)}: must be entries, as {part}.NAME=value sets one")
    for part in GROUPS:
        _check_text(f"{part}.name", config[part].get("name"))
    for name in ("kind", "launcher"):
        _check_text(f"testbed.{name}", config["testbed"].get(name))
    for name in FOLDERS:
        if not isinstance(given := config.get(name), str) or not FOLDER.fullmatch(given):
            raise InputError(f"{name}={given!r}: must be a plain name: letters, digits, . _ and -, 1 to 100 of them")
    for name in TEXTS:
        _check_text(name, config.get(name))
    if not isinstance(root := config["data"].get("root"), str | None):
        raise InputError(f"data.root={root}: must be a folder, or null")
    if not isinstance(config.get("breakdown"), bool):
        raise InputError(f"breakdown={config.get('breakdown')}: must be true or false")
    testbeds = config.get("testbeds")
    if isinstance(testbeds, list):  # names alone
        testbeds = {str(name): [] for name in testbeds}
    elif isinstance(testbeds, dict):
        testbeds = {name: [] if changes is None else changes for name, changes in testbeds.items()}
    _check_overrides("testbeds", testbeds)


def _check_overrides(name: str, given: Any) -> None:
    """InputError unless each name has a list of overrides; None: there are none."""
    if not isinstance(given, dict | None):
        raise InputError(f"{name}={given}: must be names, each with a list of overrides, as {{fast: ['epochs=1']}}")
    for key, changes in (given or {}).items():
        _check_text(f"a name in {name}", key)
        if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
            raise InputError(f"{name}.{key}={changes}: must be a list of overrides, as ['epochs=1']")


def _check_finite(name: str, value: Any) -> None:
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            _check_finite(f"{name}.{key}" if name else str(key), entry)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name}={value}: must be a finite number")


def _check_text(what: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST:
        raise InputError(f"{what}={value!r}: must be a text of 1 to {LONGEST} characters on one line")
