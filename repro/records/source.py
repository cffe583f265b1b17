"""The commit of a copy of the checkout that has no git, and whether the copy was changed.

`python -m repro.records.source FILE` writes a manifest from git's data, which the copy has as `.source.json`:
{commit, files: path -> git's digest of the file in that commit}. `setup/gpu-bundle.sh` makes such copies.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from repro.core import user_files
from repro.core.paths import PROJECT

NAME = ".source.json"
WRITTEN = ("results", "reports/out")  # by runs; no part of the code
IGNORED = ("__pycache__", ".egg-info")  # suffixes of folders that git ignores too


def manifest(root: Path) -> str:
    """The manifest of the commit checked out in `root`, as JSON; CalledProcessError if git has none."""
    git = "git", "-c", f"safe.directory={root}", "-C", str(root)
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", "HEAD"], capture_output=True, text=True, check=True).stdout
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    files = {path: kind.split()[2] for kind, _, path in entries if not _written(path)}
    return json.dumps({"commit": commit, "files": files}, indent=0)


def standing(root: Path = PROJECT) -> tuple[str | None, bool | None]:
    """(commit, dirty) from the copy's manifest; (None, None) without a readable one."""
    try:
        content = user_files.parse_json((root / NAME).read_bytes())
        commit, files = str(content["commit"]), dict(content["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, None
    changed = any(_digest(root / path, len(blob)) != blob for path, blob in files.items())
    return commit, changed or any(path not in files for path in _present(root, files))


def _digest(path: Path, digits: int) -> str | None:
    """Git's digest of a file, or of a link's target: SHA-1, or SHA-256 in newer repositories."""
    try:
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
    except OSError:
        return None
    head = f"blob {len(content)}\0".encode()
    return hashlib.new("sha1" if digits == 40 else "sha256", head + content, usedforsecurity=False).hexdigest()


def _present(root: Path, files: dict[str, str]) -> Iterator[str]:
    """The files in the folders of the commit, relative to the root."""
    for folder in sorted({path.partition("/")[0] for path in files if "/" in path}):
        for place, inner, names in os.walk(root / folder):
            inner[:] = [name for name in inner if not name.endswith(IGNORED)]
            links = [name for name in inner if Path(place, name).is_symlink()]
            for name in (*names, *links):
                path = Path(place, name).relative_to(root).as_posix()
                if not (_written(path) or name.endswith(".pyc")):
                    yield path


def _written(path: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in WRITTEN)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(manifest(PROJECT), encoding="utf-8")
