"""Program `lengths`: the lengths of a data set's samples (eager-SGD Figure 2 a: frames of UCF101's videos)."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from repro import data, probes
from repro.core.errors import InputError
from repro.core.fields import Count, Model
from repro.data.readers.sequences import Sequences
from repro.experiment.schema import RunConfig
from repro.probes import ResultPart

KINDS = ("sequences", "sentence pairs")  # of samples that have lengths


class Options(Model):
    bins: Count  # the most bars of the histogram, which all splits share


class Split(ResultPart):
    """Lengths of a split's n samples; sd is divided by n. histogram: [low, high, count] for low <= length < high."""

    n: int
    min: int
    max: int
    median: float
    mean: float
    sd: float
    histogram: list[tuple[int, int, int]]


class Result(ResultPart):
    """splits: train and test."""

    splits: dict[str, Split]


def check(config: RunConfig) -> None:
    name = config.dataset.name
    if data.input_kind(name) not in KINDS:
        fitting = ", ".join(other for other in data.REGISTRY.usable() if data.input_kind(other) in KINDS)
        raise InputError(f"program lengths: the samples of data set '{name}' have one size; use one of {fitting}")


def run_alone(config: RunConfig) -> probes.Finding:
    dataset = data.dataset_for(config)
    probes.announce_iterations(1)
    train, test = dataset.train, dataset.test
    assert isinstance(train, Sequences) and isinstance(test, Sequences)
    splits = {"train": train.lengths.tolist(), "test": test.lengths.tolist()}
    edges = histogram_bars([length for each in splits.values() for length in each], config.probe.bins)
    described = {name: describe_lengths(each, edges) for name, each in splits.items()}
    probes.report_progress(1)
    metrics = {
        f"{name}/{key}": value for name, each in described.items() for key, value in each.items() if key != "histogram"
    }
    line = ", ".join(
        f"{name}: {each['n']} samples, {each['min']} to {each['max']}, median {each['median']:g}, sd {each['sd']:.3g}"
        for name, each in described.items()
    )
    return probes.Finding({"splits": described}, metrics, line, dataset=dataset)


def histogram_bars(lengths: list[int], count: int) -> list[tuple[int, int]]:
    """(low, high) of equal bars, at most `count`, from the shortest to the longest."""
    least, most = min(lengths), max(lengths)
    width = -(-(most + 1 - least) // count)
    return [(low, low + width) for low in range(least, most + 1, width)]


def describe_lengths(lengths: list[int], edges: list[tuple[int, int]]) -> dict[str, Any]:
    """Statistics and histogram of a split."""
    least, width = edges[0][0], edges[0][1] - edges[0][0]
    counts = np.bincount((np.array(lengths) - least) // width, minlength=len(edges)).tolist()
    return {
        "n": len(lengths),
        "min": min(lengths),
        "max": max(lengths),
        "median": statistics.median(lengths),
        "mean": statistics.fmean(lengths),
        "sd": statistics.pstdev(lengths),
        "histogram": [[low, high, count] for (low, high), count in zip(edges, counts)],
    }
