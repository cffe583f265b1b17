"""The fixture of tests of a user's own files."""

from __future__ import annotations

import sys

import pytest

from repro import data, models
from repro.core import own_code
from tests.support import own_files


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The current folder, with a user's own files."""
    own_files.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(own_code, "_admitted", set())
    monkeypatch.setattr(own_code, "_folders", set())
    models._on_meta.cache_clear()
    yield tmp_path
    data.forget_dataset()
    for name in own_files.MODULES:
        sys.modules.pop(name, None)
