"""Estimates of a training's GPU-hours from the operations of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Peak: NVIDIA's data sheet of the H100 SXM, fp32 without tensor cores. ASSUMPTIONS: a utilisation of one half, and at
# least 20 us for each pass of a block.
CARD = "one H100, fp32"
PEAK_FLOPS, UTILISATION, LAUNCH_S = 67e12, 0.5, 2e-5


def estimate_gpu_hours(config: Mapping[str, Any]) -> float:
    """GPU-hours of a training's workers for computation, without data loading and network.

    InputError if the model does not fit the data.
    """
    from repro import data  # imports PyTorch
    from repro.experiment.testbeds import Rate
    from repro.rank.factory import modelled_seconds
    from repro.training.device_times import compute_seconds

    chosen = {part: dict(config[part]) for part in ("model", "dataset")}
    model, dataset = (chosen[part].pop("name") for part in ("model", "dataset"))
    chosen["dataset"].pop("standin")
    shapes = data.load_shapes(dataset, None, **chosen["dataset"])
    card = Rate(peak_flops=PEAK_FLOPS, utilisation=UTILISATION, launch_s=LAUNCH_S)
    workers, options = config["workers"], tuple(chosen["model"].items())
    local = config["batch"] // workers
    blocks = modelled_seconds(model, tuple(shapes.input_shape), shapes.classes, local, card, options)
    step_s = compute_seconds(blocks)
    return shapes.iterations(config["batch"]) * config["epochs"] * step_s * workers / 3600


def format_hours(hours: float) -> str:
    """The estimate, rounded to its significant digits."""
    return "< 0.1" if hours < 0.05 else f"{hours:.1g}" if hours < 1 else f"{hours:.2g}"
