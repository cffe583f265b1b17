"""Selecting k gradients, exact and by a sampled threshold, against torch.topk and an iteration (Table VI).

The same measurement as program `selection` (repro/probes/selection.py), which makes the paper's Figure 11.
"""

from __future__ import annotations

from typing import Any

import torch

from repro.bench.goals import Goal
from repro.probes import selection

# of gTop-k: parameters, published seconds of an iteration
MODELS = {"ResNet-20": (269_722, 0.146), "VGG-16": (14_728_266, 0.097), "AlexNet": (60_965_224, 0.369)}
DENSITY, TURNS = 0.001, 3
EXACT = Goal("exact selection over torch.topk's time", 0.5)


def measure(
    models: dict[str, tuple[int, float]] = MODELS, density: float = DENSITY, turns: int = TURNS
) -> dict[str, Any]:
    """{threads, density, rows: [{model, device, elements, k, method, seconds, selected, found, iteration_s, share}],
    against_goals}.

    On one thread, and on a GPU where torch sees one.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    devices = [torch.device("cpu"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]
    try:
        rows = [
            {"model": model, "device": selection.describe(device), "iteration_s": iteration_s}
            | row
            | {"share": row["seconds"]["median"] / iteration_s}
            for device in devices
            for model, (elements, iteration_s) in models.items()
            for row in selection.measure(elements, density, device, list(selection.METHODS), turns)
        ]
    finally:
        torch.set_num_threads(threads)
    return {"threads": 1, "density": density, "rows": rows, "against_goals": goals(rows)}


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each gradient on the CPU: the least seconds of both."""
    least = {(row["model"], row["method"]): row["seconds"]["min"] for row in rows if row["device"].startswith("cpu")}
    return [
        EXACT._replace(what=f"{EXACT.what}, {model}").of(seconds / least[model, selection.WHOLE])
        for (model, method), seconds in least.items()
        if method == "exact"
    ]


def table(result: dict[str, Any]) -> str:
    lines = [f"selecting {result['density']:.1%} of the gradients: ms, share of Table VI's iteration, found"]
    for device in dict.fromkeys(row["device"] for row in result["rows"]):
        lines.append(f"  {device}")
        for row in [one for one in result["rows"] if one["device"] == device]:
            lines.append(
                f"  {row['model']:10}{row['elements']:>12} {row['method']:12}{1e3 * row['seconds']['median']:>10.2f}"
                f"{row['share']:>9.1%}{row['found'] / row['k']:>9.1%}"
            )
    return "\n".join(lines)
