"""Evaluation on held-out training samples, to tune without the test set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from repro.core.errors import InputError

if TYPE_CHECKING:
    from repro.data.base import Dataset


def validation_counts(samples: object, train: int) -> tuple[int, int]:
    """(samples to train on, samples held out) of `train` samples; InputError unless both are at least 1."""
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples < train:
        raise InputError(f"dataset.validation={samples}: must be a whole number from 1 to {train - 1}, or null")
    return train - samples, samples


def held_out(dataset: Dataset, samples: int | None) -> Dataset:
    """The data set with the last `samples` training samples as test set; None: unchanged."""
    from repro.data.base import Split

    if samples is None:
        return dataset
    whole = dataset.train
    if not isinstance(whole, Split):
        raise InputError(f"dataset.validation={samples}: {dataset.name} is not in memory as one tensor")
    start, _ = validation_counts(samples, len(whole))
    train, test = (
        replace(whole, x=whole.x[rows], y=whole.y[rows]) for rows in (slice(start), slice(start, len(whole)))
    )
    return replace(dataset, name=f"{dataset.name}-validation", train=train, test=test)
