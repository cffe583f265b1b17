"""Figures that are not drawn: for tests of what stands around them."""

from __future__ import annotations

from pathlib import Path

from repro.answers.figures import drawing
from repro.answers.pages import files, writing

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001e221bc33000000"
    "0049454e44ae426082"
)


def without_drawing(patch) -> None:
    """Figures are empty files: drawing one takes half a second, and saving it as long."""
    import matplotlib.pyplot as plt

    patch.setattr(drawing, "draw_figure", lambda figure, shown, width: plt.figure())
    patch.setattr(files, "save", undrawn)


def undrawn(figure, stem: Path, suffixes=(".png",)) -> list[Path]:
    """In place of `style.save`: the same files, without drawing, which takes a second a figure."""
    import matplotlib.pyplot as plt

    plt.close(figure)
    return [writing.write_bytes(stem.with_name(stem.name + suffix), PIXEL + b" " * 99) for suffix in suffixes]
