"""Every finished run that can be shown: those of the workspace and those of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from repro.common.paths import reference_root, results_root
from repro.records import reference, tidy
from repro.records.store import run_dir, run_folders, usable_summary

if TYPE_CHECKING:
    import pandas as pd

REFERENCE, WORKSPACE = "reference", "workspace"


class Found(NamedTuple):
    """A run: where it is from, the file that holds it, its summary."""

    origin: str
    path: Path
    summary: dict[str, Any]


def runs(paper: str, root: Path | None = None) -> list[Found]:
    """The finished runs of a paper, in the order of experiments and names.

    root: a results folder, or the reference, to be read alone; None: the workspace and the reference. A run of the
    workspace takes the place of the same run (variant, testbed, seed and key) in the reference. A run of the workspace
    whose summary cannot be read is left out, with a warning.
    """
    found = {}
    if root in (None, reference_root()):
        table = reference_root() / paper / "runs.parquet"
        found = {tidy.name(run): Found(REFERENCE, table, run) for run, _ in reference.read(paper)}
    for folder in run_folders(root or results_root(), paper) if root != reference_root() else ():
        if summary := usable_summary(folder):
            named = {"cell": folder.name} | summary
            found["/".join(folder.parts[-2:])] = Found(WORKSPACE, folder / "summary.json", named)
    return [found[name] for name in sorted(found)]


def of_workspace(summary: dict[str, Any]) -> Found:
    """A run of this workspace by its summary."""
    folder = run_dir(summary["paper"], summary["experiment"], summary["cell"])
    return Found(WORKSPACE, folder / "summary.json", summary)


def table(which: str, found: Sequence[Found]) -> pd.DataFrame:
    """One of the tables of these runs (`repro.records.tidy`); each row says first where it is from, and whose."""
    return tidy.frame(
        [
            {"origin": each.origin, "paper": each.summary["paper"]} | row
            for each in found
            for row in tidy.rows(which, each.summary)
        ]
    )
