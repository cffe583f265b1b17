"""Program `layer_sizes`: bytes of every block's outputs and parameters (PipeDream Figure 5: VGG16, minibatch 32).

Nothing is trained or timed: the blocks of the configuration's model run on the meta device.
"""

from __future__ import annotations

from typing import Any

from repro import data, models, probes
from repro.algorithms.pipeline.profile import block_bytes, nominal_inputs
from repro.core.fields import Model
from repro.experiment.schema import RunConfig
from repro.probes import ResultPart


class Options(Model):
    """No options."""


class Layer(ResultPart):
    """A block; activation_bytes: of its outputs for a minibatch."""

    name: str
    activation_bytes: int
    parameter_bytes: int


class Result(ResultPart):
    """batch: samples per minibatch."""

    layers: list[Layer]
    parameter_bytes: int
    batch: int


def run_alone(config: RunConfig) -> probes.Finding:
    probes.announce_iterations(1)
    dataset, batch = data.dataset_for(config), config.batch
    model = models.model_for(config, dataset, "meta")
    sizes = block_bytes(model, nominal_inputs(model, dataset.input_shape, batch))
    layers: list[dict[str, Any]] = [
        {"name": name, "activation_bytes": activations, "parameter_bytes": parameters}
        for name, activations, parameters in sizes
    ]
    total = sum(layer["parameter_bytes"] for layer in layers)
    probes.report_progress(1)
    largest, last = max(layers, key=lambda layer: layer["activation_bytes"]), layers[-1]
    metrics = {
        "parameter_bytes": total,
        "largest_activation_bytes": largest["activation_bytes"],
        "last_activation_bytes": last["activation_bytes"],
    }
    line = (
        f"parameters {total / 1e6:.4g} MB; outputs of {batch} samples from {last['activation_bytes'] / 1e6:.3g} MB "
        f"({last['name']}) to {largest['activation_bytes'] / 1e6:.4g} MB ({largest['name']})"
    )
    parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    result = {"layers": layers, "parameter_bytes": total, "batch": batch}
    return probes.Finding(result, metrics, line, config.model.name, parameters, dataset)
