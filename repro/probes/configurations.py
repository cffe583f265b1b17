"""Program `configurations`: PipeDream's partitions of models for devices and networks (its Table 1).

Nothing is trained: a model's profile is estimated from a device, as on a simulated testbed, or read from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from repro import models, probes
from repro.algorithms.pipeline.layers import Profile
from repro.algorithms.pipeline.partition import best_partition, check_network
from repro.algorithms.pipeline.profile import estimate_profile, load_profile, nominal_inputs
from repro.core.config_folders import profile_path
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Count, Entries, Model, Positive, Text
from repro.core.not_none import not_none
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Device
from repro.probes import ResultPart
from repro.rank.factory import modelled_seconds


class Cluster(Model):
    """The entries of a testbed that a partition depends on."""

    model_config = ConfigDict(extra="ignore")
    part = "probe.clusters"

    device: Device | None = None
    beta_s_per_byte: Positive


class Row(Model):
    """A model whose profile is estimated for the device, or a profile's file; and numbers of machines."""

    part = "probe.rows"

    model: Text | None = None
    options: Entries = Field(default_factory=dict)  # of the model
    input_shape: list[Count] | None = None
    classes: Count | None = None
    batch: Count | None = None  # of each machine
    profile: Text | None = None  # a file, instead of the model
    cluster: Text
    device: Device | None = None  # null: the cluster's
    machines: list[Count]
    bandwidth_Bps: list[Positive] | None = None  # null: the cluster's

    @model_validator(mode="after")
    def _complete(self) -> Row:
        modelled = {name: getattr(self, name) for name in ("model", "input_shape", "classes", "batch")}
        if self.profile is None and (missing := [name for name, value in modelled.items() if value is None]):
            raise InputError(f"probe.rows: a row lacks {' and '.join(missing)}, or a profile")
        return self


class Options(Model):
    """Every row is partitioned under every cost model."""

    cost_models: Annotated[list[Literal["paper", "released-sum", "released-max"]], Field(min_length=1)]
    clusters: dict[Text, Cluster]
    rows: Annotated[list[Row], Field(min_length=1)]


class Stage(ResultPart):
    first: int
    last: int
    replicas: int
    seconds: float


class PartitionPlan(ResultPart):
    """A partition, with the cost model's times per minibatch (s). If the profile branches, first, last and cuts refer
    to its layers in stage order (`Partition.order`)."""

    model: str
    hardware: str
    batch: int | None
    cluster: str
    machines: int
    bandwidth_Bps: float
    cost_model: str
    config: str
    cuts: list[int]
    stages: list[Stage]
    pipeline_s: float
    data_parallel_s: float
    single_s: float
    noam: int
    optima: int
    speedup_single: float
    speedup_bsp: float


class Result(ResultPart):
    rows: list[PartitionPlan]


def check(config: RunConfig) -> None:
    for row in config.probe.rows:
        if row.cluster not in config.probe.clusters:
            raise unknown_name("cluster in probe.rows", row.cluster, config.probe.clusters)
        for machines in row.machines:
            for bandwidth in row_bandwidths(row, config.probe.clusters):
                check_network([machines], [bandwidth])
        if row.model is not None:
            models.input_kind(row.model)
            row_device(row, config.probe.clusters)


def run_alone(config: RunConfig) -> probes.Finding:
    probe = config.probe
    probes.announce_iterations(len(probe.rows))
    rows = []
    for number, row in enumerate(probe.rows, 1):
        rows += partition_rows(row, probe.clusters, probe.cost_models)
        probes.report_progress(number)
    metrics = {f"speedup_bsp/{row_label(row)}": row["speedup_bsp"] for row in rows}
    first = rows[0]
    line = f"{len(rows)} partitions; {row_label(first)}: {first['config']}, {first['speedup_bsp']:.3g} x data parallel"
    return probes.Finding({"rows": rows}, metrics, line)


def partition_rows(row: Row, clusters: Mapping[str, Cluster], cost_models: list[str]) -> list[dict[str, Any]]:
    """The result's rows for one row: every number of machines, bandwidth and cost model."""
    profile, rows = profile_of(row, clusters), []
    for machines, bandwidth, cost_model in product(row.machines, row_bandwidths(row, clusters), cost_models):
        best = best_partition(profile, (machines,), (bandwidth,), cost_model)
        rows.append(
            {
                "model": profile.model,
                "hardware": profile.hardware,
                "batch": profile.batch,
                "cluster": row.cluster,
                "machines": machines,
                "bandwidth_Bps": bandwidth,
                "cost_model": cost_model,
                "config": best.layout.config,
                "cuts": best.layout.cuts,
                "stages": [asdict(stage) for stage in best.stages],
                "pipeline_s": best.pipeline_s,
                "data_parallel_s": best.data_parallel_s,
                "single_s": best.single_s,
                "noam": best.layout.noam,
                "optima": best.optima,
                "speedup_single": best.single_s / best.pipeline_s,
                "speedup_bsp": best.data_parallel_s / best.pipeline_s,
            }
        )
    return rows


def profile_of(row: Row, clusters: Mapping[str, Cluster]) -> Profile:
    """The profile of the row's file, or the estimate for its device."""
    if row.profile is not None:
        return load_profile(profile_path(row.profile))
    name, classes, batch = not_none(row.model), not_none(row.classes), not_none(row.batch)
    shape, used = tuple(not_none(row.input_shape)), row_device(row, clusters)
    blocks = modelled_seconds(name, shape, classes, batch, used, tuple(row.options.items()))
    model = models.build_model(name, shape, classes, 0, "meta", **row.options)
    return estimate_profile(model, blocks, nominal_inputs(model, shape, batch), used.name or row.cluster, name)


def row_device(row: Row, clusters: Mapping[str, Cluster]) -> Any:
    """The row's device, or else its cluster's; InputError if there is neither."""
    if (chosen := row.device or clusters[row.cluster].device) is None:
        raise InputError(f"cluster {row.cluster}: has no device, nor has the row of {row.model}")
    return chosen


def row_bandwidths(row: Row, clusters: Mapping[str, Cluster]) -> list[float]:
    """Bytes a second: the row's, or else its cluster's."""
    return row.bandwidth_Bps or [1 / clusters[row.cluster].beta_s_per_byte]


def row_label(row: dict[str, Any]) -> str:
    """A name for a row of the result, in the characters that MLflow allows."""
    gbit = row["bandwidth_Bps"] * 8 / 1e9
    return f"{row['model']}-{row['machines']}-{row['cluster']}-{gbit:.4g}Gbit-{row['cost_model']}"
