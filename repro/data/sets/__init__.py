"""The data sets, one file each; `repro.data` says what such a file holds."""

from __future__ import annotations

from typing import Any

from repro.core.registry import PLUGINS


def defaults(name: str) -> dict[str, Any]:
    """A stand-in where the real files are not found; every option at what the data set itself takes for it."""
    return {"standin": "auto"} | dict.fromkeys(PLUGINS["dataset"].load(name).OPTIONS)
