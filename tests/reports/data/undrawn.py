"""Figures that are not drawn: for tests of what stands around them."""

from __future__ import annotations


def undrawn(figure, path):
    """Empty files in the place of a figure's, which takes most of the time of a page."""
    import matplotlib.pyplot as plt

    plt.close(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [path.with_suffix(suffix) for suffix in (".png", ".pdf")]
    for each in made:
        each.write_bytes(b"")
    return made
