"""Predicts which strategy is fastest for a model on a network, and compares the predictions with others' measurements.

recommend(model, bandwidth, workers, ...)   rank the strategies; `text` formats the answer as words or plain data
candidates.yaml   the ranked strategies                 cluster.yaml   assumptions about a cluster
published.yaml    throughputs that others measured
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.answers.ranking.arguments import SIZES, check_arguments, check_model, parse_amount

if TYPE_CHECKING:
    from repro.answers.ranking.answer import Answer

__all__ = ["recommend"]


def recommend(
    model: str,
    bandwidth: float | str,
    workers: int,
    *,
    latency: float | str | None = None,
    gpus_per_node: int = 1,
    step_ms: float | None = None,
    gpu: str | None = None,
    batch: int = 32,
    imbalance: float | None = None,
    memory_bytes: float | str | None = None,
    shape: Sequence[int] | None = None,
) -> Answer:
    """Rank strategies for a model on a network.

    model          a model's name, FILE.py:Class of a module without arguments, or a profile FILE.json
    bandwidth      measured goodput between two machines: bits/s, or a text as "10g"
    workers        number of GPUs that compute
    latency        of a small message, one way: seconds, or a text as "50us"; None: drawn
    step_ms        forward and backward pass of one worker's minibatch; or `gpu`, a GPU of the papers' testbeds
    batch          samples of one worker's minibatch
    imbalance      delay of one random worker in each iteration, a share of its computation; None: drawn, 0 to 0.05
    memory_bytes   of a GPU: bytes, or a text as "16G"
    shape          of one sample of a module

    InputError for invalid arguments.
    """
    check_model(model)
    check_arguments(bandwidth, workers, latency, gpus_per_node, step_ms, gpu, batch, imbalance, memory_bytes)
    from repro.answers.ranking import question  # imports PyTorch, which pages do without
    from repro.answers.ranking.answer import rank_strategies

    setting, load, known, notes = question.parse_question(
        model, bandwidth, workers, latency, gpus_per_node, step_ms, gpu, batch, imbalance, shape
    )
    most = None if memory_bytes is None else parse_amount(memory_bytes, "memory", SIZES)
    return rank_strategies(setting, load, known, most, notes)
