"""The part of the page about emulated runs: the closed forms beside them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from repro.answers.claims.stats import format_percent
from repro.answers.pages.files import Files
from repro.answers.ranking.against import Contest, Emulated
from repro.answers.ranking.candidates import read_candidates
from repro.reports.recommend import figures


def emulated_shown(files: Files, rows: list[Emulated], contests: list[Contest[Emulated]]) -> dict[str, Any]:
    """The closed forms beside emulated runs: numbers for the text, a picture, two tables."""
    table = pd.DataFrame([asdict(row) | {"off": row.off} for row in rows])
    pairs = [right for each in contests for right in each.pairs]
    away = (table["off"] - 1).abs()
    worst = table[away > figures.BAND].groupby(["candidate", "model"], sort=False)["off"].median()
    return {
        "rows": len(rows),
        "places": len(contests),
        "right_places": sum(each.right for each in contests),
        "pairs": len(pairs),
        "right": sum(pairs),
        "error": format_percent(away.median(), 1),
        "worst": [f"{read_candidates()[name].label}, {model}: x{off:.2f}" for (name, model), off in worst.items()],
        "scatter": figures.emulated_scatter(files, table),
        "named": files.table(
            contests_table(contests), "emulated-named", left=["named by the forms", "fastest emulated"]
        ),
        "table": files.table(emulated_rows(rows), "emulated-rows", left=["strategy"]),
    }


def contests_table(contests: list[Contest[Emulated]]) -> pd.DataFrame:
    """The strategy that the closed forms name for each emulated setting, and the fastest emulated one."""
    return pd.DataFrame(
        {
            "experiment": f"{each.place.paper}/{each.place.experiment}",
            "setting": _setting(each.place),
            "strategies": len(each.rows),
            "named by the forms": f"{read_candidates()[each.named.candidate].label} ({each.named.variant})",
            "fastest emulated": f"{read_candidates()[each.fastest.candidate].label} ({each.fastest.variant})",
            "right": "yes" if each.right else "no",
            "pairs right": f"{sum(each.pairs)} of {len(each.pairs)}",
        }
        for each in contests
    )


def emulated_rows(rows: list[Emulated]) -> pd.DataFrame:
    """Emulated and predicted milliseconds of an iteration."""
    return pd.DataFrame(
        {
            "experiment": f"{row.paper}/{row.experiment}",
            "variant": row.variant,
            "setting": _setting(row),
            "strategy": read_candidates()[row.candidate].label,
            "emulated, ms": format_short(1e3 * row.emulated_s),
            "forms, ms": format_short(1e3 * row.predicted_s),
            "forms over emulated": f"{row.off:.2f}",
        }
        for row in rows
    )


def format_short(value: float) -> str:
    """Three digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _setting(row: Emulated) -> str:
    late = f", one late by {format_percent(row.late)}" if row.late else ""
    return f"{row.model}, {row.workers} workers, {row.gbit:.3g} Gbit/s, ratio {row.ratio:.2g}{late}"
