"""Types hold: mypy as `pyproject.toml` sets it, over what stands there as `files`."""

from pathlib import Path

from mypy import api

PROJECT = Path(__file__).parents[3]


def test_types_hold(monkeypatch):
    monkeypatch.chdir(PROJECT)  # where the variants are, and .mypy_cache: the second time is quick
    report, errors, status = api.run([])
    assert status == 0, report + errors
