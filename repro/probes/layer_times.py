"""Program `layer_times`: seconds and bytes of every block of the configuration's model on one device.

It measures as `repro profile` does, without training or communication, and writes the profile beside the summary, for
`repro partition`. With a stand-in data set the model has as many classes as with the real one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from repro import data, models, probes
from repro.algorithms.pipeline import profile, profiler
from repro.algorithms.pipeline.layers import as_text
from repro.core.fields import Count, Model, Whole
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.real.gpus import pick_device
from repro.probes import ResultPart
from repro.probes.shared.options import needs_one, needs_real_time

FILE = "profile.json"


class Options(Model):
    minibatches: Count  # timed; the paper takes 1,000
    warmup: Whole = 5  # minibatches before them


class Result(ResultPart):
    """profile: as in `repro.algorithms.pipeline.layers.Profile`. seconds: per minibatch."""

    profile: dict[str, Any]
    seconds: float
    parameter_bytes: int


def check(config: RunConfig) -> None:
    needs_one(config, "times the blocks of one worker")
    needs_real_time(config)


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe, dataset, device = config.probe, data.dataset_for(config), pick_device(config.device, fabric.rank)
    options = {option: value for option, value in config.dataset.options.items() if option != "standin"}
    classes = profiler.classes_of(dataset, config.dataset.name, options)
    model = models.model_for(config, replace(dataset, classes=classes), device)
    probes.announce_iterations(probe.warmup + probe.minibatches, fabric.rank)
    measured = profiler.of_model(
        config.model.name,
        model,
        dataset,
        config.batch,
        probe.minibatches,
        probe.warmup,
        device,
        config.seed,
        probes.report_progress,
    )
    profile.write_profile(folder / FILE, measured)
    total = sum(layer.parameter_bytes for layer in measured.layers)
    longest = max(measured.layers, key=lambda layer: layer.seconds)
    line = (
        f"{1e3 * measured.seconds:.4g} ms a minibatch of {config.batch} in {len(measured.layers)} blocks, "
        f"{longest.seconds / measured.seconds:.0%} of it {longest.name}"
    )
    parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    result = {"profile": json.loads(as_text(measured)), "seconds": measured.seconds, "parameter_bytes": total}
    metrics = {"seconds": measured.seconds, "parameter_bytes": total}
    return probes.Finding(result, metrics, line, config.model.name, parameters, dataset)
