"""iBatch's claims: numbers that no verb computes, on overlap, pulled batches and weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pandas as pd

from repro.algorithms.batching.decision import layer_batches
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import batch_timeline
from repro.answers.claims.compute import Outcome, function
from repro.answers.claims.evaluate import safe_ratio
from repro.answers.tables.columns import computed
from repro.answers.tables.runs import Runs
from repro.records.filters import select_rows
from repro.records.record import Found

MODES = DEFAULT, LAYERWISE, IBATCH = "default", "layerwise", "ibatch"
WHOLE = "per_rank.forward_end_s"  # from the first pull's request to the end of the forward pass


# --- Figures 3, 4 and 7: pulls, forward passes and batches


@function
def ratio_of_rests(group: Runs, experiment: str, of: str, over: str, column: str) -> Outcome:
    """A variant's time over another's, each a difference of two times (the part of pulls and forward pass that
    overlaps, or the part that does not) and at least 0."""
    sides = []
    for variant in (of, over):
        runs = select_rows(group.frame, {"experiment": experiment, "variant": variant})
        if WHOLE not in runs or not runs[WHOLE].notna().any():
            return Outcome(reason=f"no pulls recorded by {variant} of {experiment}")
        sides.append(dict(zip(runs["seed"], computed(runs, column).clip(lower=0.0))))
    above, below = sides
    return Outcome({int(seed): safe_ratio(above[seed], below[seed]) for seed in sorted({*above} & {*below})})


@function
def layer_ratio(group: Runs, layer: str, above: str, below: str) -> Outcome:
    """A layer's pull over its forward pass, or the reverse, from the profile measured by the default's run."""
    seconds = {seed: read_waits(run).get(layer) for seed, run in group.seeds("default").items()}
    values = {seed: waits[above] / waits[below] for seed, waits in seconds.items() if waits}
    return Outcome(values) if values else Outcome(reason=f"no profile of default with a layer {layer}")


def read_waits(run: Found) -> dict[str, dict[str, float]]:
    """layer -> seconds of its pull, if pulled alone, and of its forward pass; {} for a run that measured no profile."""
    if not (profile := (run.training.pipeline or {}).get("profile")):
        return {}
    layers = zip(profile["layers"], profile["transfer_s"], profile["forward_s"], strict=True)
    return {name: {"pull": profile["startup_s"] + pull, "forward": forward} for name, pull, forward in layers}


@function
def waiting_layers(group: Runs) -> Outcome:
    """With layer-by-layer pulls: the number of layers after the first that wait for their pull longer than they
    compute, in the timeline of the run's measured profile."""
    values = {}
    for seed, run in group.seeds("layerwise").items():
        if measured := (run.training.pipeline or {}).get("profile"):
            profile = PullProfile.parse(measured, f"seed {seed}")
            computing = [box for box in batch_timeline(profile, layer_batches(profile)) if box.kind == "forward"]
            late = (now.start - before.end > now.end - now.start for before, now in pairwise(computing))
            values[seed] = float(sum(late))
    return Outcome(values) if values else Outcome(reason="no profile of layerwise")


@function
def batches_count(group: Runs) -> Outcome:
    """The number of batches that iBatch chose."""
    values = {seed: float(len(pulls)) for seed, run in group.seeds("ibatch").items() if (pulls := read_batches(run))}
    return Outcome(values) if values else Outcome(reason="no batches of ibatch")


def read_batches(run: Found) -> Sequence[tuple[int, int]]:
    """The first and last layer of each batch, counted from 1."""
    return (run.training.pipeline or {}).get("batches") or ()


# --- measured


@function
def equal_weights(group: Runs) -> Outcome:
    """The share of numbers of workers at which all three modes end with weights equal bit for bit."""
    names = ["seed", "workers", "weights_sha256"]
    runs = (run for run in group.records.values() if not run.identity.breakdown)
    ends = [(run.identity.seed, run.identity.workers, run.training.weights_sha256) for run in runs]
    counts = pd.DataFrame(ends, columns=names).groupby(names[:2])["weights_sha256"].agg(["size", "nunique"])
    same = counts.loc[counts["size"] == len(MODES), "nunique"] == 1
    values = {int(seed): float(share) for seed, share in same.groupby("seed").mean().items()}
    return Outcome(values) if values else Outcome(reason="no number of workers with all three modes")
