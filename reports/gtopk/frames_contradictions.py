"""Where the paper does not add up, as data frames: Table VII against itself, its time model, and our runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from repro.reports.claims import Claim
from repro.reports.compute_scaling import ON_STEPS
from repro.reports.gtopk.experiments import DENSITY
from repro.reports.gtopk.frames_scaling import _images
from repro.reports.gtopk.published import MOST, Published
from repro.reports.scaling import ALGORITHMS, MODELS, Steps
from repro.reports.sparse_forms import BY_VARIANT, selected
from repro.reporting.stats import DASH, TIMES, number
from repro.reports.verdicts import MATCHES, Verdict, label

if TYPE_CHECKING:
    import pandas as pd


def arithmetic(paper: Published) -> pd.DataFrame:
    """Table VII's ratios and averages again, from its own rows; efficiencies with Table VI."""
    import pandas as pd

    rows = []
    for model in MODELS:
        d, t, g = (paper.throughput[model, algorithm] for algorithm in ALGORITHMS)
        rows.append(
            {
                "model": model,
                "g/d printed": f"{paper.ratios[model, 'Dense']:g}{TIMES}",
                "g/d from the row": number(g / d, 4) + TIMES,
                "g/t printed": f"{paper.ratios[model, 'Top-k']:g}{TIMES}",
                "g/t from the row": number(g / t, 4) + TIMES,
                "batch ÷ iteration, Table VI (images/s)": number(paper.batch[model] / paper.iteration_s[model], 4),
                "printed": f"{paper.single[model]:g}",
                **{
                    f"efficiency of {a} (%)": number(100 * paper.throughput[model, a] / (MOST * paper.single[model]))
                    for a in ALGORITHMS
                },
            }
        )
    printed = {over: sum(paper.ratios[model, over] for model in MODELS) / len(MODELS) for over in ("Dense", "Top-k")}
    rows_of = {
        over: sum(paper.throughput[m, "gTop-k"] / paper.throughput[m, over] for m in MODELS) / len(MODELS)
        for over in ("Dense", "Top-k")
    }
    average = {
        "model": "average",
        "g/d printed": number(printed["Dense"], 4) + TIMES,
        "g/d from the row": number(rows_of["Dense"], 4) + TIMES,
        "g/t printed": number(printed["Top-k"], 4) + TIMES,
        "g/t from the row": number(rows_of["Top-k"], 4) + TIMES,
    }
    return pd.DataFrame([*rows, average]).fillna(DASH)


def unexplained(paper: Published, model: Steps, runs: Steps | None, elements: Mapping[str, int]) -> pd.DataFrame:
    """Table VII beside model and simulation: images a second, ratios, and what a network would have to be."""
    import pandas as pd

    rows = []
    for name in MODELS:
        for algorithm in ALGORITHMS:
            printed = paper.throughput[name, algorithm]
            predicted = model.throughput(name, algorithm, MOST)
            simulated = runs.throughput(name, algorithm, MOST) if runs else None
            rows.append(
                {
                    "model": name,
                    "algorithm": algorithm,
                    "paper": printed,
                    "time_model": predicted,
                    "simulated": simulated,
                    "time_model_over_paper": predicted / printed,
                    "simulated_over_paper": simulated / printed if simulated else None,
                    "unexplained_s": MOST * paper.batch[name] / printed - model.seconds[name, algorithm, MOST],
                    "implied_mbit": implied_mbit(paper, name, algorithm, elements[name]),
                }
            )
    return pd.DataFrame(rows)


def implied_mbit(paper: Published, model: str, algorithm: str, elements: int) -> float:
    """The bandwidth (Mbit/s) with which Table I takes all of Table VII's iteration that Table VI does not."""
    form, size = BY_VARIANT[algorithm], (MOST, 4 * elements, selected(elements, DENSITY))
    left = MOST * paper.batch[model] / paper.throughput[model, algorithm] - paper.iteration_s[model]
    left -= form(*size, paper.alpha_s, 0.0)
    return 8e-6 * form(*size, 0.0, 1.0) / left if left > 0 else math.nan


def unexplained_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text."""
    return found[["model", "algorithm"]].assign(
        **{
            "paper, Table VII (images/s)": found["paper"].map(_images),
            "time model (images/s)": found["time_model"].map(_images),
            "simulated (images/s)": found["simulated"].astype(float).map(_images),
            "time model ÷ paper": found["time_model_over_paper"].map(lambda v: number(v) + TIMES),
            "simulated ÷ paper": [
                DASH if math.isnan(v) else number(v) + TIMES for v in found["simulated_over_paper"].astype(float)
            ],
            "not explained by the model (s an iteration)": found["unexplained_s"].map(number),
            "bandwidth that would explain it (Mbit/s)": found["implied_mbit"].map(number),
        }
    )


def survivors(
    verdicts: Sequence[Verdict], sources: Mapping[str, Steps], only: Sequence[str] | None = None
) -> pd.DataFrame:
    """A row a claim: verdict and number by each source that can be asked, by simulation and by measurement.

    only: these claims; else all that can be asked of a source (about Figure 10, Figure 11 and Table VII).
    """
    import pandas as pd

    rows: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        claim = verdict.claim
        if claim.id not in only if only is not None else claim.compute not in ON_STEPS:
            continue
        line = rows.setdefault(claim.id, {"claim": claim.text, "paper": claim.shown})
        for source, steps in sources.items():
            core = ON_STEPS.get(claim.compute)
            value = core(steps, **claim.arguments) if core else None
            line[source] = DASH if value is None else f"{label(claim, value)} ({_unit(value, claim)})"
        ours = verdict.ours
        line[verdict.kind] = f"{verdict.label} ({_unit(ours.median, claim)})" if ours else DASH
    columns = ["claim", "paper", *sources, "simulated", *(["measured"] if only is not None else [])]
    return pd.DataFrame(list(rows.values()), columns=columns)


def _unit(value: float, claim: Claim) -> str:
    if claim.unit == "%":
        return f"{number(100 * value)} %"
    return number(value) + (TIMES if claim.unit == "x" else "")


def counted(table: pd.DataFrame, column: str) -> str:
    """`12 of 30` of those with a number match."""
    there = [text for text in table[column] if text != DASH]
    return f"{sum(text.startswith(MATCHES) for text in there)} of {len(there)}"
