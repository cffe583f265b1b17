"""Learning curves as pictures of a page: metric against time and against epochs, and where they come from."""

from __future__ import annotations

from repro.reports.page import Files, Picture

from repro.reporting.stats import DASH
from repro.reports import curves, tables
from repro.reports.groups import Group, length
from repro.reports.section_figure4 import band
from repro.reports.style import metric_name


def where(group: Group) -> str:
    """Data set, length and place."""
    standin = " (stand-in data: accuracies are not the paper's)" if group.standin else ""
    return f"{group.first['dataset']['name']}{standin}, {length(group)}, {tables.hardware(group)}"


def learning(group: Group, what: str, name: str, files: Files) -> Picture:
    """Metric against time and against epochs."""
    points = curves.stops(group)
    metric = f"{metric_name(group.metric)} on the test set"
    log = group.metric in curves.FALLING
    panels = [curves.Panel("metric", "train_s", metric, "against time", log=log),
              curves.Panel("metric", "epoch", metric, "against epochs", log=log)]  # fmt: skip
    caption = f"{what}, **{group.kind}** ({where(group)}): median line, {band(group)}, a point for each seed's stop."
    drawn = curves.draw(points, panels, f"{what} {DASH} {group.kind.upper()}: {where(group)}")
    return files.picture(drawn, name, f"{what}, {group.kind}", caption, {"curves": points})
