"""Program `configurations`: what PipeDream's partitioner finds for models, devices and networks (its Table 1).

Nothing is trained: a model's profile is estimated from a device as testbeds do it, or read from a file.

    probe.cost_models  of repro.pipeline.cost_models.COMBINE: each row's partition under each of them
    probe.clusters     name -> a testbed: {device, beta_s_per_byte, ...}
    probe.rows         [{model, options (its own, may be left out), input_shape, classes, batch (of a machine),
                         cluster, machines [...], bandwidth_Bps [...] (left out: the cluster's)}, ...]
                       or, in the place of model to batch, {profile: FILE}, absolute or from the project's folder

A row's `device`, where it has one, counts in the place of the cluster's.

Result: {rows [{model, hardware, batch, cluster, machines, bandwidth_Bps, cost_model, config, cuts, stages [{first,
last, replicas, seconds}], pipeline_s, data_parallel_s, single_s, noam, optima, speedup_single, speedup_bsp}]}; the
times are those of the cost model, a minibatch each. Where a profile branches, first, last and cuts count its layers
stage after stage (`Partition.order`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from repro import models, probes
from repro.common.errors import InputError, unknown
from repro.common.paths import PROJECT
from repro.fabric.base import Fabric
from repro.pipeline.cost_models import COMBINE
from repro.pipeline.layers import Profile
from repro.pipeline.partition import check_network, partition
from repro.pipeline.profile import estimated, nominal_inputs, read
from repro.probes._common import facts
from repro.rank.factory import modelled_seconds
from repro.timing.device import check_device

MODELLED = ("model", "input_shape", "classes", "batch")  # what an estimated profile needs
ENTRIES = (*MODELLED, "options", "profile", "cluster", "device", "machines", "bandwidth_Bps")


def ranks(config: dict[str, Any]) -> int:
    return config["workers"]


def check(config: dict[str, Any]) -> None:
    """InputError for parameters that cannot be used."""
    if config["workers"] != 1:
        raise InputError(f"workers={config['workers']}: program configurations only computes; must be 1")
    probe = config["probe"]
    if not isinstance(probe.get("cost_models"), list) or not probe["cost_models"]:
        raise InputError(f"probe.cost_models={probe.get('cost_models')}: must be a list of {', '.join(COMBINE)}")
    for name in probe["cost_models"]:
        if name not in COMBINE:
            raise unknown("cost model of probe.cost_models", str(name), COMBINE)
    if not isinstance(probe.get("rows"), list) or not probe["rows"]:
        raise InputError(f"probe.rows={probe.get('rows')}: must be a list with a mapping for each model and network")
    for number, row in enumerate(probe["rows"]):
        try:
            check_row(row, probe.get("clusters") or {})
        except InputError as error:
            raise InputError(f"probe.rows[{number}]: {error}") from None


def check_row(row: Any, clusters: Mapping[str, Any]) -> None:
    """InputError unless a row says which layers on which machines."""
    if not isinstance(row, dict):
        raise InputError(f"{row}: must be a mapping")
    for name in row:
        if name not in ENTRIES:
            raise unknown("entry", str(name), ENTRIES)
    if row.get("cluster") not in clusters:
        raise unknown("cluster", str(row.get("cluster")), clusters)
    needed = ("machines",) if "profile" in row else (*MODELLED, "machines")
    if missing := [name for name in needed if name not in row]:
        raise InputError(f"lacks {' and '.join(missing)}")
    if not isinstance(row["machines"], list) or not isinstance(row.get("bandwidth_Bps", []), list):
        raise InputError("machines and bandwidth_Bps must be lists")
    for machines in row["machines"]:
        for bandwidth in bandwidths(row, clusters):
            check_network([machines], [bandwidth])
    if "profile" not in row:
        check_device(device(row, clusters))
        models.takes(row["model"])
        if not isinstance(row["batch"], int) or row["batch"] < 1:
            raise InputError(f"batch={row['batch']}: must be a whole number, 1 or more")


def run(fabric: Fabric, config: dict[str, Any], folder: Path) -> None:
    """All of it."""
    probe = config["probe"]
    probes.start(fabric, len(probe["rows"]))
    found = []
    for number, row in enumerate(probe["rows"], 1):
        found += partitions(row, probe["clusters"], probe["cost_models"])
        probes.progress(fabric, number)
    metrics = {f"speedup_bsp/{label(row)}": row["speedup_bsp"] for row in found}
    first = found[0]
    line = f"{len(found)} partitions; {label(first)}: {first['config']}, {first['speedup_bsp']:.3g} x data parallel"
    probes.finish(fabric, config, folder, facts(fabric, None, 0, None), {"rows": found}, metrics, line)


def partitions(row: dict[str, Any], clusters: Mapping[str, Any], cost_models: list[str]) -> list[dict[str, Any]]:
    """The result's rows of a row: every number of machines, bandwidth and cost model."""
    profile, rows = profile_of(row, clusters), []
    for machines in row["machines"]:
        for bandwidth in bandwidths(row, clusters):
            for cost_model in cost_models:
                found = partition(profile, (machines,), (bandwidth,), cost_model)
                said = {
                    "model": profile.model,
                    "hardware": profile.hardware,
                    "batch": profile.batch,
                    "cluster": row["cluster"],
                    "machines": machines,
                    "bandwidth_Bps": bandwidth,
                    "cost_model": cost_model,
                    "config": found.layout.config,
                    "cuts": found.layout.cuts,
                    "stages": [asdict(stage) for stage in found.stages],
                    "pipeline_s": found.pipeline_s,
                    "data_parallel_s": found.data_parallel_s,
                    "single_s": found.single_s,
                    "noam": found.layout.noam,
                    "optima": found.optima,
                    "speedup_single": found.single_s / found.pipeline_s,
                    "speedup_bsp": found.data_parallel_s / found.pipeline_s,
                }
                rows.append(said)
    return rows


def profile_of(row: dict[str, Any], clusters: Mapping[str, Any]) -> Profile:
    """Read from the row's file, or estimated for its device."""
    if "profile" in row:
        return read(PROJECT / row["profile"])
    options, shape = row.get("options") or {}, tuple(row["input_shape"])
    given = row["model"], shape, row["classes"], row["batch"]
    used = device(row, clusters)
    blocks = modelled_seconds(*given, tuple(used.items()), tuple(options.items()))
    model = models.build(row["model"], shape, row["classes"], 0, "meta", **options)
    inputs = nominal_inputs(model, shape, row["batch"])
    return estimated(model, blocks, inputs, str(used.get("name", row["cluster"])), row["model"])


def device(row: dict[str, Any], clusters: Mapping[str, Any]) -> Any:
    """The row's own device, or its cluster's."""
    return row.get("device") or clusters[row["cluster"]].get("device")


def bandwidths(row: dict[str, Any], clusters: Mapping[str, Any]) -> list[float]:
    """Those of the row, in bytes a second, or its cluster's one."""
    if "bandwidth_Bps" in row:
        return row["bandwidth_Bps"]
    beta = clusters[row["cluster"]].get("beta_s_per_byte")
    if not isinstance(beta, int | float) or isinstance(beta, bool) or not beta > 0:
        raise InputError(f"cluster {row['cluster']}: beta_s_per_byte={beta}: must be a number above 0")
    return [1 / beta]


def label(row: dict[str, Any]) -> str:
    """What distinguishes a row of the result, in the characters that MLflow allows in names."""
    gbit = row["bandwidth_Bps"] * 8 / 1e9
    return f"{row['model']}-{row['machines']}-{row['cluster']}-{gbit:.4g}Gbit-{row['cost_model']}"
