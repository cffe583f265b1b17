"""The page of `repro recommend`: the map of the fastest strategies, and predictions beside published throughputs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from repro.answers.claims.stats import format_percent
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.render import template, write_page
from repro.answers.ranking import against, cells, form_errors
from repro.answers.ranking.against import Compared, Contest, Emulated, Intervals
from repro.answers.ranking.calibration import committed_calibration, kept_out
from repro.answers.ranking.candidates import ANY, LIGHT, ROWS, SOURCES, SYNCHRONOUS, read_candidates, tied_names
from repro.answers.ranking.cells import Cell, Placed
from repro.answers.ranking.in_map import describe_pays
from repro.answers.ranking.written import read_written
from repro.core import user_files
from repro.reports.recommend import figures
from repro.reports.recommend.emulated import emulated_shown, format_short

PAGE = "recommend"
ADVICE, SIMPLEST = "what the tool says to use", "always the simplest to use"  # rules
# left-aligned columns
NAMED = ["fastest predicted", "to use", "best measured", "right"]
LEFT = ["fastest proven", "fastest of those ranked"]


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    grid, published = read_written(Cell, "map"), read_written(Compared, "published")
    emulated = read_written(Emulated, "emulated")
    settings = against.find_contests(published)
    groups = {
        "in the fits": [row for row in published if row.source not in kept_out()],
        "kept out": [row for row in published if row.source in kept_out()],
    }
    fitted, kept = (Intervals.of(rows) for rows in groups.values())
    right = rights_of_rules(settings)
    missed = format_percent(against.median_error(groups["kept out"]))
    line = Markdown(
        f"Of measurements by {len(kept_out())} sources that are in no fit (a second score, after the forms changed) "
        f"{kept.inside} of {kept.rows} lie in the 90 % interval, off by {missed} in the median; of "
        f"{len(settings)} published settings its advice is the best, or within 5 % of it, in {sum(right[ADVICE])}; "
        f"always the simplest strategy would be in {sum(right[SIMPLEST])}."
    )
    table = pd.DataFrame([asdict(row) | {"ratio": row.ratio} for row in published])  # samples/s
    contests = against.find_contests(emulated, ANY)
    shown: dict[str, Any] = {
        "line": line,
        "fitted": fitted,
        "kept": kept,
        "fitted_inside": format_percent(fitted.coverage),
        "kept_inside": format_percent(kept.coverage),
        "judged": files.table(judged_table(groups), "judged"),
        "winners": files.table(winners_table(right), "winners", left=["rule"]),
        "forms": files.table(forms_table(), "forms"),
        "rule": {"rows": ROWS, "sources": SOURCES, "light": LIGHT},
        "unproven": list(dict.fromkeys(each.family for each in read_candidates().values() if not each.proven)),
        "unranked": [each.label for each in read_candidates().values() if not each.ranked],
        "residuals": files.table(residuals_table(published), "residuals"),
        "outside": files.table(outside_table(published), "outside", left=["system"]),
        "wrong": files.table(named_table([each for each in settings if not each.is_best(find_advised(each))]), "wrong",
                             left=NAMED),
        "advice": {
            kind: cells.describe_advice(figures.cells_at_a_glance(grid), kind) for kind in (SYNCHRONOUS, ANY)
        },
        "map": figures.map_picture(files, grid),
        "cells": f"{len(grid):,}",
        "borders": {kind: borders(figures.cells_at_a_glance(grid), kind) for kind in (SYNCHRONOUS, ANY)},
        "regions": {kind: tabulate_regions(files, grid, kind) for kind in (SYNCHRONOUS, ANY)},
        "emulated": emulated_shown(files, emulated, contests),
        "headlines": files.table(headlines_table(read_written(Placed, "headlines")), "headlines", left=LEFT),
        "scatter": figures.scatter(files, table),
        "named": files.table(named_table(settings), "named", left=NAMED),
        "published": files.table(shown_rows(table), "published", left=["system", "stands for"]),
        "sources": [
            {"name": name, "kept": name in kept_out()} | entries
            for name, entries in user_files.read_yaml(against.PUBLISHED)["sources"].items()
        ],
    }  # fmt: skip
    text = template(f"{PAGE}/page.md.j2", **shown)
    return write_page(text, PAGE, files), line


def judged_table(groups: dict[str, list[Compared]]) -> pd.DataFrame:
    """Errors and intervals of the sources in the fits, each predicted without itself, and of those kept out."""
    rows = []
    for name, group in groups.items():
        for given, judged in (
            ("", group),
            (", given an own run", [row.by("own_run") for row in group if row.own_run]),
            (", the same rows without it", [row for row in group if row.own_run]),
        ):
            intervals = Intervals.of(judged)
            rows.append(
                {
                    "sources": f"{name}{given}",
                    "rows": str(len(judged)),
                    "from sources": str(len({row.source for row in judged})),
                    "median error": format_percent(against.median_error(judged)),
                    "of the forms alone": format_percent(against.median_error([row.by("form") for row in judged])),
                    "of a formula by hand": format_percent(against.median_error([row.by("formula") for row in judged])),
                    "in the 90 % interval": f"{intervals.inside} of {intervals.rows}",
                    "interval score": f"{intervals.score:.2f}",
                    "median high over low": f"{intervals.width:.2f}",
                }
            )
    return pd.DataFrame(rows)


def rights_of_rules(settings: list[Contest[Compared]]) -> dict[str, list[bool]]:
    """Whether each rule names a best strategy of each setting."""
    order = list(read_candidates())

    def dense(each: Contest[Compared]) -> bool:
        return each.is_best(min(each.rows, key=lambda row: order.index(row.candidate)))

    forms = against.find_contests([row.by("form") for each in settings for row in each.rows])
    return {
        "the fastest prediction": [each.right for each in settings],
        ADVICE: [each.is_best(find_advised(each)) for each in settings],
        "the fastest by the forms alone": [each.right for each in forms],
        SIMPLEST: [dense(each) for each in settings],
    }


def find_advised(each: Contest[Compared]) -> Compared:
    """What the tool says to use: the simplest proven strategy that no other one replaces."""
    order = list(read_candidates())
    proven = [row for row in each.rows if read_candidates()[row.candidate].proven]
    rows = {row.candidate: row for row in sorted(proven, key=lambda row: order.index(row.candidate))}
    names = tied_names({name: row.seconds[1] for name, row in rows.items()}, committed_calibration().lead)
    return rows[names[0]]


def winners_table(rights: dict[str, list[bool]]) -> pd.DataFrame:
    """How often the better strategy is named, by the tool and by other rules."""
    from scipy.stats import binomtest

    rows = []
    for rule, right in rights.items():
        limits = binomtest(sum(right), len(right)).proportion_ci()
        rows.append(
            {
                "rule": rule,
                "right": f"{sum(right)} of {len(right)}",
                "95 % limits": f"{format_percent(limits.low)} to {format_percent(limits.high)}",
            }
        )
    return pd.DataFrame(rows)


def forms_table() -> pd.DataFrame:
    """How far each candidate's form is from its simulation."""
    return pd.DataFrame(
        {
            "strategy": each.label,
            "settings": str(error.cases),
            f"within {format_percent(form_errors.WITHIN)}": format_percent(error.within),
            "nineteen of twenty within": format_percent(error.usual, 1),
            "least": format_percent(error.ends[0], 1),
            "most": format_percent(error.ends[1], 1),
            "ranked": "yes" if each.ranked else "no",
        }
        for each in read_candidates().values()
        if (error := each.form_error)
    )


def residuals_table(published: list[Compared]) -> pd.DataFrame:
    """By how much measured steps are longer than the closed forms'."""
    return pd.DataFrame(
        {
            "source": source,
            "kept out": "yes" if source in kept_out() else "",
            "rows": str(len(rows)),
            **{
                name: format_percent(float(np.expm1(np.quantile([row.error for row in rows], at))))
                for name, at in (("least longer", 0.0), ("median", 0.5), ("most", 1.0))
            },
            "in the 90 % interval": f"{Intervals.of(rows).inside} of {len(rows)}",
        }
        for source in dict.fromkeys(row.source for row in published)
        for rows in [[row for row in published if row.source == source]]
    )


def outside_table(published: list[Compared]) -> pd.DataFrame:
    """The rows outside their intervals."""
    return pd.DataFrame(
        {
            "setting": row.setting,
            "system": row.system,
            "measured": format_short(row.measured),
            "predicted": format_short(row.predicted),
            "interval": f"{format_short(row.low)} to {format_short(row.high)}",
            "predicted over measured": f"{row.ratio:.2f}",
        }
        for row in published
        if not row.low <= row.measured <= row.high
    )


def shown_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The table of published throughputs as text."""
    text = {name: table[name].map(format_short) for name in ("measured", "predicted", "low", "high")}
    text |= {"ratio": table["ratio"].map("{:.2f}".format), "gbit": table["gbit"].map("{:g}".format)}
    hidden = ["source", "load", "form", "formula", "own_run", "own_low", "own_high"]
    shown = table.drop(columns=hidden).astype({"workers": str}).assign(**text)
    return shown.rename(columns={"ratio": "predicted over measured", "gbit": "Gbit/s", "candidate": "stands for"})


def named_table(settings: list[Contest[Compared]]) -> pd.DataFrame:
    """The fastest prediction of each published setting, what the tool says to use, and the best measured strategy."""
    return pd.DataFrame(
        {
            "setting": each.place.setting,
            "fastest predicted": read_candidates()[each.named.candidate].label,
            "to use": read_candidates()[used.candidate].label,
            "best measured": read_candidates()[each.fastest.candidate].label,
            "right": "yes" if each.is_best(used) else "no",
            "to use, of the best": format_percent(used.measured / each.fastest.measured),
        }
        for each in settings
        for used in [find_advised(each)]
    )


def tabulate_regions(files: Files, grid: list[Cell], kind: str) -> Markdown:
    """A table of the regions in which each strategy is to be used."""
    total = sum(cell.kind == kind for cell in grid)
    rows = [
        {
            "use": read_candidates()[region.best].label,
            f"share of all {total:,} cells": format_percent(region.cells / total),
            "Gbit/s": _range(region.gbit),
            "computation : communication": _range(region.ratio),
            "workers": _range(region.workers),
            "late by": _range(region.late),
            "ahead, median": format_percent(region.margin),
        }
        for region in cells.find_regions(grid, kind)
    ]
    return files.table(pd.DataFrame(rows), f"regions-{kind}")


def borders(grid: list[Cell], kind: str) -> list[str]:
    """The longest borders between regions, in words."""
    return [cells.border_words(border) for border in cells.find_borders(grid, kind)[: cells.BORDERS]]


def headlines_table(placed: list[Placed]) -> pd.DataFrame:
    """The papers' headlines in the map, and the bandwidths at which their own strategies pay."""
    return pd.DataFrame(
        {
            "paper": each.paper,
            "setting": f"{each.model}, {each.workers} workers, {each.gbit:.3g} Gbit/s"
            + (f", one late by {format_percent(each.late)}" if each.late else ""),
            "computation : communication": f"{each.ratio:.2g}",
            "its strategy": _timed(each.candidate, each.seconds),
            "fastest proven": _timed(each.synchronous, each.synchronous_s),
            "fastest of those ranked": _timed(each.any, each.any_s),
            "its strategy pays": describe_pays(each.stops_bits)
            if read_candidates()[each.candidate].ranked
            else "not ranked",
        }
        for each in placed
    )


def _timed(name: str, seconds: float) -> str:
    return f"{read_candidates()[name].label}: {1e3 * seconds:,.0f} ms"


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"
