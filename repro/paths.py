"""Where things lie: the configs beside the code, and the results of this checkout or of the current folder."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
CONFIGS = PROJECT / "paper_configs"


def profile_path(name: str) -> Path:
    """Where a profile lies: absolute, or from the project's folder."""
    return PROJECT / name


def is_checkout() -> bool:
    """True in a checkout (or an editable install of one), False in an installed wheel."""
    return (PROJECT / "pyproject.toml").is_file()


def results_root() -> Path:
    """`$REPRO_RESULTS`, else `results/` of the checkout, else `results/` of the current folder."""
    if given := os.environ.get("REPRO_RESULTS"):
        return Path(given).resolve()
    return (PROJECT if is_checkout() else Path.cwd()) / "results"


def reports_root() -> Path:
    """`$REPRO_REPORTS`, else `reports/out/` of the checkout, else `reports/out/` of the current folder."""
    if given := os.environ.get("REPRO_REPORTS"):
        return Path(given).resolve()
    return (PROJECT if is_checkout() else Path.cwd()) / "reports" / "out"
