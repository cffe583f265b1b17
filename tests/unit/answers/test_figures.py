"""Figures and tables as specifications: what is drawn is what the rows say."""

from __future__ import annotations

import math
from itertools import pairwise, product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import yaml

from repro.answers.claims import verdict
from repro.answers.figures import drawing, looks
from repro.answers.figures import specification as figures
from repro.answers.figures.forest import draw_forest
from repro.answers.pages.writing import lay_out
from repro.core.errors import InputError
from repro.core.paths import REPORTS
from repro.reports.recommend.figures import COLOURS
from tests.reports.data.readable import unreadable
from tests.support.contrast import contrast

CELLS = product(("emulated", "simulated"), (("A", 0.5), ("B", 1.0)), (0, 1, 2))
ROWS = pd.DataFrame(
    [(kind, variant, seed, of * (1 + seed) * (2 if kind == "simulated" else 1)) for kind, (variant, of), seed in CELLS],
    columns=["kind", "variant", "seed", "step_s"],
)
FIGURE = {"title": "Steps", "alt": "Bars", "kind": "bar", "table": "runs", "x": "step_s", "y": "variant", "hue": "kind",
          "labels": {"step_s": "seconds"}}  # fmt: skip
TABLE = {"title": "T", "table": "runs"}


def file(tmp_path, **content):
    path = tmp_path / "figures.yaml"
    path.write_text(yaml.safe_dump(content))
    return figures.read(path)


def figure(tmp_path, **changes):
    return file(tmp_path, figures={"steps": FIGURE | changes}).figures["steps"]


def drawn(spec, rows=ROWS):
    made = drawing.draw_figure(spec, figures.rows(spec, rows))
    plt.close(made)
    return made


def test_bars_are_medians_over_seeds(tmp_path):
    made = drawn(figure(tmp_path))
    lengths = sorted(bar.get_width() for bar in made.axes[0].patches if bar.get_width())
    assert lengths == pytest.approx([1.0, 2.0, 2.0, 4.0])
    assert made.axes[0].get_xlabel() == "seconds"
    assert [text.get_text() for text in made.legends[0].get_texts()] == ["emulated", "simulated"]


@pytest.mark.parametrize("kind", ["bar", "dot", "stack"])
def test_names_on_the_axis_of_numbers_are_told_with_the_figure(tmp_path, kind):
    with pytest.raises(InputError, match="figure 'Steps': x: variant has names"):
        figures.rows(figure(tmp_path, kind=kind, x="variant", y="step_s"), ROWS)


@pytest.mark.parametrize("width", [looks.WIDTH, looks.NARROW])
def test_a_stack_adds_up(tmp_path, width):
    spec = figure(tmp_path, kind="stack", labels={})
    made = drawing.draw_figure(spec, figures.rows(spec, ROWS), width)
    plt.close(made)
    ends = sorted(bar.get_x() + bar.get_width() for bar in made.axes[0].patches)
    assert ends == pytest.approx([1.0, 2.0, 3.0, 6.0])
    assert [each.get_text() for each in made.axes[0].get_yticklabels()] == ["A", "B"]


@pytest.mark.parametrize("width", [looks.WIDTH, looks.NARROW])
def test_a_shared_axis_of_time_ends_with_the_last_box_of_all_panels(tmp_path, width):
    rows = pd.DataFrame([["A", "pull", 0.0, 4.0], ["B", "pull", 0.0, 3.0]], columns=["mode", "line", "start", "end"])
    named = {"x": "start", "end": "end", "y": "line", "hue": "line", "row": "mode", "labels": {}}
    spec = figure(tmp_path, kind="gantt", **named)
    made = drawing.draw_figure(spec, figures.rows(spec, rows), width)
    plt.close(made)
    assert {axis.get_xlim()[1] for axis in made.axes} == {4.0}


@pytest.mark.parametrize("width", [looks.WIDTH, looks.NARROW])
def test_texts_behind_a_stack_do_not_cover_one_another(tmp_path, width):
    rows = pd.concat([ROWS.assign(variant=[f"{name}{n}" for name in ROWS["variant"]]) for n in range(4)])
    spec = figure(tmp_path, kind="stack", text="behind", labels={})
    made = drawing.draw_figure(spec, figures.rows(spec, rows.assign(behind="paper: 0.1234")), width)
    assert len([text for text in made.axes[0].texts if text.get_text()]) == 8 and not unreadable(made)
    plt.close(made)


@pytest.mark.parametrize("kind", ["bar", "stack"])
@pytest.mark.parametrize(("shared", "listed"), [(True, [8, 0, 8]), (False, [8, 8, 8])])
def test_names_that_panels_share_stand_left_of_the_first(tmp_path, kind, shared, listed):
    rows = pd.concat([ROWS.assign(variant=[f"{name}{n}" for name in ROWS["variant"]]) for n in range(4)])
    axes = drawn(figure(tmp_path, kind=kind, col="seed", wrap=2, share_y=shared, height=1.6, labels={}), rows).axes
    assert [sum(tick.label1.get_visible() for tick in axis.yaxis.get_major_ticks()) for axis in axes] == listed


@pytest.mark.parametrize("kind", ["line", "scatter", "hist", "box"])
def test_every_kind_is_drawn_in_panels(tmp_path, kind):
    hue = None if kind == "box" else "variant"
    made = drawn(figure(tmp_path, kind=kind, x="seed", y="step_s", hue=hue, col="kind", at={"y": 1.0}))
    assert [axis.get_title() for axis in made.axes] == ["emulated", "simulated"]
    assert all(axis.has_data() for axis in made.axes)


def test_the_rows_of_a_figure_are_what_it_shows(tmp_path):
    shown = figures.rows(figure(tmp_path, where={"kind": "emulated"}, hue=None), ROWS)
    assert list(shown.columns) == ["step_s", "variant", "kind", "seed"] and set(shown["kind"]) == {"emulated"}
    assert figures.rows(figure(tmp_path, where={"kind": "measured"}), ROWS).empty


@pytest.mark.parametrize(
    ("spec", "cells"),
    [
        (
            {"where": {"seed": 0}, "columns": {"variant": "name", "step_s": "seconds"}},
            {"name": ["A", "B", "A", "B"], "seconds": ["0.500", "1.00", "1.00", "2.00"]},
        ),
        (
            {"index": ["variant"], "across": "kind", "values": "step_s"},
            {"variant": ["A", "B"], "emulated": ["1.00", "2.00"], "simulated": ["2.00", "4.00"]},
        ),
        (
            {
                "where": {"kind": "emulated"},
                "index": ["variant"],
                "columns": {"variant": "name", "1000 * step_s": "ms"},
            },
            {"name": ["A", "B"], "ms": ["1,000", "2,000"]},
        ),
        (
            {"where": {"kind": "emulated"}, "index": ["variant"], "columns": {"step_s": "s"}, "ranges": ["step_s"]},
            {"s": ["1.00 (0.500 to 1.50)", "2.00 (1.00 to 3.00)"]},
        ),
    ],
)
def test_tables_list_spread_out_or_summarise(tmp_path, spec, cells):
    assert figures.cells(file(tmp_path, tables={"t": TABLE | spec}).tables["t"], ROWS).to_dict("list") == cells


def test_a_figure_that_does_not_fit_its_rows(tmp_path):
    for changes, message in (
        ({"x": "steps"}, "column of figure 'Steps' 'steps'"),
        ({"where": {"at": 1}}, "column 'at'"),
    ):
        with pytest.raises(InputError, match=f"unknown {message}"):
            figures.rows(figure(tmp_path, **changes), ROWS)
    with pytest.raises(InputError, match=r"figures\.yaml: .*kind"):
        figure(tmp_path, kind="pie")
    with pytest.raises(InputError, match="unknown column of table 'T' 'gone'"):
        figures.cells(file(tmp_path, tables={"t": TABLE | {"columns": {"gone": "gone"}}}).tables["t"], ROWS)


def test_one_value_looks_the_same_in_every_figure(tmp_path):
    for kinds in (["simulated", "emulated"], ["simulated"]):
        made = drawn(figure(tmp_path, kind="scatter", x="seed", y="step_s", where={"kind": kinds}))
        assert looks.look_of("simulated").colour in [line.get_color() for line in made.axes[0].lines]
    assert looks.palette_order(["simulated", "a user's own", "paper"]) == ["paper", "simulated", "a user's own"]
    assert looks.look_of("a user's own", 0).colour != looks.look_of("another", 1).colour


def test_dots_of_one_name_are_apart_and_have_their_intervals(tmp_path):
    spec = figure(tmp_path, kind="dot", x="step_s", y="variant", interval=True, labels={})
    made = drawn(spec, ROWS.assign(low=0.1, high=20.0))
    places = {y for line in made.axes[0].lines for y in line.get_ydata() if line.get_marker() != "None"}
    assert len(places) >= 4  # two kinds of two variants
    ends = [x for line in made.axes[0].lines for x in line.get_xdata()]
    assert 0.1 in ends and np.nanmax(ends) == 20.0


def test_several_columns_are_panels_of_their_own(tmp_path):
    columns = {"step_s": "time", "twice": "double"}
    spec = figure(tmp_path, kind="line", x="seed", y=columns, row="measure", hue="variant")
    made = drawn(spec, ROWS.assign(twice=2 * ROWS["step_s"]))
    assert [axis.get_title() for axis in made.axes] == ["time", "double"]


@pytest.mark.parametrize(("low", "high", "most"), [(1e3, 1e7, 9), (2e-3, 3e-2, 3), (810, 1200, 4), (0.5, 15, 5)])
def test_a_logarithmic_axis_has_a_few_round_ticks_that_are_evenly_apart(low, high, most):
    ticks = drawing.round_numbers(low, high, most)
    gaps = [math.log(second / first) for first, second in pairwise(ticks)]
    assert 2 <= len(ticks) <= most and max(gaps) < 2 * min(gaps) and low <= min(ticks) and max(ticks) <= high


def test_panels_with_axes_of_their_own_show_one_ratio_as_one_length(tmp_path):
    spec = figure(
        tmp_path, kind="dot", x="step_s", y="variant", hue=None, col="kind", log="x", share_x=False, labels={}
    )
    made = drawn(spec, ROWS.assign(step_s=ROWS["step_s"] ** ROWS["kind"].eq("simulated").add(1)))
    spans = [high / low for low, high in (axis.get_xlim() for axis in made.axes)]
    assert spans[0] == pytest.approx(spans[1])


@pytest.mark.parametrize("page", sorted(path.parent.name for path in REPORTS.glob("*/figures.yaml")))
def test_the_axes_of_a_page_have_names_and_units(page):
    for name, spec in figures.read(REPORTS / page / "figures.yaml").figures.items():
        sides = [spec.x] if spec.kind == "hist" else [spec.x, spec.column_y]
        unnamed = [side for side in sides if side not in spec.labels and not (spec.panel_x or spec.panel_y)]
        assert not unnamed, f"{page}/{name}: {unnamed}"
        assert "_" not in "".join((*spec.labels.values(), spec.title)), name


def test_words_and_causes_are_legible_and_told_apart_without_colour():
    causes = yaml.safe_load(looks.PALETTE.read_text())["causes"].values()
    words = [word for word in verdict.WORDS.values() if word.colour]
    for shown in (
        [(word.colour, word.marker) for word in words],
        [(look["colour"], look["marker"]) for look in causes],
    ):
        assert shown and all(contrast(colour) >= 4.5 for colour, _ in shown)
        assert len({marker for _, marker in shown}) == len(shown)


def test_every_colour_of_a_mark_is_seen_on_the_page():
    named = {name: look.colour for name, look in looks.read_palette().items() if look.colour}
    spare = dict(zip(looks.SPARE, looks.SPARE, strict=True))
    faint = {name: colour for name, colour in (named | spare | COLOURS).items() if contrast(colour) < 3}
    assert named and not faint


@pytest.mark.parametrize("row", [None, "testbed"])
def test_a_narrow_figure_has_its_panels_below_each_other_and_shows_the_same(tmp_path, row):
    spec = figure(tmp_path, kind="line", x="seed", y="step_s", hue="variant", col="kind", row=row)
    shown = figures.rows(spec, pd.concat([ROWS.assign(testbed=name) for name in ("here", "there")]))
    made = [drawing.draw_figure(spec, shown, width) for width in (looks.WIDTH, looks.NARROW)]
    wide, narrow = ([axis for axis in each.axes if axis.has_data()] for each in made)
    plt.close("all")
    assert len(narrow) == len(wide) == (4 if row else 2)
    assert len({axis.get_gridspec().ncols for axis in narrow}) == 1 == narrow[0].get_gridspec().ncols
    assert made[1].get_figwidth() == looks.NARROW
    assert all(label.get_visible() for axis in narrow for label in axis.get_xticklabels())  # the lowest is out of sight
    lines = [sorted(tuple(line.get_ydata()) for axis in axes for line in axis.lines) for axes in (wide, narrow)]
    assert lines[0] == lines[1] and all(lines)
    assert [[text.get_text() for text in each.legends[0].get_texts()] for each in made] == 2 * [["A", "B"]]


@pytest.mark.filterwarnings("error")
def test_the_picture_of_a_single_headline_has_room_for_its_axis():
    """As of a new paper with one claim."""
    row = {"claim": "It is faster", "short": "C1. It is faster", "unit": "x", "paper_low": 1.2, "paper_high": 1.2}
    row |= {"low": 1.6, "ours": 1.7, "high": 1.8, "heading": "larger", "verdict": "larger", "kind": "simulated"}
    row |= {"own": True, "printed": "1.2x", "number": "1.70x (1.63 to 1.76)"}
    for width in (looks.WIDTH, 3.3):
        lay_out(draw_forest(pd.DataFrame([row]), "Faster", width))
