"""Drawing of convergence: training loss against epochs (as the paper plots it), the metric against epochs and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import curves, style

if TYPE_CHECKING:
    import pandas as pd


def draw(points: pd.DataFrame, metric: str, title: str) -> Any:
    """Three panels: loss against epochs, metric against epochs, metric against training time; `points`: `stops`."""
    name, log = f"{style.metric_name(metric)} on the test set", metric in curves.FALLING
    panels = (
        curves.Panel("loss", "epoch", "training loss", "training loss against epochs"),
        curves.Panel("metric", "epoch", name, "metric against epochs", log=log),
        curves.Panel("metric", "train_s", name, "metric against time", log=log),
    )
    return curves.draw(points, panels, title)
