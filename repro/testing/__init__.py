"""Conformance tests that authors of plugins subclass, and seeded faults on real runs.

`StrategyConformance` needs pytest, which nothing else in `repro` imports.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "StrategyConformance":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import pytest

    pytest.register_assert_rewrite("repro.testing.strategies", "repro.testing.small")  # failures show values
    from repro.testing.strategies import StrategyConformance

    return StrategyConformance
