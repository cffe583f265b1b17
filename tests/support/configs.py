"""`paper_configs/` for tests: a copy that tests may change, and the content of an experiment's own file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from repro.answers.pages import built, reference  # noqa: F401
from repro.core import user_files
from repro.core.paths import CONFIGS
from repro.experiment import compose, config, papers, quoted  # noqa: F401  (among the modules that are given the copy)
from repro.experiment.files import GROUPS, own_file
from repro.experiment.grid import Variant, list_variants


def copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy it below a folder, and have all imported modules use the copy."""
    copy = shutil.copytree(CONFIGS, folder / "paper_configs")
    for name, module in list(sys.modules.items()):
        if name.startswith("repro.") and getattr(module, "CONFIGS", None) == CONFIGS:
            monkeypatch.setattr(module, "CONFIGS", copy)
    return copy


def first_variant_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments have their first variant only, for what is the same for all."""
    axes = config.read_axes
    monkeypatch.setattr(config, "read_axes", lambda *arguments: (axes(*arguments)[0][:1], axes(*arguments)[1]))


def own_variants(experiment: str) -> list[Variant]:
    """The experiment's variants from its own file, read without Hydra."""
    own = own_file(experiment)
    return list_variants({**dict.fromkeys(GROUPS), **_everyones(), **own, "strategy": {"name": own_strategy(own)}})


def own_strategy(own: Mapping[str, Any]) -> str:
    """The strategy in an experiment's own file, or the default of all experiments."""
    parts = [part for part in (*_everyones()["defaults"], *own.get("defaults", ())) if isinstance(part, dict)]
    return [part[key] for part in parts for key in ("strategy", "override /strategy") if key in part][-1]


def _everyones() -> dict[str, Any]:
    return user_files.read_entries(CONFIGS / "config.yaml")
