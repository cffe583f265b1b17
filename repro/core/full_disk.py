"""Which of the places that commands write to has no room left, where the system's error does not say."""

from __future__ import annotations

import os

from repro.core.paths import results_root

LEAST = 2**20  # bytes: with less a place counts as full


def place_of(error: OSError) -> str:
    """The file of an error; else the folders that are full: results, temporary files, shared memory; else the first."""
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
