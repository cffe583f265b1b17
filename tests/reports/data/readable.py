"""Whether a figure can be read: by matplotlib's own boxes, no text covers another or leaves the picture, and none is
too small at the width of a page."""

from __future__ import annotations

import numpy as np
from matplotlib.text import Text

from repro.answers.pages import writing

EDGE = 1  # pixel
PAGE = 736 / 96  # inches: the column of a page of the site; wider figures are shown as wide as it
PHONE = 358 / 96  # inches: that column on a phone, which narrow figures fill
SMALLEST, SMALLEST_ON_PHONE = 6, 9  # points


def out_of_view(axis):
    """The labels of ticks that are not drawn."""
    low, high = sorted(axis.get_view_interval())
    ticks = (tick for tick in (*axis.majorTicks, *axis.minorTicks) if not low <= tick.get_loc() <= high)
    return {label for tick in ticks for label in (tick.label1, tick.label2)}


def covering(boxes):
    """The pairs (i < j) of boxes whose intersection is wider and higher than EDGE."""
    low, high = (np.reshape([getattr(box, end) for box in boxes], (-1, 2)) for end in ("min", "max"))
    common = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)  # (boxes, boxes, 2)
    return np.argwhere(np.triu((common > EDGE).all(axis=2), 1))


def unreadable(figure):
    """Pairs of texts that cover one another, texts beyond the edge, and texts that are too small on a page; tilted
    ones, whose boxes are larger than they are, apart."""
    writing.lay_out(figure)
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    hidden = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in out_of_view(axis)}
    hidden |= {text for axes in figure.axes if not axes.get_visible() for text in axes.findobj(Text)}
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    shown = [text for text in shown if text not in hidden and text.get_rotation() % 90 == 0]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in shown]
    wrong = [(boxes[a][0], boxes[b][0]) for a, b in covering([box for _, box in boxes])]
    width = figure.get_figwidth()
    scale, smallest = (PHONE / width, SMALLEST_ON_PHONE) if width <= PHONE else (min(1, PAGE / width), SMALLEST)
    wrong += [(text.get_text(), "too small") for text in shown if text.get_fontsize() * scale < smallest]
    inside = figure.bbox.padded(EDGE)
    return wrong + [(text,) for text, box in boxes if not all(inside.contains(*corner) for corner in box.corners())]
