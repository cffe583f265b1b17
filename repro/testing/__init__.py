"""Tests that authors of plugins subclass in test files of their own. It needs pytest; nothing of ours imports it."""

import pytest

pytest.register_assert_rewrite("repro.testing.strategies", "repro.testing.small")  # a failure shows the values

from repro.testing.strategies import StrategyConformance  # noqa: E402

__all__ = ["StrategyConformance"]
