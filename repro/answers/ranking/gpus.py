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


class GpuMemory(Model):
    """The sizes in which a GPU is sold, GB; gpus.yaml explains the entries."""

    part = "memory"

    gpu: Text
    gbytes: list[Positive]
    source: Text


def memory_of(gpu: str | None) -> tuple[float, ...]:
    """The sizes of a GPU's memory, bytes; none if they are not listed."""
    listed = [check_fields(GpuMemory, each, FILE.name) for each in user_files.read_yaml(FILE)["memory"]]
    return tuple(1e9 * size for each in listed if gpu and each.gpu.lower() == gpu.lower() for size in each.gbytes)


@cache
def measured_gpus() -> list[MeasuredGpu]:
    return [check_fields(MeasuredGpu, each, FILE.name) for each in user_files.read_yaml(FILE)["gpus"]]


def rates_of(gpu: str, precision: str) -> list[MeasuredGpu]:
    """The throughputs of a GPU."""
    return [each for each in measured_gpus() if each.gpu.lower() == gpu.lower() and each.bits == PRECISIONS[precision]]
