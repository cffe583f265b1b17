"""Finds the full disk for an error of the system that names no file."""

from __future__ import annotations

import os

from repro.core.paths import results_root

LEAST = 2**20  # free bytes below which a disk counts as full


def place_of(error: OSError) -> str:
    """The error's file; else the folders on full disks (results, temporary, shared memory); else the results folder."""
    if error.filename:
        return str(error.filename)
    places = (str(results_root()), os.environ.get("TMPDIR") or "/tmp", "/dev/shm")
    return " and ".join(place for place in dict.fromkeys(places) if _is_full(place)) or f"results folder {places[0]}"


def _is_full(place: str) -> bool:
    try:
        state = os.statvfs(place)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < LEAST
