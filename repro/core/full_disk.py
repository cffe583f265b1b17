"""Finds the full disk for an OSError that names no file."""

from __future__ import annotations

import os

from repro.core.paths import results_root

LEAST = 2**20  # free bytes below which a disk counts as full


def place_of(error: OSError) -> str:
    """The error's file; else those of the results, temporary and shared-memory folders that are on a full disk; else
    the results folder."""
    if error.filename:
        return str(error.filename)
    folders = (str(results_root()), os.environ.get("TMPDIR") or "/tmp", "/dev/shm")
    return (
        " and ".join(folder for folder in dict.fromkeys(folders) if _is_full(folder)) or f"results folder {folders[0]}"
    )


def _is_full(folder: str) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < LEAST
