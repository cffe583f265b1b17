"""What tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Results and reports of the test's own."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "reports"))
