"""What a test set resolves of an accuracy: a share of so many examples has a standard error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.answers.claims.stats import wilson

SHARES = ("top1", "top5")  # metrics that are a share of the test set
ENDS = {"_low": -1, "_high": 1}


def resolved(run: Mapping[str, Any]) -> dict[str, float]:
    """The final accuracy less and plus its standard error: `final_low`, `final_high`; nothing of other metrics."""
    metric, final = run.get("metric"), run.get("final") or {}
    of = (run.get("dataset") or {}).get("test") or 0
    if metric not in SHARES or final.get(metric) is None or not of:
        return {}
    return {f"final{end}": wilson(final[metric], of, sign) for end, sign in ENDS.items()}
