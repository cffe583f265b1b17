"""Learning curves: loss, metric and other scores of training runs at their stops, as data frames and as panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro.reports import frames, style
from repro.reports.groups import Group

if TYPE_CHECKING:
    import pandas as pd

FALLING = ("perplexity", "mse")  # metrics of which less is better
X_LABELS = {"epoch": "epochs", "train_s": "training time (s)"}


@dataclass(frozen=True)
class Panel:
    """One axis: which column of `stops` against which (epoch, train_s), of which variants (none given: all)."""

    value: str
    x: str
    label: str
    title: str
    variants: tuple[str, ...] = ()
    log: bool = False


def stops(group: Group, more: Sequence[str] = ()) -> pd.DataFrame:
    """One row a variant, seed and stop: epoch, training seconds, training loss, metric and the scores `more`.

    What was not recorded at a stop is missing there (NaN).
    """
    import pandas as pd

    rows = [
        {"kind": group.kind, "setting": variant, "seed": seed, "iteration": point["iteration"],
         "epoch": point["epoch"], "train_s": point["train_s"], "loss": point.get("loss"),
         "metric": point.get(group.metric), **{name: point.get(name) for name in more}}
        for variant in group.covered() for seed, run in group.runs(variant).items() for point in run["curve"]
    ]  # fmt: skip
    columns = ["kind", "setting", "seed", "iteration", "epoch", "train_s", "loss", "metric", *more]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("loss", "metric", *more), float))


def bands(points: pd.DataFrame, value: str) -> pd.DataFrame:
    """One row a variant and stop: medians of epoch and seconds; median, low and high of `value` over the seeds."""
    names = ["setting", "quantity", "iteration", "epoch", "train_s", "median", "low", "high", "seeds", "interval"]
    wanted = points[["kind", "setting", "iteration", "epoch", "train_s", value]].dropna(subset=[value])
    found = frames.bands(wanted.rename(columns={value: "metric"}))
    return found.rename(columns={"metric": "median"}).assign(quantity=value)[names]


def draw(points: pd.DataFrame, panels: Sequence[Panel], title: str, looks: Mapping[str, str] | None = None) -> Any:
    """The panels in one row; one look and one legend entry a variant, or a name that `looks` has for several."""
    plt, sns = style.plotting()
    width = 14.5 if len(panels) > 2 else 5.2 * len(panels) + 0.4
    figure, axes = plt.subplots(1, len(panels), figsize=(width, 4.7), layout="constrained", squeeze=False)
    names = tuple(points["setting"].unique())
    looks = {name: (looks or {}).get(name, name) for name in names}
    known = tuple(dict.fromkeys(looks.values()))
    for axis, panel in zip(axes[0], panels, strict=True):
        middle = bands(points, panel.value)
        for variant in panel.variants or names:
            _line(axis, points[points["setting"] == variant].dropna(subset=[panel.value]),
                  middle[middle["setting"] == variant], panel, style.look(looks[variant], known))  # fmt: skip
        axis.set(xlim=(0, None), xlabel=X_LABELS[panel.x], ylabel=panel.label)
        if panel.log and len(middle):
            axis.set_yscale("log")
        sns.despine(ax=axis)
    for axis, panel in zip(axes[0], panels, strict=True):
        axis.set_title(panel.title)
    entries = handles(known)
    figure.legend(handles=entries, loc="outside lower center", ncols=min(4, len(entries)))
    style.titled(figure, title)
    return figure


def _line(axis: Any, own: pd.DataFrame, at: pd.DataFrame, panel: Panel, look: dict[str, Any]) -> None:
    """Median line with markers, band, every seed's points."""
    if not len(at):
        return
    x = panel.x
    axis.fill_between(at[x], at["low"], at["high"], color=look["color"], alpha=0.13, linewidth=0)
    axis.scatter(
        own[x], own[panel.value], color=look["color"], marker=look["marker"], s=7, alpha=0.35, linewidth=0, zorder=2
    )
    axis.plot(at[x], at["median"], color=look["color"], linewidth=1.6, linestyle=dashes(look), zorder=3)
    shown = at.iloc[:: max(1, len(at) // 10)]
    axis.plot(shown[x], shown["median"], linestyle="none", marker=look["marker"], markersize=5.5, color=look["color"],
              markeredgecolor="white", markeredgewidth=0.5, zorder=4)  # fmt: skip


def dashes(look: dict[str, Any]) -> Any:
    """matplotlib's line style of a look."""
    return "-" if look["dash"] == (1, 0) else (0, look["dash"])


def handles(names: Sequence[str]) -> list:
    """A legend entry a name."""
    from matplotlib.lines import Line2D

    found = {name: style.look(name, tuple(names)) for name in names}
    return [
        Line2D([], [], color=look["color"], marker=look["marker"], markeredgecolor="white", markersize=7,
               linewidth=1.8, linestyle=dashes(look), label=name)
        for name, look in found.items()
    ]  # fmt: skip
