"""Drawing of the timing model: predicted against observed, fits, efficiency against world size, step time against L."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import style

if TYPE_CHECKING:
    import pandas as pd

KIND_LOOKS = {"measured": {"color": "#9c2f02", "marker": "o"}, "simulated": {"color": "#08478c", "marker": "^"}}


def scatter(found: pd.DataFrame, title: str) -> Any:
    """Predicted (x) against observed (y) step time, a marker a kind; dashed: equal, band: 10 % off."""
    plt, sns = style.plotting()
    figure, axis = plt.subplots(figsize=(7.4, 6), layout="constrained")
    low, high = (float(f(found[["predicted_s", "observed_s"]].to_numpy())) for f in (_least, _most))
    ends = [1e3 * low / 1.5, 1e3 * high * 1.5]
    axis.plot(ends, ends, color="#777777", linestyle="--", linewidth=1, zorder=1, label="equal")
    axis.fill_between(ends, [0.9 * e for e in ends], [1.1 * e for e in ends], color="#999999", alpha=0.15, linewidth=0,
                      label="within 10 %", zorder=0)  # fmt: skip
    for kind, own in found.groupby("kind", sort=True):
        look = KIND_LOOKS[kind]
        at = 1e3 * own["observed_s"]
        spread = [at - 1e3 * own["observed_min_s"], 1e3 * own["observed_max_s"] - at]
        axis.errorbar(1e3 * own["predicted_s"], at, yerr=[s.clip(lower=0) for s in spread], fmt="none", linewidth=0.5,
                      alpha=0.3, ecolor=look["color"], zorder=2)  # fmt: skip
        axis.scatter(1e3 * own["predicted_s"], at, s=22, alpha=0.65, edgecolor="white", linewidth=0.4, zorder=3,
                     label=f"{kind}: {len(own)} predictions", **look)  # fmt: skip
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal",
             xlabel="predicted step time (ms)", ylabel="observed step time (ms), median and range")  # fmt: skip
    axis.legend(loc="upper left")
    sns.despine(ax=axis)
    style.titled(figure, title)
    return figure


def _least(values: Any) -> float:
    return values[values > 0].min()


def _most(values: Any) -> float:
    return values.max()


def fits(points: pd.DataFrame, table: pd.DataFrame, title: str) -> Any:
    """The microbenchmark's points and the fitted line, a colour a world size, a panel a testbed."""
    plt, sns = style.plotting()
    testbeds = list(points["testbed"].unique())
    figure, axes = plt.subplots(
        1, len(testbeds), figsize=(max(7, 5.2 * len(testbeds)), 4.4), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, testbed in zip(axes[0], testbeds, strict=True):
        own = points[points["testbed"] == testbed]
        worlds = sorted(own["workers"].unique())
        for i, world in enumerate(worlds):
            at = own[own["workers"] == world].sort_values("bytes")
            color = sns.color_palette("viridis", len(worlds) + 1)[i]
            axis.plot(at["bytes"], 1e3 * at["fitted_s"], color=color, linewidth=1.2, zorder=2)
            row = table[(table["testbed"] == testbed) & (table["workers"] == str(world))].iloc[0]
            fitted = {name.split(" (")[0]: str(row[name]).split(";")[0].split(" [")[0] for name in row.index}
            label = ", ".join(f"{name} {fitted[name]}" for name in ("alpha", "beta", "gamma"))
            axis.scatter(at["bytes"], 1e3 * at["seconds"], color=color, s=20, zorder=3, label=f"p = {world}: {label}")
        axis.set(xscale="log", yscale="log", xlabel="bytes", title=testbed)
        axis.legend(loc="upper left", fontsize=7, title="alpha in µs, beta and gamma in ns/byte", title_fontsize=7)
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("allreduce (ms)")
    style.titled(figure, title)
    return figure


def efficiency(found: pd.DataFrame, title: str) -> Any:
    """Scaling efficiency (7) against world size, a panel a model: markers observed, dashed lines predicted."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    models = list(found["model"].unique())
    columns = min(4, len(models))
    lines = -(-len(models) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(max(7, 3.9 * columns), 3.5 * lines + 0.9),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    names = tuple(found["setting"].unique())
    for axis, model in zip(axes.flat, models, strict=False):
        own = found[found["model"] == model]
        for name in names:
            look, at = style.look(name, names), own[own["setting"] == name].groupby("workers").median(numeric_only=True)
            axis.plot(at.index, 100 * at["efficiency_predicted"], color=look["color"], linestyle="--", linewidth=1)
            mark = {"marker": look["marker"], "markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.5}
            axis.plot(at.index, 100 * at["efficiency_observed"], color=look["color"], linestyle="none", **mark)
        axis.axhline(100, color="#777777", linewidth=0.8, zorder=0)
        worlds = sorted(own["workers"].unique())
        axis.set(title=model, xlabel="workers", xticks=worlds[:: max(1, len(worlds) // 8)], ylim=(0, None))
        sns.despine(ax=axis)
    for axis in list(axes.flat)[len(models) :]:
        axis.axis("off")
    axes[0, 0].set_ylabel("scaling efficiency (%)")
    looks = [(name, style.look(name, names)) for name in names]
    handles = [
        Line2D([], [], color=look["color"], marker=look["marker"], linestyle="none", label=name) for name, look in looks
    ]
    handles.append(Line2D([], [], color="#555555", linestyle="--", label="predicted, equation (7)"))
    figure.legend(handles=handles, loc="outside lower center", ncols=max(1, int(figure.get_figwidth() / 1.8)))
    style.titled(figure, title)
    return figure


def segments(found: pd.DataFrame, title: str) -> Any:
    """Step time against L, a row of panels a model and world size, a column a bandwidth (slow networks first)."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    found = found.assign(speed=[float(f"{8e-9 * speed:.3g}") for speed in found["bytes_a_second"]])
    models = list(dict.fromkeys(zip(found["model"], found["workers"], strict=True)))
    speeds = sorted(found["speed"].unique())
    figure, axes = plt.subplots(
        len(models), len(speeds), figsize=(max(9.5, 3.4 * len(speeds)), 2.9 * len(models) + 1.1), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for line, (model, workers) in zip(axes, models, strict=True):
        for axis, speed in zip(line, speeds, strict=True):
            own = found[(found["model"] == model) & (found["workers"] == workers) & (found["speed"] == speed)]
            if not len(own):
                axis.axis("off")
                continue
            for K, at in own.groupby("K"):
                _against_L(axis, at, COLOURS[K], printed=K == 2)
            shown = f", {speed:.3g} Gbit/s" if speed else ""
            top = 1.08e3 * float(own[["high_s", "predicted_s"]].to_numpy().max())
            axis.set(title=f"{model}, p = {workers}{shown}\n{own['testbed'].iloc[0]}", xlabel="L (segments)",
                     ylim=(0, top), xticks=sorted(own["segments"].unique()))  # fmt: skip
            sns.despine(ax=axis)
        line[0].set_ylabel("step time (ms)")
    handles = [
        Line2D([], [], color=COLOURS[K], marker="o", linestyle="--", label=f"K = {K}: observed; dashed: predicted")
        for K in sorted(found["K"].unique())
    ]
    handles.append(Line2D([], [], label="equation (5) or (6) as printed, K = 2", **PRINTED))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    style.titled(figure, title)
    return figure


def _against_L(axis: Any, at: pd.DataFrame, color: str, printed: bool) -> None:
    """Observed with its range, predicted, and the equation as printed."""
    middle = 1e3 * at["observed_s"]
    errors = [(middle - 1e3 * at["low_s"]).clip(lower=0), (1e3 * at["high_s"] - middle).clip(lower=0)]
    axis.errorbar(at["segments"], middle, yerr=errors, color=color, fmt="o", markersize=5.5, linewidth=0.8, capsize=2)
    axis.plot(at["segments"], 1e3 * at["predicted_s"], color=color, linestyle="--", linewidth=1.3)
    if printed:
        axis.plot(at["segments"], 1e3 * at["printed_s"], **PRINTED)


COLOURS = {1: "#08478c", 2: "#9c2f02"}  # K
PRINTED = {"color": "#777777", "linestyle": ":", "linewidth": 1.5}
