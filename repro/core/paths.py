"""Paths of the project: code, configurations, committed results, and the workspace of runs."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# In a checkout strategies, reports, paper_configs and committed results are beside the package, with links in it; an
# installed package contains them.
PROJECT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else PACKAGE
CONFIGS = PROJECT / "paper_configs"
REPORTS = PACKAGE / "reports"  # a folder for each page: text, claims, figures
REFERENCE = "reference"  # the folder of the committed results in the checkout's `results/`
UNFINISHED = "unfinished"  # beside it: the folder of committed checkpoints
# files in a run's folder: its record, its event log, and its resolved configuration
RECORD_FILE, EVENTS_FILE, CONFIG_FILE = "summary.json", "events.jsonl", "config.yaml"
# other names in the workspace; no paper may have them
PACKED, PAGES, FAULTS, SUBMISSIONS = "packed", "pages", "faults", "slurm"
MLFLOW_FILES, MLFLOW_DATABASE, MLFLOW_LOCK = "mlflow-artifacts", "mlflow.db", "mlflow.lock"
RESERVED = (
    *(REFERENCE, UNFINISHED),
    *(PACKED, PAGES, FAULTS, SUBMISSIONS, MLFLOW_FILES, MLFLOW_DATABASE, MLFLOW_LOCK),
)


def is_checkout() -> bool:
    """True in a checkout (or an editable install of one), False in an installed wheel."""
    return PROJECT != PACKAGE


def results_root() -> Path:
    """The workspace: `$REPRO_RESULTS`, else `results/` of the checkout, else `results/` of the current folder."""
    if path := os.environ.get("REPRO_RESULTS"):
        return Path(path).resolve()
    return (PROJECT if is_checkout() else Path.cwd()) / "results"


def reference_root() -> Path:
    """The folder of the committed results; runs never write there."""
    return PROJECT / "results" / REFERENCE if is_checkout() else PACKAGE / "published"


def unfinished_root() -> Path:
    """The committed folder of unfinished runs with their checkpoints (`repro.records.kept`); runs never write there."""
    return (PROJECT if is_checkout() else PACKAGE) / "results" / UNFINISHED


def reports_root() -> Path:
    """The folder of built pages: `$REPRO_REPORTS`, else `pages/` of the workspace."""
    if path := os.environ.get("REPRO_REPORTS"):
        return Path(path).resolve()
    return results_root() / PAGES
