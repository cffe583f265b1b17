"""The commits that published runs name and that the history no longer has: they were rebased before they landed.

`results/reference/rebased_commits.json` lists them. `repro verify --write` asks git for them, because
pages are also built where there is no history.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from repro.core.atomic import write_atomically
from repro.core.paths import PROJECT, reference_root
from repro.records import reference

FILE = "rebased_commits.json"


def read_rebased(root: Path | None = None) -> frozenset[str]:
    """The listed commits; none without the list. root: of the reference."""
    path = (root or reference_root()) / FILE
    return frozenset(json.loads(path.read_bytes())) if path.is_file() else frozenset()


def write_rebased(root: Path | None = None, checkout: Path = PROJECT) -> None:
    """Write the list; it stays as it is where git is missing or knows a part of the history only."""
    git = "git", "-c", f"safe.directory={checkout}", "-C", str(checkout)
    try:
        asked = [
            subprocess.run([*git, *command], capture_output=True, text=True, check=True).stdout.split()
            for command in (("rev-parse", "--is-shallow-repository"), ("rev-list", "HEAD"))
        ]
    except (OSError, subprocess.CalledProcessError):
        return
    if asked[0] != ["false"]:
        return
    every = [run for paper in reference.papers(root) for run in reference.read(paper, root)]
    gone = {str(run.provenance["commit"]) for run in every if run.provenance.get("commit")} - set(asked[1])
    write_atomically((root or reference_root()) / FILE, json.dumps(sorted(gone), indent=0) + "\n")
