"""What one GPU trains in a second, as others measured it: `gpus.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from repro.core import user_files
from repro.core.fields import Model, Positive, Text, check_fields

FILE = Path(__file__).with_name("gpus.yaml")
FP32, BF16 = "fp32", "bf16"
PRECISIONS = {FP32: 32, "fp16": 16, BF16: 16}  # name -> bits


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


class Card(Model):
    """The sizes of memory in which a GPU is sold, GB, and whether it computes in bf16; gpus.yaml explains the
    entries."""

    part = "cards"

    gpu: Text
    gbytes: list[Positive]
    bf16: bool
    source: Text


@cache
def _cards() -> dict[str, Card]:
    cards = [check_fields(Card, each, FILE.name) for each in user_files.read_yaml(FILE)["cards"]]
    return {card.gpu.lower(): card for card in cards}


def memory_of(gpu: str | None) -> tuple[float, ...]:
    """The sizes of a GPU's memory, bytes; none if they are not listed."""
    card = _cards().get((gpu or "").lower())
    return tuple(1e9 * size for size in card.gbytes) if card else ()


def has_bf16(gpu: str) -> bool:
    """Whether a GPU computes in bf16, and matrix products of 32 bits in TF32; True for one that is not listed."""
    card = _cards().get(gpu.lower())
    return card is None or card.bf16


@cache
def measured_gpus() -> list[MeasuredGpu]:
    return [check_fields(MeasuredGpu, each, FILE.name) for each in user_files.read_yaml(FILE)["gpus"]]


def rates_of(gpu: str, precision: str) -> list[MeasuredGpu]:
    """The throughputs of a GPU."""
    return [each for each in measured_gpus() if each.gpu.lower() == gpu.lower() and each.bits == PRECISIONS[precision]]
