"""Figures 1 and 5, configurations by cost model, and faster networks, as data frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repro.reports.pipedream.experiments import FIG1_DEVICES, FIG1_MODELS, TABLE
from repro.reports.pipedream.published import Published
from repro.reports.pipelines import overhead, samples_s, series
from repro.reports.probes import ProbeGroup
from repro.reporting.stats import DASH, TIMES, number

if TYPE_CHECKING:
    import pandas as pd

COST_MODELS = ("paper", "released-sum", "released-max")


def overheads(group: ProbeGroup) -> pd.DataFrame:
    """Figure 1: a row a model, GPU and number of workers: communication overhead, and throughput over one worker's."""
    import pandas as pd

    rows = []
    for (model, device), of in series(group.summaries).items():
        for workers, run in of.items():
            rows.append(
                {
                    "model": FIG1_MODELS.get(model, model),
                    "device": FIG1_DEVICES.get(device, device),
                    "workers": workers,
                    "overhead": overhead(run),
                    "scaling": samples_s(run) / samples_s(of[1]) if 1 in of else math.nan,
                }
            )
    order = {name: i for i, name in enumerate((*FIG1_MODELS.values(), *FIG1_DEVICES.values()))}
    frame = pd.DataFrame(rows, columns=["model", "device", "workers", "overhead", "scaling"])
    place = frame[["model", "device"]].map(lambda name: order.get(name, 99))
    return frame.assign(a=place["model"], b=place["device"]).sort_values(["a", "b", "workers"]).drop(
        columns=["a", "b"]).reset_index(drop=True)  # fmt: skip


def overhead_table(found: pd.DataFrame) -> pd.DataFrame:
    """A row a model and GPU, a column a number of workers: overhead in percent."""
    import pandas as pd

    rows = []
    workers = sorted(found["workers"].unique())
    for (model, device), own in found.groupby(["model", "device"], sort=False):
        by = own.set_index("workers")["overhead"]
        rows.append({"model": model, "GPU": device,
                     **{f"{n}": f"{100 * by[n]:.0f}" if n in by.index else DASH for n in workers}})  # fmt: skip
    return pd.DataFrame(rows)


def layers(group: ProbeGroup) -> pd.DataFrame:
    """Figure 5: a row a layer: MB of its output for a minibatch, of its parameters, and of all parameters before it."""
    import pandas as pd

    result = group.first["result"]
    return pd.DataFrame(
        [
            {"layer": layer["name"], "output_mb": 1e-6 * layer["activation_bytes"],
             "parameters_mb": 1e-6 * layer["parameter_bytes"],
             "reduction": 1 - layer["activation_bytes"] / result["parameter_bytes"]}
            for layer in result["layers"]
        ]
    )  # fmt: skip


def configurations(group: ProbeGroup, paper: Published) -> pd.DataFrame:
    """A row a model, cluster, number of machines and bandwidth: the paper's configuration, and each cost model's."""
    import pandas as pd

    known = {(row.model, row.machines, row.cluster): paper.configuration(row) for row in TABLE}
    lines: dict[tuple, dict[str, str]] = {}
    for entry in rows_of(group):
        model, cluster = named(entry), str(entry["cluster"])[-1:].upper()
        place = (model, entry["machines"], cluster, entry["bandwidth_Bps"])
        line = lines.setdefault(place, {
            "model": model, "machines": str(entry["machines"]), "cluster": str(entry["cluster"]),
            "Gbit/s": number(8e-9 * entry["bandwidth_Bps"]), "paper prints": known.get(place[:3]) or DASH,
        })  # fmt: skip
        name = entry["cost_model"]
        line[name] = entry["config"]
        line[f"{name}: over BSP"] = number(entry["speedup_bsp"]) + TIMES
        line[f"{name}: optima"] = str(entry["optima"])
    names = list(dict.fromkeys([*COST_MODELS, *(entry["cost_model"] for entry in rows_of(group))]))
    names = [name for name in names if any(name in line for line in lines.values())]
    columns = ["model", "machines", "cluster", "Gbit/s", "paper prints", *names,
               *(f"{n}: over BSP" for n in names), *(f"{n}: optima" for n in names)]  # fmt: skip
    return pd.DataFrame(list(lines.values()), columns=columns).fillna(DASH)


def agreements(table: pd.DataFrame) -> str:
    """How often each cost model gives the configuration that the paper prints."""
    known = table[table["paper prints"] != DASH]
    found = [f"`{name}` {(known[name] == known['paper prints']).sum()} of {len(known)}"
             for name in known.columns if f"{name}: over BSP" in known.columns]  # fmt: skip
    return ", ".join(found)


def named(entry: Mapping[str, Any]) -> str:
    """A model of a probe's row as the paper writes it."""
    return "VGG16" if entry["model"] == "vgg16_imagenet" else FIG1_MODELS.get(entry["model"], entry["model"])


def rows_of(group: ProbeGroup) -> list[dict]:
    """Every row of a probe of configurations, all runs."""
    return [entry for run in group.summaries for entry in run["result"]["rows"]]


def what_if(group: ProbeGroup) -> pd.DataFrame:
    """A row a cost model, model, number of machines and bandwidth: configuration and speed-ups that are predicted."""
    import pandas as pd

    columns = ["cost_model", "model", "machines", "gbit", "config", "noam", "speedup_single", "speedup_bsp"]
    frame = pd.DataFrame(
        [
            {"cost_model": entry["cost_model"], "model": f"{named(entry)}, {entry['cluster']}",
             "machines": entry["machines"], "gbit": 8e-9 * entry["bandwidth_Bps"], "config": entry["config"],
             "noam": entry["noam"], "speedup_single": entry["speedup_single"], "speedup_bsp": entry["speedup_bsp"]}
            for entry in rows_of(group)
        ],
        columns=columns,
    )  # fmt: skip
    return frame.sort_values(["cost_model", "model", "machines", "gbit"]).reset_index(drop=True)


def what_if_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text, a row a bandwidth."""
    return found[["cost_model", "model", "machines"]].astype(str).assign(
        **{
            "Gbit/s": found["gbit"].map(number),
            "configuration": found["config"],
            "NOAM": found["noam"].astype(str),
            "over 1 machine": found["speedup_single"].map(number) + TIMES,
            "over BSP": found["speedup_bsp"].map(number) + TIMES,
        }
    ).rename(columns={"cost_model": "cost model"})  # fmt: skip
