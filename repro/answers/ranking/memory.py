"""Memory of the rank that needs most: weights, gradient, momentum, activations, and a strategy's additional vectors."""

from __future__ import annotations

from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.setting import Setting
from repro.answers.ranking.stage_forms import stages_of

VECTORS = 3  # weights, gradient, momentum


def peak_bytes(candidate: Candidate, setting: Setting, activations: float) -> float:
    """Bytes; activations: bytes that the whole model keeps for the backward pass of one worker's minibatch.

    A pipeline's stage holds its own layers and the activations of its minibatches in flight; a stage of PipeDream also
    a version of its weights for each of them.
    """
    stages = stages_of(candidate, setting)
    if stages is None:
        return (VECTORS + candidate.vectors) * setting.nbytes + activations
    layers = setting.stages.layers
    total = sum(layer.activation_bytes for layer in layers) or 1.0
    most = 0.0
    for number, stage in enumerate(stages):
        held = layers[stage.first : stage.last + 1]
        in_flight = len(stages) - number
        if candidate.form == "flush":
            one_f_one_b = candidate.strategy == "one_f_one_b_flush"
            in_flight = min(setting.workers, in_flight) if one_f_one_b else setting.workers
        versions = in_flight - 1 if candidate.form == "pipedream" else 0
        weights = sum(layer.parameter_bytes for layer in held)
        share = sum(layer.activation_bytes for layer in held) / total
        most = max(most, (VECTORS + versions) * weights + in_flight * share * activations)
    return most
