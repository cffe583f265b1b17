"""Greedy against exact, and predicted against executed time, as data frames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from repro.reports.batched_pulls import (
    EXACT,
    IBATCH,
    MODES,
    NETWORKS,
    batches_text,
    gap,
    mode_of,
    network,
    pipeline,
    times,
)
from repro.reports.groups import Group
from repro.reports.probes import ProbeGroup
from repro.reporting.stats import DASH, number

if TYPE_CHECKING:
    import pandas as pd

NOTHING = 1e-12  # a gap below it is rounding


def gaps(groups: Iterable[Group | ProbeGroup], modes: Sequence[str] = (IBATCH,)) -> pd.DataFrame:
    """A row a run with a profile: executed time of its batches over the least possible, less 1; EXETime over executed.

    modes: of which runs.
    """
    import pandas as pd

    columns = ["kind", "testbed", "experiment", "network", "setting", "nodes", "mode", "batches", "layers", "exetime_s",
               "executed_s", "exact_s", "gap", "exetime_over_executed", "meets"]  # fmt: skip
    rows = []
    for group in groups:
        for one in group.used():
            said = pipeline(one)
            if mode_of(one) not in modes or (found := gap(one)) is None:
                continue
            rows.append((one["kind"], one["testbed"], one["experiment"], _network(one), one["setting"], one["workers"],
                         said.get("mode", IBATCH), batches_text(one), len(said.get("profile", {})["forward_s"]),
                         said["exetime_s"], said["executed_s"], said["exact_s"], found,
                         said["exetime_s"] / said["executed_s"], said.get("meets_constraint")))  # fmt: skip
    frame = pd.DataFrame(rows, columns=columns)
    order = {name: i for i, name in enumerate((*NETWORKS.values(), *NETWORKS))}
    place = frame["network"].map(lambda name: order.get(name, len(order)))
    return frame.assign(place=place).sort_values(["testbed", "experiment", "place", "nodes", "setting"]).drop(
        columns="place").reset_index(drop=True)  # fmt: skip


def _network(one) -> str:
    """As the paper writes it where the run is of a whole one; else the model's name."""
    if one["kind"] == "measured":
        return str(one["model"]["name"])
    return NETWORKS.get(network(one), network(one))


def gap_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text."""
    return found[["kind", "testbed", "experiment", "network"]].assign(
        **{
            "nodes": found["nodes"].astype(str),
            "batches": found["batches"],
            "(5) holds": found["meets"].map({True: "yes", False: "no"}).fillna(DASH),
            "EXETime (ms)": (1e3 * found["exetime_s"]).map(number),
            "executed (ms)": (1e3 * found["executed_s"]).map(number),
            "least possible (ms)": (1e3 * found["exact_s"]).map(number),
            "gap (%)": found["gap"].map(percent),
            "EXETime over executed": found["exetime_over_executed"].map(number),
        }
    )


def percent(share: float) -> str:
    return "0" if abs(share) < NOTHING else number(100 * share)


def told(found: pd.DataFrame) -> str:
    """How often greedy is the optimum, and how far it is from it at most."""
    best = (found["gap"].abs() < NOTHING).sum()
    below = (found["exetime_over_executed"] < 1 - 1e-9).sum()
    return (
        f"Of {len(found)} decisions {best} are optimal; the largest gap is {percent(found['gap'].max())} %. EXETime is "
        f"less than the executed time of the same batches in {below}."
    )


# --- random profiles


def random(group: ProbeGroup) -> pd.DataFrame:
    """A row a seed, family, number of layers, startup time and mode: how often optimal, how far (shares)."""
    import pandas as pd

    rows = [
        {"seed": one["seed"], "family": row["family"], "layers": row["layers"], "startup": row["startup"], "mode": mode,
         "profiles": of["compared"], **{name: _nan(of[name]) for name in ("optimal", "median", "p95", "max")}}
        for one in group.summaries for row in one["result"]["rows"] if row["family"] is not None
        for mode, of in row["modes"].items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def random_total(group: ProbeGroup) -> pd.DataFrame:
    """A row a seed and mode over all profiles, as text."""
    import pandas as pd

    rows = []
    for one in group.summaries:
        for row in (row for row in one["result"]["rows"] if row["family"] is None):
            for mode, of in row["modes"].items():
                rows.append({"seed": str(one["seed"]), "batches of": mode, "profiles": str(of["compared"]),
                             "optimal (%)": _shown(of["optimal"]), "median gap (%)": _shown(of["median"]),
                             "95th percentile (%)": _shown(of["p95"]), "largest (%)": _shown(of["max"])})  # fmt: skip
    return pd.DataFrame(rows)


def _shown(value: float | None) -> str:
    return DASH if value is None else percent(value)


def random_table(group: ProbeGroup) -> pd.DataFrame:
    """A row a family, number of layers and startup time, of the first seed, as text."""
    import pandas as pd

    rows = []
    for row in (row for row in group.first["result"]["rows"] if row["family"] is not None):
        greedy = row["modes"]["greedy"]
        rows.append(
            {
                "family": row["family"], "layers": str(row["layers"]),
                "startup over mean transfer": f"{row['startup']:g}",
                "profiles": str(row["profiles"]), "greedy optimal (%)": _shown(greedy["optimal"]),
                "median gap (%)": _shown(greedy["median"]), "95th percentile (%)": _shown(greedy["p95"]),
                "largest (%)": _shown(greedy["max"]),
                "no pair meets (5), Algorithm 1 (%)": _shown(row["no_pair"]["algorithm1"]),
                "Algorithm 2 (%)": _shown(row["no_pair"]["algorithm2"]),
                "EXETime below executed (%)": _shown(row["exetime_below"]),
                "EXETime takes the longer (%)": _shown(row["prefers_longer"]),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


# --- predicted against executed


def predictions(groups: Iterable[Group | ProbeGroup]) -> pd.DataFrame:
    """A row a run with a profile: the executed time that the pipeline model predicts, when the forward pass ended.

    Of runs whose pulls wait for nothing but themselves: BSP, pushes after the backward pass.
    """
    import pandas as pd

    columns = ["kind", "testbed", "experiment", "network", "setting", "nodes", "mode", "seed", "predicted_s",
               "observed_s", "off"]  # fmt: skip
    rows = []
    for group in groups:
        for one in group.used():
            said, took, mode = pipeline(one), times(one), mode_of(one)
            predicted = said.get("executed_s")
            if predicted and took and mode in (*MODES, EXACT) and said.get("push") == "after":
                rows.append((one["kind"], one["testbed"], one["experiment"], _network(one), one["setting"],
                             one["workers"], mode, one["seed"], predicted, took.forward_end_s,
                             took.forward_end_s / predicted - 1))  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def errors(found: pd.DataFrame) -> pd.DataFrame:
    """A row a kind, testbed and mode: observed over predicted, less 1, in percent."""
    import pandas as pd

    rows = []
    for (kind, testbed, mode), own in found.groupby(["kind", "testbed", "mode"], sort=False):
        off = 100 * own["off"]
        rows.append({"kind": kind, "testbed": testbed, "mode": mode, "runs": str(len(own)),
                     "least (%)": number(off.min()), "median (%)": number(off.median()),
                     "largest (%)": number(off.max())})  # fmt: skip
    return pd.DataFrame(rows)
