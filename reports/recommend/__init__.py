"""The page of `repro recommend`: the map of the fastest strategies, and predictions beside published throughputs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from repro.answers.claims.stats import format_percent
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.render import template, write_page
from repro.answers.ranking import against, cells
from repro.answers.ranking.against import Compared, Contest, Emulated
from repro.answers.ranking.candidates import ANY, SYNCHRONOUS, read_candidates
from repro.answers.ranking.cells import Cell, Placed
from repro.answers.ranking.in_map import describe_pays, read_written
from repro.core import user_files
from repro.reports.recommend import figures

PAGE = "recommend"
LEFT = ["fastest, synchronous", "fastest of all"]  # left-aligned columns


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    grid, published = read_written(Cell, "map"), read_written(Compared, "published")
    emulated = read_written(Emulated, "emulated")
    settings, less = against.find_contests(published), cells.ratio_error()
    right, error = sum(each.right for each in settings), against.median_error(published)
    line = Markdown(
        f"Of {len(settings)} published settings the tool names the better strategy in {right}; its throughputs are off "
        f"by {format_percent(error)} in the median of {len(published)}."
    )
    table = pd.DataFrame([asdict(row) | {"ratio": row.ratio} for row in published])  # samples/s
    contests = {kind: against.find_contests(emulated, kind) for kind in (SYNCHRONOUS, ANY)}
    checked = [cell for cell in grid if cell.by == "simulation"]
    shown: dict[str, Any] = {
        "line": line,
        "right": right,
        "settings": len(settings),
        "error": format_percent(error),
        "rows": len(published),
        "less": format_percent(less),
        "cells": len(grid) // 2,
        "checked": len(checked),
        "agree": sum(cell.agrees for cell in checked),
        "synchronous": figures.map_picture(files, grid, SYNCHRONOUS, less, contests[SYNCHRONOUS]),
        "any": figures.map_picture(files, grid, ANY, less, contests[ANY]),
        "regions": {kind: regions(files, grid, kind, less) for kind in (SYNCHRONOUS, ANY)},
        "borders": {kind: borders(grid, kind) for kind in (SYNCHRONOUS, ANY)},
        "emulated": emulated_shown(files, emulated, contests[ANY]),
        "headlines": files.table(headlines_table(read_written(Placed, "headlines")), "headlines", left=LEFT),
        "scatter": figures.scatter(files, table),
        "named": files.table(named_table(settings), "named", left=["named by the tool", "best measured", "right"]),
        "published": files.table(shown_rows(table), "published", left=["system", "stands for"]),
        "sources": [
            {"name": name} | entries for name, entries in user_files.read_yaml(against.PUBLISHED)["sources"].items()
        ],
        "misses": len(settings) - right,
    }
    text = template(f"{PAGE}/page.md.j2", **shown)
    return write_page(text, PAGE, files), line


def shown_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The table of published throughputs as text."""
    text = {name: table[name].map(_short) for name in ("measured", "predicted", "low", "high")}
    text |= {"ratio": table["ratio"].map("{:.2f}".format), "gbit": table["gbit"].map("{:g}".format)}
    shown = table.drop(columns="source").astype({"workers": str}).assign(**text)
    return shown.rename(columns={"ratio": "predicted over measured", "gbit": "Gbit/s", "candidate": "stands for"})


def named_table(settings: list[Contest[Compared]]) -> pd.DataFrame:
    """The strategy that the tool names for each published setting, and the best measured one."""
    return pd.DataFrame(
        {
            "setting": each.place.setting,
            "named by the tool": read_candidates()[each.named.candidate].label,
            "best measured": read_candidates()[each.fastest.candidate].label,
            "right": "yes" if each.right else "no",
            "measured, of the best": format_percent(each.named.measured / each.fastest.measured),
        }
        for each in settings
    )


def regions(files: Files, grid: list[Cell], kind: str, less: float) -> Markdown:
    """A table of the regions in which each strategy is the fastest."""
    total = sum(cell.kind == kind for cell in grid)
    rows = [
        {
            "fastest": read_candidates()[region.best].label,
            "share of the map": format_percent(region.cells / total),
            "Gbit/s": _range(region.gbit),
            "computation : communication": _range(region.ratio),
            "workers": _range(region.workers),
            "late by": _range(region.late),
            "ahead, median": format_percent(region.margin) + ("" if region.margin > less else ", within the error"),
        }
        for region in cells.find_regions(grid, kind)
    ]
    return files.table(pd.DataFrame(rows), f"regions-{kind}")


def borders(grid: list[Cell], kind: str) -> list[str]:
    """The longest borders between regions, in words."""
    return [cells.border_words(border) for border in cells.find_borders(grid, kind)[: cells.BORDERS]]


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
            "emulated, ms": _short(1e3 * row.emulated_s),
            "forms, ms": _short(1e3 * row.predicted_s),
            "forms over emulated": f"{row.off:.2f}",
        }
        for row in rows
    )


def _short(value: float) -> str:
    """Three digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _setting(row: Emulated) -> str:
    late = f", one late by {format_percent(row.late)}" if row.late else ""
    return f"{row.model}, {row.workers} workers, {row.gbit:.3g} Gbit/s, ratio {row.ratio:.2g}{late}"


def headlines_table(placed: list[Placed]) -> pd.DataFrame:
    """The papers' headlines in the map, and the bandwidths at which their own strategies pay."""
    return pd.DataFrame(
        {
            "paper": each.paper,
            "setting": f"{each.model}, {each.workers} workers, {each.gbit:.3g} Gbit/s",
            "computation : communication": f"{each.ratio:.2g}",
            "its strategy": _timed(each.candidate, each.seconds),
            "fastest, synchronous": _timed(each.synchronous, each.synchronous_s),
            "fastest of all": _timed(each.any, each.any_s),
            "its strategy pays": describe_pays(each.stops_bits),
        }
        for each in placed
    )


def _timed(name: str, seconds: float) -> str:
    return f"{read_candidates()[name].label}: {1e3 * seconds:,.0f} ms"


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"
