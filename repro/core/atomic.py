"""Files written so that nothing is ever half there, and is on the disk when the writer goes on."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from repro.core import safe_files


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write to a temporary file beside `path`, then rename: readers see the old content or the new, never a part.

    Both are on the disk when this returns, and so is what was renamed in the same folder before.
    """
    safe_files.replace(path, content.encode() if isinstance(content, str) else content)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring to the disk which files a folder has, under which names; on systems that can do so."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
