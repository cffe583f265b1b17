"""What the probes of models, data and plans find."""

from __future__ import annotations

from typing import Any

from repro.records.probe_results.parts import Found, Result, Spread


class Statistics(Found):
    """Seconds; sd is divided by n - 1."""

    n: int
    min: float
    max: float
    median: float
    mean: float
    sd: float


class Runtimes(Result, program="runtimes"):
    """seconds: of the passes of each batch, in the order in which they ran; lengths: what each is padded to."""

    what: str
    batches: int
    seconds: list[float]
    statistics: Statistics
    lengths: list[int] | None
    unit_note: str


class Split(Found):
    """Of a split's n samples; sd is divided by n. histogram: [low, high, count], of lengths from low to high - 1."""

    n: int
    min: int
    max: int
    median: float
    mean: float
    sd: float
    histogram: list[tuple[int, int, int]]


class Lengths(Result, program="lengths"):
    """By split: train and test."""

    splits: dict[str, Split]


class Layer(Found):
    """A block: bytes of its outputs of a minibatch, and of its parameters."""

    name: str
    activation_bytes: int
    parameter_bytes: int


class LayerSizes(Result, program="layer_sizes"):
    """batch: samples of a minibatch."""

    layers: list[Layer]
    parameter_bytes: int
    batch: int


class LayerTimes(Result, program="layer_times"):
    """profile: of `repro.algorithms.pipeline.layers.Profile`. seconds: of a minibatch."""

    profile: dict[str, Any]
    seconds: float
    parameter_bytes: int


class Stage(Found):
    first: int
    last: int
    replicas: int
    seconds: float


class Partitioned(Found):
    """A partition; times (s) are the cost model's, of a minibatch. Where a profile branches, first, last and cuts
    count its layers stage after stage (`Partition.order`)."""

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
    rows: list[Partitioned]


class Gaps(Found):
    """Of a mode's executed time over that of `exact`, less 1 (the gap). compared: profiles that have such batches, all
    but for `constrained`; optimal: the fraction of them without a gap."""

    compared: int
    optimal: float | None
    median: float | None
    p95: float | None
    max: float | None


class Batched(Found):
    """Profiles of a family, number of layers and startup time; a last row, where these are null, has all profiles.

    modes: by mode; `constrained` is the optimum of (4) under (5) with two or more batches, where there is one.
    no_pair: by algorithm the fraction of profiles in which no pair meets (5) in its line 3. exetime_below: in which
    EXETime of greedy's batches is less than their executed time. prefers_longer: in which EXETime takes the one of
    Algorithms 1 and 2 that executes in more time; _max: by how much more at most, as a fraction of the other's.
    """

    family: str | None
    layers: int | None
    startup: float | None
    profiles: int
    modes: dict[str, Gaps]
    no_pair: dict[str, float]
    exetime_below: float
    prefers_longer: float
    prefers_longer_max: float


class Batching(Result, program="batching"):
    rows: list[Batched]


class Selected(Found):
    """A method on a device. selected: elements that it chose; found: of them among the k largest. share: its median
    time over `iteration_s`, the published one of an iteration."""

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
    rows: list[Selected]
