"""Where things lie: the configs and the committed results beside the code, and the workspace that runs write to."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# The checkout, where strategies, reports and paper_configs stand beside the package, which has links to them; an
# installed package has them within.
PROJECT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else PACKAGE
CONFIGS = PROJECT / "paper_configs"
REPORTS = PACKAGE / "reports"  # a folder a page: its words, claims, figures
REFERENCE = "reference"  # the folder of the committed results in the checkout's `results/`
# what the workspace has beside the papers' folders, of which none may have such a name
RESERVED = (REFERENCE, "pages", "bench", "faults", "slurm", "mlflow-artifacts", "mlflow.db", "mlflow.lock")


def profile_path(name: str) -> Path:
    """Where a profile lies: absolute, or from the project's folder."""
    return PROJECT / name


def is_checkout() -> bool:
    """True in a checkout (or an editable install of one), False in an installed wheel."""
    return PROJECT != PACKAGE


def results_root() -> Path:
    """The workspace: `$REPRO_RESULTS`, else `results/` of the checkout, else `results/` of the current folder."""
    if given := os.environ.get("REPRO_RESULTS"):
        return Path(given).resolve()
    return (PROJECT if is_checkout() else Path.cwd()) / "results"


def reference_root() -> Path:
    """The committed results, which are only read; a wheel has none."""
    return PROJECT / "results" / REFERENCE


def reports_root() -> Path:
    """Where pages are built: `$REPRO_REPORTS`, else `pages/` of the workspace."""
    if given := os.environ.get("REPRO_REPORTS"):
        return Path(given).resolve()
    return results_root() / "pages"
