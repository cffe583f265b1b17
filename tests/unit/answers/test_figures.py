"""Figures and tables as specifications: what is drawn is what the rows say."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import yaml
from matplotlib.text import Text

from repro.answers.figures import drawing, looks
from repro.answers.figures import specification as figures
from repro.core.errors import InputError
from repro.core.paths import REPORTS

ROWS = pd.DataFrame(
    [
        {
            "kind": kind,
            "variant": variant,
            "seed": seed,
            "step_s": seconds * (1 + seed) * (2 if kind == "simulated" else 1),
        }
        for kind in ("emulated", "simulated")
        for variant, seconds in (("A", 0.5), ("B", 1.0))
        for seed in (0, 1, 2)
    ]
)
FIGURE = {"title": "Steps", "alt": "Bars", "kind": "bar", "table": "runs", "x": "variant", "y": "step_s", "hue": "kind",
          "labels": {"step_s": "seconds"}}  # fmt: skip


def file(tmp_path, **content):
    path = tmp_path / "figures.yaml"
    path.write_text(yaml.safe_dump(content))
    return figures.read(path)


def figure(tmp_path, **changes):
    return file(tmp_path, figures={"steps": FIGURE | changes}).figures["steps"]


def drawn(spec):
    made = drawing.draw(spec, figures.rows(spec, ROWS))
    plt.close(made)
    return made


def test_bars_are_medians_over_seeds(tmp_path):
    made = drawn(figure(tmp_path))
    heights = sorted(bar.get_height() for bar in made.axes[0].patches if bar.get_height())
    assert heights == pytest.approx([1.0, 2.0, 2.0, 4.0])
    assert made.axes[0].get_ylabel() == "seconds"
    assert [text.get_text() for text in made.legends[0].get_texts()] == ["emulated", "simulated"]


def test_a_stack_adds_up(tmp_path):
    made = drawn(figure(tmp_path, kind="stack", hue="kind", labels={}))
    tops = sorted(bar.get_y() + bar.get_height() for bar in made.axes[0].patches)
    assert tops == pytest.approx([1.0, 2.0, 3.0, 6.0])


@pytest.mark.parametrize("kind", ["line", "scatter", "bar", "hist", "box"])
def test_every_kind_is_drawn_in_panels(tmp_path, kind):
    hue = None if kind == "box" else "variant"
    made = drawn(figure(tmp_path, kind=kind, x="seed", hue=hue, col="kind", at={"y": 1.0}))
    assert [axis.get_title() for axis in made.axes] == ["emulated", "simulated"]
    assert all(axis.has_data() for axis in made.axes)


def test_what_is_behind_a_figure_is_what_it_shows(tmp_path):
    shown = figures.rows(figure(tmp_path, where={"kind": "emulated"}, hue=None), ROWS)
    assert list(shown.columns) == ["variant", "step_s", "kind", "seed"] and set(shown["kind"]) == {"emulated"}
    assert figures.rows(figure(tmp_path, where={"kind": "measured"}), ROWS).empty


def test_tables_list_or_spread_out(tmp_path):
    spec = {"title": "T", "table": "runs"}
    listed = {"where": {"seed": 0}, "columns": {"variant": "name", "step_s": "seconds"}}
    across = {"index": ["variant"], "across": "kind", "values": "step_s"}
    made = file(tmp_path, tables={"listed": spec | listed, "across": spec | across}).tables
    assert figures.cells(made["listed"], ROWS).to_dict("list") == {
        "name": ["A", "B", "A", "B"], "seconds": ["0.500", "1.00", "1.00", "2.00"]}  # fmt: skip
    assert figures.cells(made["across"], ROWS).to_dict("list") == {
        "variant": ["A", "B"], "emulated": ["1.00", "2.00"], "simulated": ["2.00", "4.00"]}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"y": "steps"}, "unknown column of figure 'Steps' 'steps'"),
        ({"where": {"inputs": "base"}}, "unknown column 'inputs'"),
    ],
)
def test_a_figure_that_does_not_fit_its_rows(tmp_path, changes, says):
    with pytest.raises(InputError, match=says):
        figures.rows(figure(tmp_path, **changes), ROWS)
    with pytest.raises(InputError, match=r"figures\.yaml: .*kind"):
        figure(tmp_path, kind="pie")
    with pytest.raises(InputError, match="unknown column of table 'T' 'gone'"):
        spec = {"title": "T", "table": "runs", "columns": {"gone": "gone"}}
        figures.cells(file(tmp_path, tables={"t": spec}).tables["t"], ROWS)


def test_one_value_looks_the_same_in_every_figure(tmp_path):
    colours = []
    for kinds in (["simulated", "emulated"], ["simulated"]):
        made = drawn(figure(tmp_path, kind="scatter", x="seed", hue="kind", where={"kind": kinds}))
        colours.append({looks.look("simulated").colour in [line.get_color() for line in made.axes[0].lines]})
    assert colours == [{True}, {True}]
    assert looks.ordered(["simulated", "a user's own", "paper"]) == ["paper", "simulated", "a user's own"]
    assert looks.look("a user's own", 0).colour != looks.look("another", 1).colour


def test_dots_of_one_name_stand_apart_and_have_their_intervals(tmp_path):
    rows = ROWS.assign(low=0.1, high=20.0)
    spec = figure(tmp_path, kind="dot", x="step_s", y="variant", interval=True, labels={})
    made = drawing.draw(spec, figures.rows(spec, rows))
    plt.close(made)
    places = {y for line in made.axes[0].lines for y in line.get_ydata() if line.get_marker() != "None"}
    assert len(places) >= 4  # two kinds of two variants
    ends = {x for bars in made.axes[0].collections for x in bars.get_segments()[0][:, 0]}
    assert (min(ends), max(ends)) == pytest.approx((0.1, 20.0))


def test_several_columns_are_panels_of_their_own(tmp_path):
    spec = figure(
        tmp_path, kind="line", x="seed", y={"step_s": "time", "twice": "double"}, row="measure", hue="variant"
    )
    made = drawing.draw(spec, figures.rows(spec, ROWS.assign(twice=2 * ROWS["step_s"])))
    plt.close(made)
    assert [axis.get_title() for axis in made.axes] == ["time", "double"]


def test_a_table_has_medians_by_its_index_and_arithmetic(tmp_path):
    spec = {"title": "T", "table": "runs", "index": ["variant"], "columns": {"variant": "name", "1000 * step_s": "ms"}}
    made = file(tmp_path, tables={"t": spec}).tables["t"]
    of = figures.cells(made, ROWS[ROWS["kind"] == "emulated"])
    assert of.to_dict("list") == {"name": ["A", "B"], "ms": ["1,000", "2,000"]}


def texts(made):
    """What is written in a figure, with where it stands."""
    made.canvas.draw()
    found = []
    for text in made.findobj(Text):
        inside = text.get_visible() and (text.axes is None or text.axes.get_visible())
        if inside and text.get_text().strip():
            found.append(text)
    return found


def test_type_is_legible_at_the_width_of_a_page(tmp_path):
    made = drawing.draw(spec := figure(tmp_path, col="kind"), figures.rows(spec, ROWS))
    sizes = [text.get_fontsize() for text in texts(made)]
    plt.close(made)
    assert made.get_figwidth() == drawing.WIDTH and min(sizes) >= 8


@pytest.mark.parametrize("page", ["pipesgd", "pipedream", "gtopk", "eagersgd", "ibatch", "validation", "baselines"])
def test_what_a_page_draws_has_names_and_units(page):
    shown = figures.read(REPORTS / page / "figures.yaml").figures
    assert 0 < len(shown) <= 13
    for name, spec in shown.items():
        sides = [spec.x] if spec.kind == "hist" else [spec.x, spec.column_y]
        unnamed = [side for side in sides if side not in spec.labels and not (spec.panel_x or spec.panel_y)]
        assert not unnamed, f"{page}/{name}: {unnamed}"
        assert "_" not in "".join((*spec.labels.values(), spec.title)), name
