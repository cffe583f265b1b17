"""Tests that authors of plugins subclass in test files of their own, and seeded faults on real runs.

`StrategyConformance` needs pytest, which nothing else of ours imports.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "StrategyConformance":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import pytest

    pytest.register_assert_rewrite("repro.testing.strategies", "repro.testing.small")  # a failure shows the values
    from repro.testing.strategies import StrategyConformance

    return StrategyConformance
