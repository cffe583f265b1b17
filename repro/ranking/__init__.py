"""Which strategy, for a model, on a network: predictions, and measurements of others to hold them against.

recommend(model, bandwidth, workers, ...)   ranked strategies; `text` has the answer in words and as data
candidates.yaml   the strategies that are ranked        cluster.yaml   what is assumed of a cluster
published.yaml    throughputs that others measured
"""

from __future__ import annotations

from typing import Any

__all__ = ["recommend"]


def __getattr__(name: str) -> Any:
    if name != "recommend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from repro.ranking.answer import recommend  # PyTorch, which pages do without

    return recommend
