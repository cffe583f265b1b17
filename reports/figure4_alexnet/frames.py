"""The tables behind the page: steps of the emulated and the simulated runs, and the ends of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.records import catalogue
from repro.reporting.evaluate import BASE, Error, Judged
from repro.reporting.validated import ratio_error
from repro.reports import foreign

if TYPE_CHECKING:
    import pandas as pd

GRADIENT_BYTES = 4 * 60_965_224  # AlexNet's with 1,000 classes
FAMILY = ("dsync", "pipe_sgd", "ps_sync")
EMULATED, SIMULATED, INPUTS = "fig4-alexnet-emulated", "fig4-alexnet", "fig4-alexnet-inputs"
COLUMNS = ["kind", "variant", "input", "seed", "step_s", "step_s_low", "step_s_high", "run", "origin", "hardware"]


def steps(results: Path | None) -> pd.DataFrame:
    """A row a variant, kind, input and seed; seconds of an iteration at the paper's rate."""
    import pandas as pd

    found = catalogue.runs("pipesgd", results)
    runs = catalogue.table("runs", [each for each in found if each.summary["experiment"] in (SIMULATED, INPUTS)])
    rows = catalogue.table("rows", [each for each in found if each.summary["experiment"] == EMULATED])
    parts = [pd.DataFrame(columns=COLUMNS)]
    if len(runs):
        runs = runs[runs["testbed"] == "paper/pipesgd-alexnet"].assign(kind="simulated", input=BASE)
        at_ends = runs["experiment"] == INPUTS
        runs.loc[at_ends, "input"] = runs.loc[at_ends, "factors.input"] if "factors.input" in runs else BASE
        runs["variant"] = [name.partition("; ")[0] for name in _labels(runs)]
        # the base of the inputs' own experiment is that of Figure 4: of both, the experiment's of the figure counts
        runs = runs[~(at_ends & (runs["input"] == BASE))]
        parts.append(runs)
    if len(rows):
        runs_of = catalogue.table("runs", [each for each in found if each.summary["experiment"] == EMULATED])
        rows = rows[rows["table"] == "rows"].merge(runs_of[["run", "seed", "hardware", "factors.slow_down"]], on="run")
        slow = rows["factors.slow_down"].astype(float)
        seconds = {"step_s": "median", "step_s_low": "min", "step_s_high": "max"}
        rows = rows.assign(**{name: rows[f"observed_s.{column}"] / slow for name, column in seconds.items()})
        parts.append(rows.assign(kind="emulated", variant=rows["setting"], input=BASE))
    made = pd.concat([part.reindex(columns=COLUMNS) for part in parts if len(part)] or parts, ignore_index=True)
    return made.map(foreign.taken)


def errors(results: Path | None) -> Mapping[str, Error]:
    """By how much ratios are off: simulated ones as the validation found; repetitions say it of emulated ones."""
    found = [each for each in catalogue.runs("validation", results) if each.summary["experiment"] == "shaped"]
    error = ratio_error(catalogue.table("rows", found), FAMILY, GRADIENT_BYTES) if found else None
    return {"simulated": error} if error else {}


def ends(judged: Mapping[str, Sequence[Judged]]) -> pd.DataFrame:
    """A row a claim, kind and end of an input: what the claim's number becomes there."""
    import pandas as pd

    rows = [
        {"claim": claim, "kind": one.kind, "end": end, "value": value}
        for claim, of_kinds in judged.items()
        for one in of_kinds
        for end, value in one.ends.items()
    ]
    return pd.DataFrame(rows, columns=["claim", "kind", "end", "value"])


def _labels(runs: pd.DataFrame) -> list[str]:
    """The variant by its factors: the method, and the codec where there is one."""
    codecs = runs["factors.codec"].fillna("none") if "factors.codec" in runs else ["none"] * len(runs)
    return [
        method if codec == "none" else f"{method} + {codec}" for method, codec in zip(runs["factors.method"], codecs)
    ]
