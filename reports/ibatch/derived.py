"""How ours is computed where no verb reaches: rests of times, decisions, weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pandas as pd

from repro.algorithms.batching.modes import layerwise
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import timeline
from repro.answers.claims.compute import Outcome, function
from repro.answers.claims.evaluate import ratio
from repro.answers.tables.columns import computed
from repro.answers.tables.loading import Summary
from repro.answers.tables.runs import Runs

MODES = ("default", "layerwise", "ibatch")
WHOLE = "per_rank.forward_end_s"  # from the first pull asked to the end of the forward pass


# --- Figures 3, 4 and 7: what pulls and forward passes took, and what was decided


@function
def ratio_of_rests(group: Runs, experiment: str, of: str, over: str, column: str) -> Outcome:
    """A time of a variant over another one's that is a rest of two (what overlaps of pulls and forward pass, or what
    does not): it is wrong by that share of a whole."""
    sides = []
    for variant in (of, over):
        runs = group.frame[(group.frame["experiment"] == experiment) & (group.frame["variant"] == variant)]
        if WHOLE not in runs or not runs[WHOLE].notna().any():
            return Outcome(reason=f"no pulls recorded by {variant} of {experiment}")
        rests = computed(runs, column).clip(lower=0.0)
        sides.append(dict(zip(runs["seed"], rests)))
    above, below = sides
    return Outcome({int(seed): ratio(above[seed], below[seed]) for seed in sorted({*above} & {*below})})


@function
def layer_ratio(group: Runs, layer: str, above: str, below: str) -> Outcome:
    """Of a layer: its pull over its forward pass, or the reverse; by the profile that the default's run measured."""
    seconds = {seed: waits(run).get(layer) for seed, run in group.seeds("default").items()}
    values = {seed: of[above] / of[below] for seed, of in seconds.items() if of}
    return Outcome(values) if values else Outcome(reason=f"no profile of default with a layer {layer}")


def waits(run: Summary) -> dict[str, dict[str, float]]:
    """Layer -> seconds of its pull, alone, and of its forward pass; of a run that measured its profile."""
    if not (of := (run.get("pipeline") or {}).get("profile")):
        return {}
    each = zip(of["layers"], of["transfer_s"], of["forward_s"], strict=True)
    return {name: {"pull": of["startup_s"] + transfer, "forward": forward} for name, transfer, forward in each}


@function
def waiting_layers(group: Runs) -> Outcome:
    """Of layer by layer: how many layers behind the first wait longer for their pull than they then compute, in the
    pipeline of the profile that the run measured."""
    found = {}
    for seed, run in group.seeds("layerwise").items():
        if of := (run.get("pipeline") or {}).get("profile"):
            profile = PullProfile.parse(of, f"seed {seed}")
            computing = [box for box in timeline(profile, layerwise(profile)) if box.kind == "forward"]
            waits = [(now.start - before.end, now.end - now.start) for before, now in pairwise(computing)]
            found[seed] = float(sum(wait > compute for wait, compute in waits))
    return Outcome(found) if found else Outcome(reason="no profile of layerwise")


@function
def batches_count(group: Runs) -> Outcome:
    """How many batches iBatch decided on."""
    decided = {seed: batches(run) for seed, run in group.seeds("ibatch").items()}
    values = {seed: float(len(pulls)) for seed, pulls in decided.items() if pulls}
    return Outcome(values) if values else Outcome(reason="no batches of ibatch")


def batches(run: Summary) -> Sequence[tuple[int, int]]:
    """First and last layer of each batch, from 1."""
    return (run.get("pipeline") or {}).get("batches") or ()


# --- measured


@function
def equal_weights(group: Runs) -> Outcome:
    """Share of the numbers of workers at which all three modes end with the same weights, bit for bit."""
    names = ["seed", "workers", "weights_sha256"]
    ends = [[run.get(name) for name in names] for run in group.records.values() if not run["breakdown"]]
    of = pd.DataFrame(ends, columns=names).groupby(names[:2])["weights_sha256"].agg(["size", "nunique"])
    same = of.loc[of["size"] == len(MODES), "nunique"] == 1
    values = {int(seed): float(share) for seed, share in same.groupby("seed").mean().items()}
    return Outcome(values) if values else Outcome(reason="no number of workers with all three modes")
