"""The data sets, one file each; `repro.data` describes such a file."""

from __future__ import annotations

from typing import Any

from repro.core.registry import PLUGINS


def option_defaults(name: str) -> dict[str, Any]:
    """The default configuration of a data set: a stand-in if the real files are missing, and every option null."""
    return {"standin": "auto"} | dict.fromkeys(PLUGINS["dataset"].load(name).OPTIONS)
