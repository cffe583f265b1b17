"""Every committed figure can be read: by matplotlib's own boxes, no text covers another or leaves the picture."""

from __future__ import annotations

from itertools import combinations

import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from repro.answers.pages import files, overview, writing
from repro.answers.pages.build import page
from repro.core.paths import reference_root
from tests.reports.data.undrawn import undrawn

EDGE = 1  # pixel


def out_of_view(axis):
    """The labels of ticks that are not drawn."""
    low, high = sorted(axis.get_view_interval())
    ticks = (tick for tick in (*axis.majorTicks, *axis.minorTicks) if not low <= tick.get_loc() <= high)
    return {label for tick in ticks for label in (tick.label1, tick.label2)}


def unreadable(figure):
    """Pairs of texts that cover one another, and texts beyond the edge; tilted ones, whose boxes are larger than they
    are, apart."""
    writing.lay_out(figure)
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    hidden = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in out_of_view(axis)}
    hidden |= {text for axes in figure.axes if not axes.get_visible() for text in axes.findobj(Text)}
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    shown = [text for text in shown if text not in hidden and text.get_rotation() % 90 == 0]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in shown]
    both = ((one, other, Bbox.intersection(a, b)) for (one, a), (other, b) in combinations(boxes, 2))
    found = [(one, other) for one, other, box in both if box is not None and min(box.width, box.height) > EDGE]
    inside = figure.bbox.padded(EDGE)
    return found + [(text,) for text, box in boxes if not all(inside.contains(*corner) for corner in box.corners())]


@pytest.mark.parametrize("name", [*overview.papers(), *overview.across()])
def test_no_text_of_a_figure_covers_another(reported, tmp_path, monkeypatch, name):
    found = {}

    def save(figure, stem, suffixes):
        found[stem.name] = unreadable(figure)
        return undrawn(figure, stem, suffixes)

    monkeypatch.setattr(files, "save", save)
    if name in overview.papers():
        of = reported(name).page
        assert of.forest and all(map(of.specs.figure, of.specs.shown.figures))
    else:
        page(name, reference_root(), tmp_path)
    assert found and not any(found.values()), {figure: texts for figure, texts in found.items() if texts}


@pytest.mark.parametrize(("places", "seen"), [((0.2, 0.8), 0), ((0.2, 0.21), 1), ((0.2, 0.99), 1)])
def test_texts_that_cover_one_another_or_leave_the_figure_are_seen(places, seen):
    figure, axis = plt.subplots()
    axis.set_axis_off()
    for x in places:
        figure.text(x, 0.5, "words")
    assert len(unreadable(figure)) == seen
    plt.close(figure)
