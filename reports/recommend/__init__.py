"""Which strategy, on which network: the map, and the tool held against throughputs that others measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from repro.answers.pages.files import Files
from repro.answers.pages.render import template, write_page
from repro.recommend import draws, headlines, published
from repro.recommend import map as maps
from repro.recommend.candidates import ANY, SYNCHRONOUS, every
from repro.reports.recommend import figures

PAGE = "recommend"
MAP = Path(__file__).with_name("map.csv")  # of `repro map --out reports/recommend/map.csv`


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    cells = maps.from_csv(MAP.read_text(encoding="utf-8"))
    compared = [(one, published.compare(one)) for one in published.settings()]
    every_row = [row for _, rows in compared for row in rows]
    judged = [found for _, rows in compared if (found := published.judge(rows))]
    right, error = sum(one.right for one in judged), published.error(every_row)
    line = (
        f"Of {len(judged)} published settings the tool names the better strategy in {right}; its throughputs are off "
        f"by {error:.0%} in the median of {len(every_row)}."
    )
    less = draws.ratio_error()
    table = published_table(every_row)
    checked = [cell for cell in cells if cell.by == "simulation"]
    shown: dict[str, Any] = {
        "line": line,
        "right": right,
        "settings": len(judged),
        "error": f"{error:.0%}",
        "rows": len(every_row),
        "less": f"{less:.0%}",
        "cells": len(cells) // 2,
        "checked": len(checked),
        "agree": sum(cell.agrees for cell in checked),
        "synchronous": figures.map_picture(files, cells, SYNCHRONOUS, less),
        "any": figures.map_picture(files, cells, ANY, less),
        "regions": {kind: regions(files, cells, kind, less) for kind in (SYNCHRONOUS, ANY)},
        "headlines": files.table(headlines_table(), "headlines", left=["fastest, synchronous", "fastest of all"]),
        "scatter": figures.scatter(files, table),
        "named": files.table(named_table(judged), "named", left=["named by the tool", "best measured", "right"]),
        "published": files.table(shown_rows(table), "published", left=["system", "stands for"]),
        "sources": [{"name": name} | of for name, of in published.sources().items()],
        "misses": len(judged) - right,
    }
    text = template(f"{PAGE}/page.md.j2", **shown)
    return write_page(text, PAGE, files), line


def published_table(rows: list[published.Compared]) -> pd.DataFrame:
    """A row a published throughput, samples/s."""
    return pd.DataFrame(
        {
            "setting": row.setting.id,
            "model": row.setting.model,
            "workers": row.setting.workers,
            "Gbit/s": row.setting.goodput_gbit or row.setting.line_gbit,
            "system": row.measured.system,
            "stands for": published.OF[row.measured.strategy],
            "measured": row.measured.per_s,
            "predicted": row.predicted,
            "low": row.low,
            "high": row.high,
            "ratio": row.ratio,
        }
        for row in rows
    )


def shown_rows(table: pd.DataFrame) -> pd.DataFrame:
    shown = table.astype({"workers": str})
    for name in ("measured", "predicted", "low", "high"):
        shown[name] = [f"{value:,.0f}" for value in table[name]]
    shown["ratio"] = [f"{value:.2f}" for value in table["ratio"]]
    shown["Gbit/s"] = [f"{value:g}" for value in table["Gbit/s"]]
    return shown.rename(columns={"ratio": "predicted over measured"})


def named_table(judged: list[published.Judged]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "setting": one.setting.id,
            "named by the tool": every()[published.OF[one.named.measured.strategy]].label,
            "best measured": every()[published.OF[one.best.measured.strategy]].label,
            "right": "yes" if one.right else "no",
            "measured, of the best": f"{one.named.measured.per_s / one.best.measured.per_s:.0%}",
        }
        for one in judged
    )


def regions(files: Files, cells: list[maps.Cell], kind: str, less: float) -> str:
    """A table of where which strategy is the fastest."""
    total = sum(cell.kind == kind for cell in cells)
    rows = [
        {
            "fastest": every()[region.best].label,
            "share of the map": f"{region.cells / total:.0%}",
            "Gbit/s": _range(region.gbit),
            "computation : communication": _range(region.ratio),
            "workers": _range(region.workers),
            "late by": _range(region.late),
            "ahead, median": f"{region.margin:.0%}{'' if region.margin > less else ', within the error'}",
        }
        for region in maps.regions(cells, kind)
    ]
    return files.table(pd.DataFrame(rows), f"regions-{kind}")


def headlines_table() -> pd.DataFrame:
    """Where the papers' headlines lie, and from which bandwidth on their own strategies stop paying."""
    rows = []
    for found in map(headlines.placed, headlines.EVERY):
        head, own = found.headline, every()[found.headline.candidate].label
        until = "never here" if found.stops_bits is None else f"up to {found.stops_bits / 1e9:.0f} Gbit/s"
        rows.append(
            {
                "paper": head.paper,
                "setting": f"{found.model}, {head.workers} workers, {found.gbit:.3g} Gbit/s",
                "computation : communication": f"{found.ratio:.2g}",
                "its strategy": f"{own}: {1e3 * found.seconds:,.0f} ms",
                "fastest, synchronous": _timed(found.synchronous),
                "fastest of all": _timed(found.any),
                "its strategy pays": "at any bandwidth" if found.stops_bits == float("inf") else until,
            }
        )
    return pd.DataFrame(rows)


def _timed(best: tuple[str, float]) -> str:
    return f"{every()[best[0]].label}: {1e3 * best[1]:,.0f} ms"


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"
