"""Predicts which strategy is fastest for a model on a network, and compares the predictions with others' measurements.

recommend(model, bandwidth, workers, ...)   rank the strategies; `text` formats the answer as words or plain data
candidates.yaml   the ranked strategies                 cluster.yaml   assumptions about a cluster
published.yaml    throughputs that others measured
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.answers.ranking.arguments import SIZES, Question, check_model, parse_amount

if TYPE_CHECKING:
    from repro.answers.ranking.answer import Answer

__all__ = ["recommend"]


def recommend(
    model: str,
    bandwidth: float | str | None = None,
    workers: int = 0,
    *,
    goodput: float | str | None = None,
    transport: str = "tcp",
    latency: float | str | None = None,
    gpus_per_node: int = 1,
    intra: float | str | None = None,
    step_ms: float | None = None,
    gpu: str | None = None,
    batch: int = 32,
    imbalance: float | None = None,
    memory_bytes: float | str | None = None,
    shape: Sequence[int] | None = None,
    measured: Sequence[str] = (),
    precision: str = "fp32",
) -> Answer:
    """Rank strategies for a model on a network.

    model          a model's name, FILE.py:Class of a module without arguments, or a profile FILE.json
    bandwidth      line rate of a machine's network card: bits/s, or a text as "10g"; what it delivers is drawn
    workers        number of GPUs that compute, at least 1; each in a machine of its own, or gpus_per_node in one
    goodput        instead of bandwidth, what you measured between two machines: bits/s, or a text as "9.4g"
    transport      of the messages over the line: "tcp" or "rdma"
    latency        of a small message, one way: seconds, or a text as "50us"; None: drawn
    intra          between GPUs of a machine: "nvlink", "pcie3", "pcie4", or GB/s; None: drawn
    step_ms        forward and backward pass of one worker's minibatch; or `gpu`, whose published steps are drawn from
    precision      of the GPU's steps: "fp32", "fp16", "bf16"; gradients are exchanged in 32 bits
    batch          samples of one worker's minibatch
    imbalance      delay of one random worker in each iteration, a share of its computation; None: drawn, 0 to 0.05
    memory_bytes   of a GPU: bytes, or a text as "16G"; None: the sizes in which `gpu` is sold, if they are listed
    shape          of one sample of a module
    measured       iterations of your own runs with DDP, as "412ms@8": all predictions are scaled to them

    InputError for invalid arguments.
    """
    asked = Question(
        model, bandwidth, workers, goodput, transport, latency, gpus_per_node, intra, step_ms, gpu, batch, imbalance,
        memory_bytes, shape, measured, precision,
    )  # fmt: skip
    return answer_question(asked)


def answer_question(asked: Question) -> Answer:
    """The answer; InputError for invalid arguments, before PyTorch is imported."""
    check_model(asked.model)
    asked.check()
    from repro.answers.ranking import question  # imports PyTorch, which pages do without
    from repro.answers.ranking.answer import rank_strategies
    from repro.answers.ranking.calibration import committed_calibration
    from repro.answers.ranking.candidates import USUAL, read_candidates
    from repro.answers.ranking.gpus import memory_of
    from repro.answers.ranking.own_runs import Run, check_runs, fit_setting

    setting, load, known, notes = question.parse_question(asked)
    given = asked.memory_bytes
    sizes = memory_of(asked.gpu) if given is None else (parse_amount(given, "memory", SIZES),)
    usual = read_candidates()[USUAL]
    step_known = question.COMPUTATION in known
    runs = [
        Run(seconds, usual, workers, min(workers, asked.gpus_per_node), step_known)
        for seconds, workers in asked.own_runs
    ]
    check_runs(runs, setting, asked.most_bits)
    before, (setting, fitted) = setting, fit_setting(setting, known, runs)
    if setting is not before:
        load = load.with_seconds(setting.computation_s, f"fitted to your run{'s' * (len(runs) > 1)}")
    notes += question.computation_notes(setting, load)
    return rank_strategies(setting, load, fitted, sizes, notes, calibration=committed_calibration(), runs=runs)
