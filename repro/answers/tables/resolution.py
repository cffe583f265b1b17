"""What a test set resolves of an accuracy: a share of so many examples has a standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from repro.answers.claims.evaluate import Outcome
from repro.answers.tables.groups import Group
from repro.answers.tables.loading import Summary

SHARES = ("top1", "top5")  # metrics that are a share of the test set
ENDS = {"_low": -1, "_high": 1}
MOST = 4  # variants that a function of accuracies compares


def resolved(run: Mapping[str, Any]) -> dict[str, float]:
    """The final accuracy less and plus its standard error: `final_low`, `final_high`; nothing of other metrics."""
    metric, final = run.get("metric"), run.get("final") or {}
    if metric not in SHARES or final.get(metric) is None or not _examples(run):
        return {}
    return {f"final{end}": wilson(final[metric], _examples(run), sign) for end, sign in ENDS.items()}


def wilson(share: float, examples: int, sign: float) -> float:
    """An end of Wilson's score interval, which has a width also where all examples, or none, are right."""
    half = math.sqrt(share * (1 - share) / examples + 1 / (4 * examples**2))
    return (share + 1 / (2 * examples) + sign * half) / (1 + 1 / examples)


def of_function(compute: Callable[[Group], Outcome], group: Group) -> list[float]:
    """What a function makes of final accuracies that are each at an end of what the test set resolves."""
    compute(fresh := _with(group, {}))
    asked = sorted(name for name in fresh.asked if any(map(_examples, group.runs(name).values())))
    if not asked or len(asked) > MOST:
        return []
    corners = (dict(zip(asked, signs)) for signs in product(ENDS.values(), repeat=len(asked)))
    return [value for signs in corners for value in compute(_with(group, signs)).values.values()]


def _with(group: Group, signs: Mapping[str, int]) -> Group:
    runs = (_at(run, signs.get(run["variant"], 0)) for run in group.summaries)
    return Group(group.key, tuple(runs), group.variants)


def _at(run: Summary, sign: int) -> Summary:
    if not sign or not (examples := _examples(run)):
        return run
    final = {
        name: wilson(value, examples, sign) if name in SHARES and value is not None else value
        for name, value in run["final"].items()
    }
    return run | {"final": final}


def _examples(run: Mapping[str, Any]) -> int:
    return (run.get("dataset") or {}).get("test") or 0
