"""Predicts which strategy is fastest for a model on a network, and compares the predictions with others' measurements.

recommend(model, bandwidth, workers, ...)   rank the strategies; `text` formats the answer as words or plain data
candidates.yaml   the ranked strategies                 cluster.yaml   assumptions about a cluster
published.yaml    throughputs that others measured
"""

from __future__ import annotations

from typing import Any

__all__ = ["recommend"]


def __getattr__(name: str) -> Any:
    if name != "recommend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from repro.answers.ranking.answer import recommend  # imports PyTorch, which pages do without

    return recommend
