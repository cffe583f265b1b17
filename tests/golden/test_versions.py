"""A change of code raises a version or changes no number, and says which."""

from __future__ import annotations

from repro.experiment import versions
from tests.golden import rows


def test_a_part_whose_code_changed_was_seen_to():
    now, known = versions.project_digests(), versions.read_lock()
    wrong = [part for part, digest in now.items() if part not in known or known[part].digest != digest]
    left = known.keys() - now.keys()
    assert not wrong and not left, "raise the versions of parts whose numbers change, then: make versions"


def test_golden_rows_are_the_same():
    _, stored = rows.read()
    assert stored
    assert rows.changed(rows.compute()) == {}
