"""Bytes of the rank that needs most: weights, gradient, momentum, activations, and what a strategy adds."""

from __future__ import annotations

from repro.ranking.candidates import Candidate
from repro.ranking.forms import stages_of
from repro.ranking.setting import Setting

VECTORS = 3  # weights, gradient, momentum


def of(candidate: Candidate, setting: Setting, kept: float) -> float:
    """kept: bytes that a whole model's backward pass keeps of its forward pass, for one worker's minibatch.

    A pipeline's stage holds its own layers, and activations of all minibatches that it has in flight; PipeDream's a
    version of its weights for each.
    """
    found = stages_of(candidate, setting)
    if found is None:
        return (VECTORS + candidate.vectors) * setting.nbytes + kept
    layers = setting.profile.layers
    out = sum(layer.activation_bytes for layer in layers) or 1.0
    most = 0.0
    for stage, one in enumerate(found):
        run = layers[one.first : one.last + 1]
        flying = setting.workers if candidate.form == "flush" else len(found) - stage
        if candidate.strategy == "one_f_one_b_flush":
            flying = min(flying, len(found) - stage)
        versions = flying - 1 if candidate.form == "pipedream" else 0
        weights = sum(layer.parameter_bytes for layer in run)
        share = sum(layer.activation_bytes for layer in run) / out
        most = max(most, (VECTORS + versions) * weights + flying * share * kept)
    return most
