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
TESTBED = "paper/pipesgd-alexnet"
EMULATED, SIMULATED, INPUTS = "fig4-alexnet-emulated", "fig4-alexnet", "fig4-alexnet-inputs"
COLUMNS = ["kind", "variant", "input", "seed", "step_s", "step_s_low", "step_s_high", "run", "origin", "hardware"]


def steps(results: Path | None) -> pd.DataFrame:
    """A row a variant, kind, input and seed; seconds of an iteration at the paper's rate."""
    import pandas as pd

    found = catalogue.runs("pipesgd", results)
    of = {
        name: [each for each in found if each.summary["experiment"] == name] for name in (SIMULATED, INPUTS, EMULATED)
    }
    parts = [pd.DataFrame(columns=COLUMNS)]
    if of[SIMULATED]:
        runs = catalogue.table("runs", of[SIMULATED]).assign(input=BASE)
        parts.append(runs[runs["testbed"] == TESTBED])
    if of[INPUTS]:  # its base is Figure 4's
        runs = catalogue.table("runs", of[INPUTS])
        runs = runs.assign(variant=_variants(runs), input=runs["factors.input"])
        parts.append(runs[runs["input"] != BASE])
    rows = catalogue.table("rows", of[EMULATED])
    if len(rows):
        runs_of = catalogue.table("runs", of[EMULATED])
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


def _variants(runs: pd.DataFrame) -> list[str]:
    """What Figure 4 calls a method with a codec."""
    return [
        method if codec == "none" else f"{method} + {codec}"
        for method, codec in zip(runs["factors.method"], runs["factors.codec"])
    ]
