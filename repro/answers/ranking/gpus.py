"""What one GPU trains in a second, as others measured it: `gpus.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from repro.core import user_files
from repro.core.fields import Model, Positive, Text, check_fields

FILE = Path(__file__).with_name("gpus.yaml")
FP32 = "fp32"
PRECISIONS = {FP32: 32, "fp16": 16, "bf16": 16}  # name -> bits


class MeasuredGpu(Model):
    """A throughput, samples/s; gpus.yaml explains the entries."""

    part = "gpus"

    gpu: Text
    bits: Literal[16, 32]
    model: Text
    gflop: Positive | None = None
    products: bool = False
    per_s: Positive
    source: Text


@cache
def measured_gpus() -> list[MeasuredGpu]:
    return [check_fields(MeasuredGpu, each, FILE.name) for each in user_files.read_yaml(FILE)["gpus"]]


def rates_of(gpu: str, precision: str) -> list[MeasuredGpu]:
    """The throughputs of a GPU."""
    return [each for each in measured_gpus() if each.gpu.lower() == gpu.lower() and each.bits == PRECISIONS[precision]]
