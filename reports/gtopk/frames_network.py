"""Messages and collectives as data frames (Figures 8 and 9, Table I)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.reports.gtopk.published import Published
from repro.reports.probes import ProbeGroup
from repro.reports.sparse_forms import ALGORITHMS, FORMS
from repro.reporting.stats import DASH, number, show, spread

if TYPE_CHECKING:
    import pandas as pd

LEFT_BYTES = 100e6  # Figure 9, left
NEAR = 0.06  # a gradient within this share of a size is drawn as that size


def messages(groups: Sequence[ProbeGroup], paper: Published) -> pd.DataFrame:
    """A row a testbed, seed and message size: mean, deviation, its run's fitted line, the paper's line; seconds."""
    import pandas as pd

    rows = [
        {
            "kind": group.kind,
            "testbed": run["testbed"],
            "hardware": run["hardware"]["class"],
            "seed": run["seed"],
            "bytes": point["bytes"],
            "mean_s": point["mean_s"],
            "deviation_s": point["deviation_s"],
            "runs": point["runs"],
            "fitted_s": run["result"]["fit"]["alpha_s"] + run["result"]["fit"]["beta_s_per_byte"] * point["bytes"],
            "paper_s": paper.alpha_s + paper.beta_s * point["bytes"],
        }
        for group in groups
        for run in group.summaries
        for point in run["result"]["points"]
    ]
    return pd.DataFrame(rows)


def fits(groups: Sequence[ProbeGroup], paper: Published) -> pd.DataFrame:
    """A row a testbed: alpha, beta, the error of the fit; the paper's first."""
    import pandas as pd

    rows = [_fit("paper", "their cluster", [1e3 * paper.alpha_s], [1e9 * paper.beta_s], [])]
    for group in groups:
        for testbed in dict.fromkeys(run["testbed"] for run in group.summaries):
            found = [run["result"]["fit"] for run in group.summaries if run["testbed"] == testbed]
            alpha, beta = ([scale * fit[name] for fit in found] for scale, name in
                           ((1e3, "alpha_s"), (1e9, "beta_s_per_byte")))  # fmt: skip
            rows.append(_fit(group.kind, testbed, alpha, beta, [100 * fit["relative_error"] for fit in found]))
    return pd.DataFrame(rows)


def _fit(kind: str, place: str, alpha: list[float], beta: list[float], error: list[float]) -> dict[str, str]:
    return {
        "kind": kind,
        "network": place,
        "alpha (ms)": show(spread(alpha), seeds=False),
        "beta (ns a byte)": show(spread(beta), seeds=False),
        "that is (Mbit/s)": number(8e3 / spread(beta).median, 4),
        "error of the fit (%)": show(spread(error), seeds=False),
    }


def collectives(groups: Sequence[ProbeGroup], paper: Published) -> pd.DataFrame:
    """A row a testbed, algorithm, world and gradient: seconds run (medians over runs), the closed forms, the bytes."""
    import pandas as pd

    found: dict[tuple, list[tuple[dict, dict]]] = {}
    for group in groups:
        for run in group.summaries:
            for row in run["result"]["rows"]:
                place = (group.kind, run["testbed"], row["algorithm"], row["ranks"], row["bytes"], row["density"])
                found.setdefault(place, []).append((row, run["result"]["network"] or {}))
    rows = []
    for (kind, testbed, algorithm, ranks, size, density), some in sorted(found.items(), key=lambda item: str(item[0])):
        one, network = some[-1]
        rows.append(
            {
                "kind": kind,
                "testbed": testbed,
                "algorithm": ALGORITHMS.get(algorithm, algorithm),
                "ranks": ranks,
                "bytes": size,
                "density": density,
                "k": one["k"],
                "run_s": spread(row["seconds"]["median"] for row, _ in some).median,
                "low_s": min(row["seconds"]["min"] for row, _ in some),
                "high_s": max(row["seconds"]["max"] for row, _ in some),
                "closed_form_s": one["closed_form_s"],
                "published_s": _form(algorithm, ranks, size, one["k"], paper.alpha_s, paper.beta_s),
                "alpha_s": network.get("alpha_s"),
                "beta_s_per_byte": network.get("beta_s_per_byte"),
                "wire_bytes": one["wire_bytes"],
                "sent_bytes": one.get("sent_bytes"),
            }
        )
    table = pd.DataFrame(rows)
    return table.sort_values(["kind", "testbed", "algorithm", "bytes", "ranks"], ignore_index=True) if rows else table


def _form(algorithm: str, ranks: int, size: float, k: int, alpha: float, beta: float) -> float | None:
    form = FORMS.get(algorithm)
    return form(ranks, size, k, alpha, beta) if form and ranks > 1 else 0.0


def curve(algorithm: str, worlds: Sequence[int], sizes: Sequence[float], density: float, paper: Published):
    """Closed forms over worlds and sizes with the published alpha and beta: lists of seconds."""
    pairs = [(P, size) for P in worlds for size in sizes]
    return [
        FORMS[algorithm](P, size, max(1, round(density * size / 4)), paper.alpha_s, paper.beta_s) for P, size in pairs
    ]


def table1(found: pd.DataFrame) -> pd.DataFrame:
    """Table I checked: by kind, testbed and algorithm the ratio of run to formula; powers of two apart."""
    import pandas as pd

    rows = []
    for (kind, testbed, algorithm), own in found.groupby(["kind", "testbed", "algorithm"], sort=False):
        powers = own[(own["ranks"] & (own["ranks"] - 1)) == 0]
        others = own[(own["ranks"] & (own["ranks"] - 1)) != 0]
        rows.append(
            {
                "kind": kind,
                "testbed": testbed,
                "algorithm": algorithm,
                "workers": _span(own["ranks"]),
                "gradients (MB)": _span(own["bytes"] / 1e6),
                "collectives": str(len(own)),
                "run over formula, powers of two": _ratio(powers),
                "run over formula, other worlds": _ratio(others),
            }
        )
    return pd.DataFrame(rows)


def _ratio(own: pd.DataFrame) -> str:
    known = own[own["closed_form_s"].fillna(0) > 0]
    if not len(known):
        return DASH
    ratios = known["run_s"] / known["closed_form_s"]
    low, high = number(ratios.min(), 4), number(ratios.max(), 4)
    return low if low == high else f"{number(ratios.median(), 4)} [{low}{DASH}{high}]"


def _span(values) -> str:
    low, high = (f"{float(value):g}" for value in (values.min(), values.max()))
    return low if low == high else f"{low}{DASH}{high}"


def _kb(count: float | None) -> str:
    return DASH if count is None or count != count else number(count / 1e3, 4)


def each(found: pd.DataFrame) -> pd.DataFrame:
    """Every collective: run against formula, in milliseconds."""
    return found.assign(
        **{
            "gradient (MB)": (found["bytes"] / 1e6).map(number),
            "workers": found["ranks"].astype(str),
            "k": found["k"].map(lambda k: f"{k:,}"),
            "run (ms)": (1e3 * found["run_s"]).map(lambda v: number(v, 4)),
            "formula (ms)": [number(1e3 * v, 4) if v is not None else DASH for v in found["closed_form_s"]],
            "published alpha, beta (ms)": (1e3 * found["published_s"]).map(lambda v: number(v, 4)),
            "a message (kB)": [_kb(count) for count in found["wire_bytes"]],
            "sent by a rank (kB)": [_kb(count) for count in found["sent_bytes"]],
        }
    )[["kind", "testbed", "algorithm", "gradient (MB)", "workers", "k", "run (ms)", "formula (ms)",
       "published alpha, beta (ms)", "a message (kB)", "sent by a rank (kB)"]]  # fmt: skip
