"""What a user would pick instead: libraries beside our own strategies, the same experiment in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repro.records import tidy
from repro.reporting.stats import spread
from repro.reports.files import Files
from repro.reports.groups import finished
from repro.reports.loading import Summary, read, trains
from repro.reports.render import template, write_page
from repro.reports.specs import Specs

if TYPE_CHECKING:
    import pandas as pd

PAGE = "baselines"
BASE = "D-Sync"


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    found = runs([run for run in read(PAGE, results) if trains(run)])
    made = {"runs": found, "provenance": provenance(found)}
    specs = Specs(PAGE, files, lambda shown: made[shown.table])
    line = f"{found['variant'].nunique()} variants, theirs and ours, of the same training." if len(found) else ""
    line = line or f"No results yet: `repro run {PAGE}`."
    text = template(f"{PAGE}/page.md.j2", figure=specs.figure, table=specs.table, line=line)
    return write_page(text, PAGE, files), line


def runs(found: list[Summary]) -> pd.DataFrame:
    """A row a variant, testbed, scale and seed, its latest run; milliseconds, and times as fast as D-Sync there."""
    latest = {}
    for run in sorted((run for run in found if not run["breakdown"]), key=finished):
        place = (run["experiment"], run["testbed"], run.get("scale"), run["hardware"]["class"])
        latest[(*place, run["setting"], run["seed"])] = run
    table = tidy.frame(
        [tidy.run(run) | {"origin": run["root"], "network": run["hardware"]["network"]} for run in latest.values()]
    )
    if not latest:
        return table
    table["step_ms"], table["exposed_ms"] = 1e3 * table["step_s"], 1e3 * table["exposed_s"]
    table["sent_kb"], table["by"] = table["bytes_sent"] / 1e3, table["launcher"] + ", " + table["fabric"]
    base = table[table["variant"] == BASE].groupby(["experiment", "testbed", "scale"])["step_ms"]
    medians = {place: spread(steps).median for place, steps in base}
    table["over"] = [
        medians.get(place, float("nan")) / step
        for place, step in zip(zip(table["experiment"], table["testbed"], table["scale"]), table["step_ms"])
    ]
    return table.sort_values(["experiment", "testbed", "scale", "strategy", "variant"])


def provenance(found: pd.DataFrame) -> pd.DataFrame:
    """A row an experiment, testbed, scale and origin: how many runs, on what, of which commits, until when."""
    import pandas as pd

    if found.empty:
        return found
    rows = [
        dict(zip(("experiment", "testbed", "scale", "origin"), place))
        | {"kind": ", ".join(sorted(set(runs["kind"]))), "runs": len(runs), "seeds": int(runs["seed"].nunique())}
        | {name: ", ".join(sorted(set(runs[name].astype(str)))) for name in ("network", "hardware", "dataset")}
        | {"commits": ", ".join(sorted(set(runs["commit"].astype(str).str[:8])))}
        | {"finished": str(runs["finished_at"].max())[:10]}
        for place, runs in found.groupby(["experiment", "testbed", "scale", "origin"], sort=False)
    ]
    return pd.DataFrame(rows)
