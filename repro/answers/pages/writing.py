"""Write the files of pages atomically; equal results give equal bytes, without dates and versions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.answers.figures.looks import NARROW
from repro.core import atomic, safe_files
from repro.core.errors import InputError

DPI = 130
PHONE_DPI = 2 * DPI  # a phone has two or three pixels for each of a page


def save(figure: Any, stem: Path, suffixes: Sequence[str] = (".png",)) -> list[Path]:
    """Write and close a figure: `stem`.png, .pdf or both."""
    import matplotlib.pyplot as plt

    lay_out(figure)
    written = []
    for suffix in suffixes:
        made = io.BytesIO()
        # `savefig` would draw everything twice, for a layout
        if suffix == ".png":
            from matplotlib.backends.backend_agg import FigureCanvasAgg

            FigureCanvasAgg(figure).print_png(made, metadata={"Software": None})
        else:
            from matplotlib.backends.backend_pdf import FigureCanvasPdf

            FigureCanvasPdf(figure).print_pdf(made, metadata={"CreationDate": None, "Producer": None, "Creator": None})
        written.append(write_bytes(stem.with_name(stem.name + suffix), made.getvalue()))
    plt.close(figure)
    return written


def lay_out(figure: Any) -> None:
    """Lay the figure out once, which is slow, at the file's resolution: at another one text has another width."""
    figure.set_dpi(DPI if figure.get_figwidth() > NARROW else PHONE_DPI)
    figure.set_layout_engine("constrained")
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file, replacing it at once; InputError, in one line, if that is not possible."""
    try:
        safe_files.make_folder(path.parent)
        atomic.replace_file(path, content, durable=False)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{path}: cannot write the report ({reason}); set $REPRO_REPORTS to a writable folder"
        ) from None
    return path


def write_text(path: Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8"))


def write_csv(frame: Any, path: Path) -> Path:
    """Write the data of a figure with nine significant digits."""
    return write_text(path, frame.to_csv(index=False, float_format="%.9g", lineterminator="\n"))
