"""Throughput, efficiency and breakdown as data frames (Figures 10 and 11, Table VII)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from repro.reports.compute_scaling import ON_STEPS
from repro.reports.gtopk.published import MOST, Published
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup
from repro.reports.scaling import ALGORITHMS, MODELS, PARTS, Steps, place
from repro.reporting.stats import DASH, TIMES, number, spread

if TYPE_CHECKING:
    import pandas as pd


def throughput_runs(group: ProbeGroup) -> list[Summary]:
    return [run for run in group.summaries if not run["breakdown"]]


def parameters(group: ProbeGroup | None, otherwise: Mapping[str, int]) -> dict[str, int]:
    """Trainable parameters of the models as they ran; `otherwise` of those that did not."""
    found = dict(otherwise)
    for run in group.summaries if group else ():
        if (where := place(run)) and run["model"].get("parameters"):
            found[where[0]] = run["model"]["parameters"]
    return found


def scaling(sources: Mapping[str, Steps]) -> pd.DataFrame:
    """A row a source, model, algorithm and world: iteration, throughput, efficiency (4), speed-up over one worker."""
    import pandas as pd

    rows = []
    for source, steps in sources.items():
        for model, algorithm, workers in sorted(steps.seconds, key=lambda w: (_order(MODELS, w[0]), w[1:])):
            rows.append(
                {
                    "source": source,
                    "model": model,
                    "algorithm": algorithm,
                    "workers": workers,
                    "iteration_s": steps.seconds[model, algorithm, workers],
                    "images_per_s": steps.throughput(model, algorithm, workers),
                    "efficiency": steps.efficiency(model, algorithm, workers),
                    "speedup": workers * (steps.efficiency(model, algorithm, workers) or 0.0),
                }
            )
    return pd.DataFrame(rows)


def _order(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else len(names)


def table7(sources: Mapping[str, Steps], paper: Published) -> pd.DataFrame:
    """Table VII: images a second of each algorithm and gTop-k's speed-ups, a row a model and source."""
    import pandas as pd

    rows = []
    for model in MODELS:
        for source, steps in sources.items():
            line = {"model": model, "source": source}
            for algorithm in ALGORITHMS:
                line[f"{algorithm} (images/s)"] = _images(steps.throughput(model, algorithm, MOST))
            for over, sign in (("Dense", "g/d"), ("Top-k", "g/t")):
                printed = f" (printed {paper.ratios[model, over]:g}{TIMES})" if source == "paper" else ""
                line[sign] = _n(steps.speedup(model, "gTop-k", over, MOST), 3, TIMES) + printed
            rows.append(line)
    for source, steps in sources.items():
        line = {"model": "average", "source": source} | dict.fromkeys(
            (f"{algorithm} (images/s)" for algorithm in ALGORITHMS), DASH
        )
        for over, sign in (("Dense", "g/d"), ("Top-k", "g/t")):
            line[sign] = _n(ON_STEPS["scaling_speedup"](steps, over=over, take="average"), 3, TIMES)
        rows.append(line)
    return pd.DataFrame(rows)


def _images(value: float | None) -> str:
    return DASH if value is None or math.isnan(value) else f"{value:,.0f}"


def _n(value: float | None, digits: int = 3, unit: str = "") -> str:
    return DASH if value is None else number(value, digits) + unit


def few_workers(group: ProbeGroup, sources: Mapping[str, Steps], known: Mapping[str, int]) -> pd.DataFrame:
    """Steps measured on links beside model and simulation: a row a model, world and algorithm; milliseconds."""
    import pandas as pd

    found: dict[tuple, list[dict]] = {}
    for run in group.summaries:
        for row in run["result"]["rows"]:
            model = next((m for m, count in known.items() if abs(row["bytes"] / (4 * count) - 1) < 0.02), None)
            if model:
                found.setdefault((model, run["workers"], row["setting"]), []).append(row)
    rows = []
    for (model, workers, name), some in sorted(
        found.items(), key=lambda item: (_order(MODELS, item[0][0]), item[0][1], _order(ALGORITHMS, item[0][2]))
    ):
        seen = [spread(1e3 * row["observed_s"][key] for row in some).median for key in ("median", "min", "max")]
        base = [r["observed_s"]["median"] for r in found.get((model, workers, "Dense"), ())]
        line = {
            "model": model,
            "workers": str(workers),
            "algorithm": name,
            "measured (ms)": f"{number(seen[0], 4)} [{number(seen[1], 4)}{DASH}{number(seen[2], 4)}]",
            "its virtual twin (ms)": _n(spread(1e3 * row["simulated_s"] for row in some).median, 4),
        }
        for source, steps in sources.items():
            seconds = steps.seconds.get((model, name, workers))
            line[f"{source} (ms)"] = _n(None if seconds is None else 1e3 * seconds, 4)
        line["measured, over Dense"] = _n(1e3 * spread(base).median / seen[0] if base else None, 3, TIMES)
        rows.append(line)
    return pd.DataFrame(rows).astype(str)


def breakdown(steps: Steps, workers: int = MOST) -> pd.DataFrame:
    """Figure 11: seconds of computation, compression and communication, a row a model and algorithm."""
    import pandas as pd

    rows = [
        {"model": model, "algorithm": algorithm,
         **{name: steps.parts[model, algorithm, workers][name] for name in PARTS},
         "iteration_s": steps.seconds[model, algorithm, workers]}
        for model in MODELS for algorithm in ALGORITHMS if (model, algorithm, workers) in steps.parts
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["model", "algorithm", *PARTS, "iteration_s"])


def breakdown_table(found: pd.DataFrame, model: Steps, paper: Published) -> pd.DataFrame:
    """The breakdown as text, with Table I's communication and the iteration that Table VII implies."""
    import pandas as pd

    rows = []
    for line in found.to_dict("records"):
        where = (line["model"], line["algorithm"], MOST)
        rows.append(
            {
                "model": line["model"],
                "algorithm": line["algorithm"],
                **{f"{name} (s)": number(line[name]) for name in PARTS},
                "iteration (s)": number(line["iteration_s"]),
                "communication, Table I (s)": number(model.parts[where]["communication"]),
                "communication ÷ computation": _share(line, "communication"),
                "compression ÷ computation": _share(line, "compression"),
                "iteration by Table VII, paper (s)": number(
                    MOST * paper.batch[line["model"]] / paper.throughput[line["model"], line["algorithm"]]
                ),
            }
        )
    return pd.DataFrame(rows)


def _share(line: Mapping, part: str) -> str:
    return number(line[part] / line["computation"]) if line["computation"] else DASH


def selection(group: ProbeGroup) -> pd.DataFrame:
    """A row a model, device and method: milliseconds (median over runs), share of Table VI's iteration."""
    import pandas as pd

    found: dict[tuple, list[dict]] = {}
    for run in group.summaries:
        for row in run["result"]["rows"]:
            found.setdefault((row["model"], row["elements"], str(row["device"]), row["method"]), []).append(row)
    rows = []
    for (model, elements, device, method), some in found.items():
        seconds = [spread(1e3 * row["seconds"][key] for row in some).median for key in ("median", "min", "max")]
        one = some[-1]
        rows.append(
            {
                "model": model,
                "gradients": f"{elements:,}",
                "k": f"{one['k']:,}",
                "device": device,
                "method": method,
                "time (ms)": f"{number(seconds[0])} [{number(seconds[1])}{DASH}{number(seconds[2])}]",
                "iteration, Table VI (ms)": _n(1e3 * one["iteration_s"] if one["iteration_s"] else None),
                "share (%)": _n(seconds[0] / (10 * one["iteration_s"]) if one["iteration_s"] else None),
                "found": f"{one['found']:,}" if isinstance(one["found"], int) else _n(one["found"]),
            }
        )
    return pd.DataFrame(rows)
