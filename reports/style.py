"""How every figure of the project looks: one colour and marker a variant, one colour a phase, no volatile metadata."""

from __future__ import annotations

import io
import os
import textwrap
from pathlib import Path
from typing import Any

from repro.common.errors import InputError
from repro.reports import foreign

# Hue: the framework (grey server, blue synchronous, orange pipelined). Marker and dashes: the codec.
VARIANTS: dict[str, dict[str, Any]] = {
    "PS-Sync": {"color": "#4d4d4d", "marker": "X", "dash": (1, 0)},
    "D-Sync": {"color": "#08478c", "marker": "o", "dash": (1, 0)},
    "D-Sync + T": {"color": "#3d8bd1", "marker": "^", "dash": (4, 1.5)},
    "D-Sync + Q": {"color": "#86c0ee", "marker": "s", "dash": (1.5, 1)},
    "Pipe-SGD": {"color": "#9c2f02", "marker": "o", "dash": (1, 0)},
    "Pipe-SGD + T": {"color": "#ea5f0c", "marker": "^", "dash": (4, 1.5)},
    "Pipe-SGD + Q": {"color": "#fba85c", "marker": "s", "dash": (1.5, 1)},
    "Pipe-SGD with warm-up": {"color": "#8a6d1f", "marker": "D", "dash": (6, 1.5, 1.5, 1.5)},
}
# gTop-k: green the paper's algorithm and its variants, violet what it is compared with; Dense is D-Sync.
VARIANTS |= {
    "Dense": VARIANTS["D-Sync"],
    "Top-k": {"color": "#7b4fa3", "marker": "^", "dash": (4, 1.5)},
    "Top-k, ring": {"color": "#b9a0d4", "marker": "v", "dash": (1.5, 1)},
    "gTop-k": {"color": "#1a7f4b", "marker": "s", "dash": (1, 0)},
    "gTop-k, exact residual": {"color": "#57b584", "marker": "D", "dash": (4, 1.5)},
    "gTop-k, naive": {"color": "#9bb32f", "marker": "v", "dash": (1.5, 1)},
    "gTop-k, 16 bits": {"color": "#0f8f99", "marker": "P", "dash": (4, 1.5)},
    "gTop-k, 8 bits": {"color": "#6cc5cc", "marker": "X", "dash": (1.5, 1)},
    "gTop-k, K = 2": {"color": "#d97a00", "marker": "<", "dash": (6, 1.5, 1.5, 1.5)},
    "gTop-k, momentum correction": {"color": "#b8488f", "marker": ">", "dash": (4, 1.5)},
    "gTop-k, sampled selection": {"color": "#8a6d1f", "marker": "h", "dash": (6, 1.5, 1.5, 1.5)},
    "rho = 0.005": {"color": "#8fd0a9", "marker": "^", "dash": (4, 1.5)},
    "rho = 0.001": {"color": "#1a7f4b", "marker": "s", "dash": (1, 0)},
    "rho = 0.0005": {"color": "#0b3d24", "marker": "v", "dash": (1.5, 1)},
}
# eager-SGD: rose, teal and amber the partial collectives, blue the synchronous baselines.
VARIANTS |= {
    "Synch-SGD (Deep500)": {"color": "#08478c", "marker": "o", "dash": (1, 0)},
    "Synch-SGD (Horovod)": {"color": "#3d8bd1", "marker": "^", "dash": (4, 1.5)},
    "eager-SGD (solo)": {"color": "#d1495b", "marker": "s", "dash": (1, 0)},
    "eager-SGD (majority)": {"color": "#00798c", "marker": "D", "dash": (4, 1.5)},
    "eager-SGD (quorum)": {"color": "#c98a1b", "marker": "P", "dash": (1.5, 1)},
}
VARIANTS |= {
    collective: VARIANTS[strategy]
    for collective, strategy in (
        ("allreduce", "Synch-SGD (Deep500)"), ("recursive_doubling", "Synch-SGD (Horovod)"),
        ("solo", "eager-SGD (solo)"), ("majority", "eager-SGD (majority)"),
("quorum", "eager-SGD (quorum)"),
    )
}  # fmt: skip
# PipeDream: magenta its pipelines, violet a straight one, slate stages without one, amber and olive other schedules.
VARIANTS |= {
    "bsp": {"color": "#08478c", "marker": "o", "dash": (1, 0)},
    "bsp-allreduce": {"color": "#3d8bd1", "marker": "^", "dash": (4, 1.5)},
    "asp": {"color": "#4d4d4d", "marker": "X", "dash": (1.5, 1)},
    "single": {"color": "#9a9a9a", "marker": "h", "dash": (6, 1.5, 1.5, 1.5)},
    "pipedream": {"color": "#a4197d", "marker": "s", "dash": (1, 0)},
    "paper-config": {"color": "#c9569f", "marker": "D", "dash": (4, 1.5)},
    "straight": {"color": "#6f5fc4", "marker": "v", "dash": (4, 1.5)},
    "model-parallel": {"color": "#6c7a92", "marker": "P", "dash": (1.5, 1)},
    "gpipe": {"color": "#d99a00", "marker": "<", "dash": (4, 1.5)},
    "1f1b-flush": {"color": "#6a8f2f", "marker": ">", "dash": (1.5, 1)},
    "vertical-sync": {"color": "#e8722a", "marker": "^", "dash": (4, 1.5)},
    "naive": {"color": "#2f3e46", "marker": "X", "dash": (1.5, 1)},
}
VARIANTS |= {
    name: VARIANTS[variant]
    for name, variant in (
        ("stashing", "pipedream"), ("model_parallel", "model-parallel"), ("one_f_one_b_flush", "1f1b-flush"),
    )
}  # fmt: skip
# iBatch: navy one pull, ochre layer by layer, brick its batches (darker: the optimal ones); green SSP.
VARIANTS |= {
    "ps_default": {"color": "#355070", "marker": "o", "dash": (1.5, 1)},
    "ps_layerwise": {"color": "#e09f3e", "marker": "^", "dash": (4, 1.5)},
    "ibatch": {"color": "#9e2a2b", "marker": "s", "dash": (1, 0)},
    "exact": {"color": "#4a0d10", "marker": "D", "dash": (6, 1.5, 1.5, 1.5)},
    "ssp-1": {"color": "#5f9e6e", "marker": "v", "dash": (4, 1.5)},
    "ssp-3": {"color": "#2f6b4f", "marker": "P", "dash": (1.5, 1)},
}
VARIANTS |= {"default": VARIANTS["ps_default"], "layerwise": VARIANTS["ps_layerwise"]}
# For variants of later papers and of users, by order of appearance, until they get a line above.
SPARE = ("#2a7f62", "#7b4fa3", "#b8488f", "#8a6d1f", "#1b9aaa", "#6b7a1e")
SPARE_MARKERS = ("D", "v", "P", "<", ">", "h")

PHASE_COLOURS = {
    "forward": "#b9dcc4",
    "backward": "#6fae85",
    "update": "#357a56",
    "data": "#d8d3b8",
    "other": "#ebe8dc",
    "compress": "#e0a92c",
    "communicate": "#c2403a",
    "wait": "#a9adb2",
    "imbalance": "#6b5b95",
}
PHASE_LABELS = {
    "forward": "forward", "backward": "backward", "update": "update", "data": "data", "other": "other",
    "compress": "compression", "communicate": "communication, exposed", "wait": "wait", "imbalance": "injected delay",
}  # fmt: skip
COMPUTATION = ("forward", "backward", "update", "data", "other")
HIDDEN = {"facecolor": "white", "edgecolor": PHASE_COLOURS["communicate"], "hatch": "////", "linewidth": 0.8}
HIDDEN_LABEL = "communication, hidden behind computation (not part of the bar)"


def look(variant: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
    """Colour, marker and dashes of a variant; one unknown to the project gets a spare by its place in `known`."""
    if variant in VARIANTS:
        return VARIANTS[variant]
    extra = [name for name in known if name not in VARIANTS]
    place = extra.index(variant) if variant in extra else 0
    return {"color": SPARE[place % len(SPARE)], "marker": SPARE_MARKERS[place % len(SPARE_MARKERS)], "dash": (1, 0)}


def plotting() -> tuple[Any, Any]:
    """(matplotlib.pyplot, seaborn), imported now (4 s cold) and set to the project's look on the Agg backend."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(context="paper", style="ticks", font="DejaVu Sans", rc={
        "axes.grid": True, "grid.color": "#e8e8e8", "grid.linewidth": 0.7, "axes.edgecolor": "#555555",
        "axes.titlesize": 10.5, "axes.labelsize": 9.5, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5,
        "legend.fontsize": 8.5, "legend.frameon": False, "hatch.linewidth": 0.8, "axes.axisbelow": True,
        "figure.titlesize": 11.5, "pdf.fonttype": 42,
    })  # fmt: skip
    return plt, sns


def titled(figure: Any, text: str) -> None:
    """The figure's title, on as many lines as its width needs."""
    figure.suptitle("\n".join(textwrap.wrap(text, int(10.5 * figure.get_figwidth()), break_on_hyphens=False)))


def metric_name(metric: str) -> str:
    """How a metric is written on an axis."""
    known = {"top1": "top-1", "top5": "top-5", "mse": "mean squared error", "train_top1": "top-1 on training data",
             "train_top5": "top-5 on training data", "meteor": "METEOR"}  # fmt: skip
    return known.get(metric, metric)


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
