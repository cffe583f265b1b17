"""A copy of `paper_configs/` that a test may spoil."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from repro.answers.pages import built, reference  # noqa: F401
from repro.core.paths import CONFIGS
from repro.experiment import compose, papers, quoted  # noqa: F401  (among the modules that are given the copy)


def copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The copy below a folder, in the place of the project's for all modules that were imported so far."""
    made = shutil.copytree(CONFIGS, folder / "paper_configs")
    for name, module in list(sys.modules.items()):
        if name.startswith("repro.") and getattr(module, "CONFIGS", None) == CONFIGS:
            monkeypatch.setattr(module, "CONFIGS", made)
    papers.entries.cache_clear()
    return made
