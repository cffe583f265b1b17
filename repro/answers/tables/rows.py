"""What verbs see of the results: a row a run, or an entry of what a probe found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from repro.answers.tables import factors
from repro.answers.tables.columns import Row
from repro.answers.tables.loading import Summary
from repro.answers.tables.probes import AnyGroup
from repro.answers.tables.resolution import resolved
from repro.records import tidy

ENDS = {"": "median", "_low": "min", "_high": "max"}  # of a column of repeated steps
OF_A_RUN = ("final.", "counters.", "phases.", "result.", "pipeline.", "step.")  # mappings: each run has what it has
OF_RANKS = "per_rank."  # what each rank says of itself
OF_CURVE = "loss."
TARGET = "to_"
RECORDED = (*OF_A_RUN, OF_RANKS, OF_CURVE, TARGET)  # of columns that a run may lack


def rows(group: AnyGroup, table: str = "runs") -> list[Row]:
    """With what verbs need: a row a run as `repro.records.tidy` has it (of the validation's program: a strategy); or of
    what a probe found a row an entry (`rows`), whose variant is the entry's, where it has one."""
    found: list[dict[str, Any]] = []
    for run in group.used():
        own = of_run(run) | {"root": run.get("root")}
        if table == "rows":
            found += [own | row | {"variant": row.get("variant", run.get("program"))} for row in tidy.rows("rows", run)]
        elif run.get("program") == "validation":
            found += [own | _validated(row) for row in run["result"]["rows"]]
        else:
            found.append(own | resolved(run))
    names = dict.fromkeys(name for row in found for name in row)
    return [names | row for row in found]


def _validated(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a strategy that the validation ran: its step, the turns' median, least and most."""
    return {"variant": row["variant"], "bytes": row["bytes"], "breakdown": False} | {
        f"iteration_s{end}": row["observed_s"][which] for end, which in ENDS.items()
    }


def of_run(run: Summary) -> dict[str, Any]:
    """A run as verbs see it: its tidy row, all that it counted, found and scored (`OF_A_RUN`) by the path to it, of
    what its ranks say (`per_rank.`) the means over those that say it, seconds to a target (`to_`; infinity where it was
    not reached), and of its training losses, each the mean since the last stop, the `loss.last`, and by how much it has
    `fallen` since the first stop (NaN where it has not).

    Runs of a probe are of one variant, the program, whatever they are called.
    """
    more = {f"{part}{name}": value for part in OF_A_RUN for name, value in tidy.flat(run.get(part[:-1]) or {})}
    more |= {f"factors.{name}": value for name, value in factors.of(run).items()}  # also of a record from before them
    said: dict[str, list[float]] = {}
    for name, value in (told for rank in run.get("per_rank") or () for told in tidy.flat(rank, OF_RANKS)):
        if isinstance(value, int | float):
            said.setdefault(name, []).append(value)
    more |= {name: fmean(values) for name, values in said.items()}
    for name, at in (run.get("targets") or {}).items():
        more[f"{TARGET}{name}_s"] = at["train_s"] if at else math.inf
    if losses := [point["loss"] for point in run.get("curve") or () if point.get("loss") is not None]:
        fallen = losses[0] - losses[-1]
        more |= {f"{OF_CURVE}last": losses[-1], f"{OF_CURVE}fallen": fallen if fallen > 0 else math.nan}
    own = tidy.run(run) | more
    return own if run.get("program", "train") == "train" else own | {"variant": run["program"]}
