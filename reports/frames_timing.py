"""The data of the timing model: predicted against observed step time, its errors, fits, efficiency, and segments L."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from repro.reporting.stats import DASH, TIMES, number, show, spread
from repro.reports import compute_timing
from repro.reports.frames import snap
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup, bandwidth, model

if TYPE_CHECKING:
    import pandas as pd

KEYS = ["kind", "model", "testbed", "setting"]


def predictions(group: ProbeGroup) -> pd.DataFrame:
    """A row a run (model, world size, testbed, seed) and variant: seconds of a step observed and predicted, terms.

    error: observed / predicted - 1; printed_error the same against the equation exactly as the paper prints it.
    """
    import pandas as pd

    rows = []
    for run, entry in compute_timing.entries(list(group.summaries)):
        observed, predicted, printed = entry["observed_s"], entry["predicted_s"], entry.get("printed_s")
        rows.append(
            {
                "kind": group.kind, "model": model(run), "workers": run["workers"], "testbed": run["testbed"],
                "bytes_a_second": bandwidth(run), "setting": entry["setting"],
                "strategy": entry["strategy"], "K": compute_timing.dependency(entry),
                "segments": compute_timing.segments(entry), "codec": entry["options"].get("codec", "none"),
                "seed": run["seed"], "equation": str(entry["equation"]), "observed_s": observed["median"],
                "observed_min_s": observed["min"], "observed_max_s": observed["max"], "predicted_s": predicted,
                "printed_s": printed, "error": _error(observed["median"], predicted),
                "printed_error": _error(observed["median"], printed), **entry["terms"],
                "bound": "computation" if compute_timing.compute_bound(entry) else "communication",
                "efficiency_predicted": entry["efficiency_predicted"],
                "efficiency_observed": entry["efficiency_observed"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _error(observed: float, predicted: float | None) -> float:
    return observed / predicted - 1 if predicted else math.nan


def by_world(found: pd.DataFrame) -> pd.DataFrame:
    """A row a model, testbed and variant, a column a world size: observed / predicted in ms, the error."""
    import pandas as pd

    worlds = sorted(found["workers"].unique())
    rows = []
    for names, some in found.groupby([*KEYS, "equation"], sort=False):
        row: dict[str, Any] = dict(zip([*KEYS, "equation"], names, strict=True))
        for world in worlds:
            at = some[some["workers"] == world]
            row[f"p = {world}"] = _against(at) if len(at) else DASH
        rows.append(row)
    return pd.DataFrame(rows).astype(str)


def _against(at: pd.DataFrame) -> str:
    """`4.12 / 4.10 (+0.5 %)`: medians over seeds."""
    observed, predicted = (spread(1e3 * at[name]).median for name in ("observed_s", "predicted_s"))
    error = spread(at["error"]).median
    shown = "" if math.isnan(error) else f" ({_percent(error, signed=True)})"
    return f"{number(observed, 4)} / {number(predicted, 4)}{shown}"


def errors(found: pd.DataFrame) -> pd.DataFrame:
    """A row a kind, equation and way of reading it: how far predictions are off."""
    import pandas as pd

    rows = []
    for (kind, equation), some in found.groupby(["kind", "equation"], sort=True):
        for reading, column in (("as used here", "error"), ("exactly as printed", "printed_error")):
            error = some[column].dropna().astype(float)
            if len(error):
                rows.append(
                    {
                        "kind": kind, "equation": equation, "reading": reading, "predictions": len(error),
                        "seeds": some["seed"].nunique(),
                        "observed / predicted, median": number(1 + error.median()),
                        "absolute error, median": _percent(error.abs().median()),
                        "absolute error, 95th percentile": _percent(error.abs().quantile(0.95)),
                        "largest": _percent(error.loc[error.abs().idxmax()], signed=True),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows).astype(str)


def _percent(share: float, signed: bool = False) -> str:
    rounded = round(100 * share, 1) + 0.0  # never -0.0
    return f"{rounded:+.1f} %" if signed else f"{rounded:.1f} %"


def fits(group: ProbeGroup) -> pd.DataFrame:
    """A row a testbed and world size: alpha, beta, gamma and S fitted from the microbenchmark, over its runs."""
    import pandas as pd

    rows = []
    for (testbed, workers), runs in _fitted(group).items():
        found = [run["result"]["fit"] for run in runs]
        true = runs[0].get("testbed_model") or {}
        row = {"kind": group.kind, "testbed": testbed, "workers": workers}
        for name, label, scale in (
            ("alpha_s", "alpha (µs)", 1e6),
            ("beta_s_per_byte", "beta (ns/byte)", 1e9),
            ("gamma_s_per_byte", "gamma (ns/byte)", 1e9),
            ("sync_s", "S (µs)", 1e6),
        ):
            text = show(spread(scale * fit[name] for fit in found), seeds=False)
            row[label] = text + (f"; set: {number(scale * true[name])}" if name in true else "")
        errors = [100 * snap(fit["relative_error"]) for fit in found if fit.get("relative_error") is not None]
        row["relative error"] = show(spread(errors), seeds=False, unit=" %")
        row["fits"] = len(found)
        rows.append(row)
    return pd.DataFrame(rows).astype(str)


def fit_points(group: ProbeGroup) -> pd.DataFrame:
    """A row a point of the first fit of each testbed and world size: bytes, seconds measured and fitted."""
    import pandas as pd

    rows = [
        {"kind": group.kind, "testbed": testbed, "workers": workers, "bytes": point["bytes"],
         "seconds": point["seconds"], "fitted_s": point["fitted_s"]}
        for (testbed, workers), runs in _fitted(group).items() for point in runs[0]["result"]["fit"]["points"]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["kind", "testbed", "workers", "bytes", "seconds", "fitted_s"])


def _fitted(group: ProbeGroup) -> dict[tuple[str, int], list[Summary]]:
    found: dict[tuple[str, int], list[Summary]] = {}
    for run in group.summaries:
        found.setdefault((run["testbed"], run["workers"]), []).append(run)
    return dict(sorted(found.items()))


def efficiency(found: pd.DataFrame) -> pd.DataFrame:
    """A row a model, testbed and variant, a column a world size: observed and predicted efficiency (7) in percent."""
    import pandas as pd

    rows = []
    shown = found.dropna(subset=["efficiency_observed"])
    worlds = sorted(shown["workers"].unique())
    for names, some in shown.groupby(KEYS, sort=False):
        row: dict[str, Any] = dict(zip(KEYS, names, strict=True))
        for world in worlds:
            at = some[some["workers"] == world]
            observed, predicted = (spread(100 * at[f"efficiency_{n}"]) for n in ("observed", "predicted"))
            row[f"p = {world}"] = f"{observed.median:.0f} / {predicted.median:.0f}" if len(at) else DASH
        rows.append(row)
    return pd.DataFrame(rows).astype(str)


def turning(group: ProbeGroup) -> pd.DataFrame:
    """A row a model, world size, testbed (slow networks first), K and codec: L = 1 against the fastest L > 1."""
    import pandas as pd

    places: dict[tuple, list] = {}
    for K in (2, 1):
        for pair in compute_timing.communication_pairs(list(group.summaries), K):
            run, codec = pair[0], pair[1]["options"].get("codec", "none")
            key = (-K, codec != "none", model(run), run["workers"], bandwidth(run), run["testbed"], codec)
            places.setdefault(key, []).append(pair)
    rows = []
    for (K, _, name, workers, speed, testbed, codec), pairs in sorted(places.items()):
        ratio = spread(map(compute_timing.pipelined_over_sequential, pairs))
        rows.append(
            {
                "kind": group.kind, "model": name, "p": workers, "testbed": testbed,
                "Gbit/s": f"{8e-9 * speed:.3g}" if speed else DASH, "K": str(-K), "codec": codec,
                "bound at L = 1": " / ".join(
                    sorted({"computation" if compute_timing.compute_bound(p[1]) else "communication" for p in pairs})
                ),
                "L = 1 (ms)": _ms(pair[1] for pair in pairs),
                "best L": " / ".join(sorted({str(compute_timing.segments(pair[2])) for pair in pairs})),
                "best L > 1 (ms)": _ms(pair[2] for pair in pairs),
                "best L > 1 over L = 1": show(ratio, seeds=False, unit=TIMES),
                "faster": _faster(ratio.median), "seeds": len(pairs),
            }
        )  # fmt: skip
    return pd.DataFrame(rows).astype(str)


def _faster(ratio: float) -> str:
    """Within half a percent nobody is."""
    return "equal" if abs(ratio - 1) < 0.005 else "sequential" if ratio > 1 else "pipelined"


def _ms(entries) -> str:
    return show(spread(1e3 * entry["observed_s"]["median"] for entry in entries), 4, seeds=False)


def segments(found: pd.DataFrame) -> pd.DataFrame:
    """Of Pipe-SGD without a codec: a row a model, world size, testbed, K (1 or 2) and L, medians over seeds."""
    import pandas as pd

    mine = found[(found["strategy"] == "pipe_sgd") & found["K"].isin((1, 2)) & (found["codec"] == "none")]
    keys = ["kind", "model", "workers", "testbed", "bytes_a_second", "K", "segments"]
    rows = []
    for names, some in mine.groupby(keys, sort=True):
        row = dict(zip(keys, names, strict=True))
        row |= {c: spread(some[c].dropna()).median for c in ("observed_s", "predicted_s", "printed_s")}
        row |= {"low_s": some["observed_min_s"].min(), "high_s": some["observed_max_s"].max(), "seeds": len(some)}
        rows.append(row)
    columns = [*keys, "observed_s", "low_s", "high_s", "predicted_s", "printed_s", "seeds"]
    table = pd.DataFrame(rows, columns=columns)
    several = table.groupby(["model", "workers", "testbed", "K"])["segments"].transform("nunique") > 1
    order = ["model", "workers", "bytes_a_second", "testbed", "K", "segments"]
    return table[several].sort_values(order).reset_index(drop=True)
