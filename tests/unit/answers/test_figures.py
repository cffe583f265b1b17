"""Figures and tables as specifications: what is drawn is what the rows say."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import yaml

from repro.answers.figures import drawing
from repro.answers.figures import specification as figures
from repro.core.errors import InputError

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
    assert {text.get_text() for text in made.legends[0].get_texts()} == {"emulated", "simulated"}


def test_a_stack_adds_up(tmp_path):
    made = drawn(figure(tmp_path, kind="stack", hue="kind", labels={}))
    tops = sorted(bar.get_y() + bar.get_height() for bar in made.axes[0].patches)
    assert tops == pytest.approx([1.0, 2.0, 3.0, 6.0])


@pytest.mark.parametrize("kind", ["line", "scatter", "point", "strip", "box"])
def test_every_kind_is_drawn_in_panels(tmp_path, kind):
    made = drawn(figure(tmp_path, kind=kind, x="seed", hue="variant", col="kind", at={"y": 1.0}))
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


def test_scipy_is_not_imported_for_seaborn_and_can_be_later():
    code = (
        "import sys; from repro.answers.figures import drawing; drawing._seaborn(); assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", f"{code}; import scipy.stats"], check=True)
