"""Results of the probes of models, data and plans."""

from __future__ import annotations

from typing import Any

from repro.records.probe_results.parts import Result, ResultPart, Spread


class Statistics(ResultPart):
    """Seconds; sd is divided by n - 1."""

    n: int
    min: float
    max: float
    median: float
    mean: float
    sd: float


class Runtimes(Result, program="runtimes"):
    """seconds: of each batch's passes, in order of execution; lengths: the length that each batch is padded to."""

    what: str
    batches: int
    seconds: list[float]
    statistics: Statistics
    lengths: list[int] | None
    unit_note: str


class Split(ResultPart):
    """Lengths of a split's n samples; sd is divided by n. histogram: [low, high, count] for low <= length < high."""

    n: int
    min: int
    max: int
    median: float
    mean: float
    sd: float
    histogram: list[tuple[int, int, int]]


class Lengths(Result, program="lengths"):
    """splits: train and test."""

    splits: dict[str, Split]


class Layer(ResultPart):
    """A block; activation_bytes: of its outputs for a minibatch."""

    name: str
    activation_bytes: int
    parameter_bytes: int


class LayerSizes(Result, program="layer_sizes"):
    """batch: samples per minibatch."""

    layers: list[Layer]
    parameter_bytes: int
    batch: int


class LayerTimes(Result, program="layer_times"):
    """profile: as in `repro.algorithms.pipeline.layers.Profile`. seconds: per minibatch."""

    profile: dict[str, Any]
    seconds: float
    parameter_bytes: int


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


class Configurations(Result, program="configurations"):
    rows: list[PartitionPlan]


class GapStatistics(ResultPart):
    """Statistics of the gap: a mode's executed time divided by that of `exact`, minus 1. compared: profiles with such
    batches (all, except for `constrained`); optimal: the fraction without a gap."""

    compared: int
    optimal: float | None
    median: float | None
    p95: float | None
    max: float | None


class FamilyStatistics(ResultPart):
    """Statistics of the profiles with one family, number of layers and startup time; null in the row of all profiles.

    modes: by mode; `constrained` is the optimum of (4) under (5) with two or more batches, if it exists. Fractions of
    profiles: no_pair: by algorithm, no pair meets (5) in its line 3; exetime_below: EXETime of greedy's batches is less
    than their executed time; prefers_longer: EXETime selects the one of Algorithms 1 and 2 that takes longer.
    prefers_longer_max: the largest excess, as a fraction of the other's time.
    """

    family: str | None
    layers: int | None
    startup: float | None
    profiles: int
    modes: dict[str, GapStatistics]
    no_pair: dict[str, float]
    exetime_below: float
    prefers_longer: float
    prefers_longer_max: float


class Batching(Result, program="batching"):
    rows: list[FamilyStatistics]


class SelectionTime(ResultPart):
    """A method on a device. selected: number of elements selected; found: those among the k largest. share: its median
    time divided by `iteration_s`, the published time of an iteration."""

    model: str
    device: str
    elements: int
    k: int
    method: str
    seconds: Spread
    selected: int
    found: int
    iteration_s: float
    share: float


class Selection(Result, program="selection"):
    rows: list[SelectionTime]
