"""The data of the findings: K as a spectrum, compression of gradients and of parameters, convergence rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.experiment.grid import NONE
from repro.reporting.stats import DASH, TIMES, number, show, show_target, spread
from repro.reports import compute, compute_findings, factors
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd


def spectrum(group: Group) -> pd.DataFrame:
    """A row a variant and seed: K, staleness-aware learning rate or not, step ms, metric, seconds to targets."""
    import pandas as pd

    rows = []
    for variant in group.covered():
        if "strategy.K" not in (varied := factors.of(group.one(variant))):
            continue
        for seed, run in group.runs(variant).items():
            targets = {f"to {goal} (s)": compute.target_s(run, goal) for goal in run["targets"]}
            rows.append(
                {"kind": group.kind, "setting": variant, "K": varied["strategy.K"], "staleness_lr": "rate" in varied,
                 "seed": seed, "step_ms": 1e3 * compute_findings.step_s(run), "metric": compute.final(run), **targets}
            )  # fmt: skip
    return pd.DataFrame(rows).sort_values(["staleness_lr", "K", "seed"]).reset_index(drop=True)


def goals(found: pd.DataFrame) -> list[str]:
    """The columns of times to targets."""
    return [name for name in found.columns if name.startswith("to ")]


def spectrum_table(found: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A row a variant: step time, that of K = 2 over it, final metric, times to targets; over seeds."""
    import pandas as pd

    base = found[(found["K"] == 2) & ~found["staleness_lr"]]["step_ms"]
    rows = []
    for variant, some in found.groupby("setting", sort=False):
        step = spread(some["step_ms"])
        row = {
            "kind": some["kind"].iloc[0], "setting": variant, "seeds": len(some),
            "step (ms)": show(step, 4, seeds=False),
            "K = 2 over it": f"{number(spread(base).median / step.median)}{TIMES}" if len(base) else DASH,
            f"final {metric}": show(spread(some["metric"]), decimals=4, seeds=False),
        }  # fmt: skip
        rows.append(row | {name: show_target(some[name].dropna()) for name in goals(found)})
    return pd.DataFrame(rows).astype(str)


def lossy(group: Group) -> pd.DataFrame:
    """A row a variant and seed: what was communicated, the codec, the final metric, what the codec costs of it."""
    import pandas as pd

    rows = []
    for variant in group.covered():
        varied = factors.of(group.one(variant))
        what, codec = str(varied.get("method", variant)), varied.get("codec", NONE)
        plain = group.runs(what)
        for seed, run in group.runs(variant).items():
            lost = compute.final(plain[seed]) - compute.final(run) if codec != NONE and seed in plain else float("nan")
            rows.append({"kind": group.kind, "setting": variant, "communicated": what.lower(), "codec": codec,
                         "seed": seed, "metric": compute.final(run), "lost": lost})  # fmt: skip
    return pd.DataFrame(rows)


def lossy_table(found: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A row a variant: final metric and what compression costs of it, seed by seed."""
    import pandas as pd

    rows = []
    for variant, some in found.groupby("setting", sort=False):
        lost = spread(some["lost"].dropna())
        rows.append({
            "kind": some["kind"].iloc[0], "setting": variant, "communicated": some["communicated"].iloc[0],
            "codec": some["codec"].iloc[0], "seeds": len(some),
            f"final {metric}": show(spread(some["metric"]), decimals=4, seeds=False),
            f"{metric} lost by compressing": show(lost, decimals=4, seeds=False),
        })  # fmt: skip
    return pd.DataFrame(rows).astype(str)


def rates(group: ProbeGroup) -> pd.DataFrame:
    """A row a point: objective, K, seed, t, regret (or suboptimality), the stated bound."""
    import pandas as pd

    rows = [
        {"kind": group.kind, "objective": result["objective"], "K": result["K"], "seed": run["seed"], "t": point["t"],
         "regret": point["regret"], "bound": point["bound"]}
        for run, result in _results(group) for point in result["points"]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["kind", "objective", "K", "seed", "t", "regret", "bound"])


def slopes(group: ProbeGroup) -> pd.DataFrame:
    """A row an objective and K: the slope of log regret against log T over seeds, and whether the bound holds."""
    import pandas as pd

    found: dict[tuple, list[dict]] = {}
    for _, result in _results(group):
        found.setdefault((result["objective"], result["K"]), []).append(result)
    rows = []
    for (objective, K), some in sorted(found.items()):
        last = [result["points"][-1] for result in some if result["points"]]
        rows.append({
            "kind": group.kind, "objective": objective, "K": str(K), "seeds": str(len(some)),
            "T": f"{max(result['T'] for result in some):,}",
            "slope, log-log": show(spread(r["slope"] for r in some if r["slope"] is not None), seeds=False),
"from t": _from(some),
            "regret at T": show(spread(point["regret"] for point in last), seeds=False),
            "bound at T": show(spread(p["bound"] for p in last if p["bound"] is not None), seeds=False),
            "within the bound": f"{sum(bool(result['within_bound']) for result in some)} of {len(some)}",
            "step rule": " / ".join(sorted({str(result.get("step_rule") or DASH) for result in some})),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _from(results: list[dict]) -> str:
    """The first t that the slopes are fitted to."""
    return " / ".join(sorted({f"{r['slope_from_t']:,}" for r in results if r.get("slope_from_t") is not None})) or DASH


def _results(group: ProbeGroup) -> list[tuple[Summary, dict]]:
    return [(run, run["result"]) for run in group.summaries]
