"""Memory of the rank that needs most: weights, gradient, momentum, activations, and a strategy's additional vectors."""

from __future__ import annotations

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking.candidates import Candidate
from repro.strategies.shared.pipeline import Pipeline

VECTORS = 3  # weights, gradient, momentum
ITERATIONS = 8  # of a pipeline, enough to hold as much as ever


def peak_bytes(candidate: Candidate, setting: Setting, activations: float) -> float:
    """Bytes; activations: bytes that the whole model keeps for the backward pass of one worker's minibatch.

    A pipeline's stage holds its own layers and the activations of its minibatches in flight; without flushes also a
    version of its weights for each of them.
    """
    kind, options = candidate.in_virtual_time()
    plan = None
    if issubclass(kind, Pipeline):
        plan = kind.plan_in(setting, candidate.place(setting), options, ITERATIONS)
    if plan is None:
        return (VECTORS + candidate.vectors) * setting.nbytes + activations
    layers = setting.stages.layers
    total = sum(layer.activation_bytes for layer in layers) or 1.0
    most = 0.0
    for number, stage in enumerate(plan.layout.stages):
        held = layers[stage.first : stage.last + 1]
        weights = sum(layer.parameter_bytes for layer in held)
        share = sum(layer.activation_bytes for layer in held) / total
        in_flight = plan.most_in_flight(number)
        versions = 0 if plan.flush else in_flight - 1
        most = max(most, (VECTORS + versions) * weights + in_flight * share * activations)
    return most
