"""The page of the validation: observed step times beside simulated ones of the same configuration."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from repro.answers.claims.residuals import validation_runs
from repro.answers.claims.stats import format_number, format_percent
from repro.answers.figures.looks import display_name
from repro.answers.figures.specification import Shown
from repro.answers.figures.specs import Specs
from repro.answers.pages import provenance
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.render import template, write_page
from repro.records import catalogue
from repro.records.variants import newest, place_and_seed
from repro.reports.validation import emulated, tables

PAGE = "validation"
GROUPED = ("experiment", "testbed", "launcher")
MADE_WITH = ("hardware", "results", "commit", "torch", "finished")


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    runs = catalogue.runs(PAGE, results)
    validated = sorted(validation_runs(runs), key=tables.order_of)
    controls = newest((run for run in runs if run.identity.trains), place_and_seed)
    sharing = newest((run for run in runs if run.identity.program == "shares"), place_and_seed)
    steps, pairs = tables.steps(validated), emulated.pairs(controls)
    counted = tables.counted(steps)
    made = {
        "steps": steps,
        "by experiment": tables.errors(steps, ["experiment"]),
        "by strategy": tables.errors(counted, ["strategy"]),
        "by workers": tables.errors(counted, ["workers"]),
        "ratios of steps": tables.ratios(steps),
        "slowed": tables.slowed(steps),
        "worst": tables.worst(steps),
        "emulated": tables.errors(pairs, ["experiment", "workers"]),
        "pairs": pairs,
        "ratios": emulated.ratios(controls),
        "shares": emulated.shares(sharing),
        "provenance": provenance.table(provenance.group_by(GROUPED, [*validated, *controls, *sharing]), MADE_WITH),
    }
    factors = {"buffers": "buffer", "spreads": "spread", "servers": "slower"}
    made |= {name: emulated.by_factor(controls, factor) for name, factor in factors.items()}

    def rows(shown: Shown) -> pd.DataFrame:
        """A table; columns `by ...` of runs that do not exist yet are empty."""
        table = made[shown.table]
        lacking = [name for name in getattr(shown, "columns", ()) if name.startswith("by ") and name not in table]
        return table.assign(**dict.fromkeys(lacking, float("nan"))) if len(table) else table

    specs = Specs(PAGE, files, rows)
    line = describe_error(tables.errors(counted, []).to_dict("records"))
    if len(counted):
        most = counted["workers"].max()
        line += Markdown(f" They have at most {most} workers; on clusters of more the error is an extrapolation.")
    shown = {name: len(made[name]) for name in ("slowed", "shares", *factors)}
    shown |= {"misses": len(made["worst"]), "controls": len(controls), "groups": describe_groups(counted)}
    shown["longest"] = format_number(1 / (1 + counted["error"].min() / 100), 2) if len(counted) else "?"
    goals = {
        "median": format_percent(tables.MEDIAN_GOAL),
        "p95": format_percent(tables.P95_GOAL),
        "later": later(steps),
    }
    made_of = {"figure": specs.figure, "table": specs.table, "line": line}
    pages = {PAGE: "page", f"{PAGE}-details": "details"}
    texts = {name: template(f"{PAGE}/{each}.md.j2", **made_of, **shown, **goals) for name, each in pages.items()}
    return [path for name, text in texts.items() for path in write_page(text, name, files)], line


def describe_error(every: list[dict]) -> Markdown:
    """The error of simulated step times, and whether it meets the goal."""
    if not every:
        return Markdown(f"No results yet: `repro run {PAGE}` makes them.")
    (row,) = every
    of_goals = (("median", tables.MEDIAN_GOAL), ("p95", tables.P95_GOAL))
    met = " and ".join(
        f"{format_percent(goal)} {'met' if row[name] < 100 * goal else 'missed'}" for name, goal in of_goals
    )
    return Markdown(
        f"Simulated step times are off by {row['median']:.1f} % in the median and {row['p95']:.1f} % in the 95th "
        f"percentile of {row['times']} cases (goals: {met})."
    )


def describe_groups(steps: pd.DataFrame) -> Markdown:
    """`**Horovod**: D-Sync, Horovod; ...`: the strategies of each experiment, as pictures call them."""
    named = steps.groupby("experiment", sort=False)["strategy"] if len(steps) else ()
    groups = {name: dict.fromkeys(strategies) for name, strategies in named}
    return Markdown(
        "; ".join(
            f"**{display_name(name)}**: {', '.join(map(display_name, strategies))}"
            for name, strategies in groups.items()
        )
    )


def later(steps: pd.DataFrame) -> str:
    """Whether the goals that were set later are met."""
    ratios = tables.ratios(steps)
    if ratios.empty:
        return ""
    (row,) = tables.errors(tables.counted(steps), []).to_dict("records")
    ratio = ratios.to_dict("records")[-1]
    times = row["median"] < 100 * tables.LATER_MEDIAN_GOAL and row["p95"] < 100 * tables.LATER_P95_GOAL
    word = ("missed", "met")
    return (
        f"A later goal of {format_percent(tables.LATER_MEDIAN_GOAL)} and {format_percent(tables.LATER_P95_GOAL)} is "
        f"{word[times]}. "
        f"The goal that 95 % of the ratios of two strategies' steps are within {format_percent(tables.RATIO_GOAL)} is "
        f"{word[ratio['met'] == 'yes']}: of {ratio['ratios']:,} ratios half are within {ratio['median']:.1f} %, 95 % "
        f"within {ratio['p95']:.1f} %."
    )
