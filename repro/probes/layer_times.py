"""Program `layer_times`: seconds and bytes of every block of a model on one device, as `repro profile` has them.

Model, data set and batch are the configuration's; nothing is trained, and nobody communicates. Of a stand-in the model
has the real data set's classes. The profile itself lies beside the summary, for `repro partition`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from repro import data, models, probes
from repro.algorithms.pipeline import profile, profiler
from repro.algorithms.pipeline.layers import as_text
from repro.core.fields import Count, Model, Whole
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.real.gpus import pick_device
from repro.probes.shared.options import needs_one, needs_real_time

FILE = "profile.json"


class Options(Model):
    """Minibatches that are timed (the paper takes 1,000), and minibatches before them that are not."""

    minibatches: Count
    warmup: Whole = 5


def check(config: RunConfig) -> None:
    """InputError for more workers than it uses, and where time is modelled."""
    needs_one(config, "times the blocks of one worker")
    needs_real_time(config)


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """All of it."""
    probe, dataset, device = config.probe, data.of(config), pick_device(config.device, fabric.rank)
    options = {option: value for option, value in config.dataset.options.items() if option != "standin"}
    classes = profiler.classes_of(dataset, config.dataset.name, options)
    model = models.of(config, replace(dataset, classes=classes), device)
    probes.start(fabric, probe.warmup + probe.minibatches)
    found = profiler.of_model(
        config.model.name,
        model,
        dataset,
        config.batch,
        probe.minibatches,
        probe.warmup,
        device,
        config.seed,
        lambda number: probes.progress(fabric, number),
    )
    profile.write(folder / FILE, found)
    total = sum(layer.parameter_bytes for layer in found.layers)
    longest = max(found.layers, key=lambda layer: layer.seconds)
    line = (
        f"{1e3 * found.seconds:.4g} ms a minibatch of {config.batch} in {len(found.layers)} blocks, "
        f"{longest.seconds / found.seconds:.0%} of it {longest.name}"
    )
    parameters = sum(one.numel() for one in model.parameters() if one.requires_grad)
    result = {"profile": json.loads(as_text(found)), "seconds": found.seconds, "parameter_bytes": total}
    metrics = {"seconds": found.seconds, "parameter_bytes": total}
    return probes.Finding(result, metrics, line, config.model.name, parameters, dataset)
