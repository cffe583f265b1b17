"""Writing the files of pages: whole or not at all, the same bytes from the same results, without volatile metadata."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from repro.common.errors import InputError
from repro.reports import foreign


def save(figure: Any, stem: Path) -> list[Path]:
    """`stem`.png (130 dpi) and `stem`.pdf without dates or versions, then the figure is closed."""
    import matplotlib.pyplot as plt

    _readable(figure)
    figure.draw_without_rendering()  # lays everything out, which takes long: once is enough
    figure.set_layout_engine("none")
    written = []
    for suffix, options in (
        (".png", {"dpi": 130, "metadata": {"Software": None}}),
        (".pdf", {"metadata": {"CreationDate": None, "Producer": None, "Creator": None}}),
    ):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], **options)
        written.append(write_bytes(stem.with_name(stem.name + suffix), buffer.getvalue()))
    plt.close(figure)
    return written


def _readable(figure: Any) -> None:
    """The figure's text as it stands in the results; an axis keeps what its ticks are called, so it is told anew."""
    from matplotlib.axis import Axis
    from matplotlib.text import Text

    for axis in figure.findobj(Axis):
        labels = [tick.label1.get_text() for tick in axis.majorTicks]
        if (shown := list(map(foreign.drawn, labels))) != labels:
            axis.set_ticks(axis.get_majorticklocs(), shown)
    for text in figure.findobj(Text):
        text.set_text(foreign.drawn(text.get_text()))


def write_bytes(path: Path, content: bytes) -> Path:
    """Write beside, then rename; a folder that cannot be written is one clear line."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{path}: the report cannot be written ({reason}); set $REPRO_REPORTS to a writable folder"
        ) from None
    return path


def write_text(path: Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8"))


def write_csv(frame: Any, path: Path) -> Path:
    """The data behind a figure: nine significant digits, line feeds."""
    return write_text(path, foreign.plain(frame.to_csv(index=False, float_format="%.9g", lineterminator="\n")))
