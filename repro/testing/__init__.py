"""`StrategyConformance`, the tests that authors of strategies subclass, and small runs of strategies for other tests.

Only `StrategyConformance` needs pytest.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "StrategyConformance":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import pytest

    pytest.register_assert_rewrite("repro.testing.strategies", "repro.testing.small")  # failures show values
    from repro.testing.strategies import StrategyConformance

    return StrategyConformance
