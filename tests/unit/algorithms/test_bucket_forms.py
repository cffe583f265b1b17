"""Segments (equation (6)) on limited resources: cases computed by hand, and the recursion against other forms."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from repro import strategies
from repro.algorithms.timing import collective_forms, step_forms
from repro.fabric.codecs import codec
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.testing.small import SGD, NoBatches
from repro.training.buckets import balanced_buckets
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker
from tests.support import forms


def test_two_segments_by_hand() -> None:
    """update 1, forward 2, backward 3 + 4, allreduces 5 + 6.

    K = 1: ready at 3 and 7; done at 3 + 5 = 8, then 8 + 6 = 14: a step takes 1 + 2 + 14 = 17.
    K = 2: 1 + 2 + 7 = 10 of computation, 11 of communication.
    """
    case = (1, 2, [3, 4], [5, 6])
    assert step_forms.pipe_segmented_limited(1, 1, *case) == 17
    assert step_forms.pipe_segmented_limited(10, 1, *case) == 170
    assert step_forms.pipe_segmented_limited(10, 2, *case) == 110
    assert step_forms.pipe_segmented_limited(10, 3, *case) == 110


def test_compute_bound_by_hand() -> None:
    """Backward 10 + 1 + 10, allreduces 2 + 2 + 2: ready 10, 11, 21; done 12, 14, 23. Only the last one shows."""
    case = (0, 5, [10, 1, 10], [2, 2, 2])
    assert step_forms.pipe_segmented_limited(1, 1, *case) == 28
    assert step_forms.pipe_segmented_limited(1, 2, *case) == 26
    # equation (6) as printed takes the first segment for the whole backward pass: 15, less than the device needs
    printed = step_forms.pipe_segmented(1, 3, 0, 5, 10, 2, 0, 1.0, 0.0, 0.0, 0.0)
    assert printed == 15


def test_communication_bound_by_hand() -> None:
    """Backward 1 + 1 + 1, allreduces 4 + 3 + 2: ready 1, 2, 3; done 5, 8, 10."""
    case = (1, 1, [1, 1, 1], [4, 3, 2])
    assert step_forms.pipe_segmented_limited(1, 1, *case) == 12
    assert step_forms.pipe_segmented_limited(1, 2, *case) == 9


def test_one_segment_is_equations_2_and_4() -> None:
    assert step_forms.pipe_segmented_limited(7, 1, 1, 2, [3], [5]) == step_forms.sync_total(7, 1, 5, 5)
    for K in (2, 3):
        assert step_forms.pipe_segmented_limited(7, K, 1, 2, [3], [5]) == step_forms.pipe_limited(7, 1, 5, 5)
        assert step_forms.pipe_segmented_limited(7, K, 1, 2, [3], [9]) == step_forms.pipe_limited(7, 1, 5, 9)


def test_the_second_term_is_that_of_equation_6() -> None:
    p, L, n, network = 4, 3, 4 * 12_000, (1e-4, 1e-9, 1e-10, 1e-5)
    allreduces = forms.segment_allreduces([n // L] * L, p, *network)
    printed = step_forms.pipe_segmented(1, L, 0, 0, 0, p, n, *network)
    assert sum(allreduces) == pytest.approx(printed)
    assert step_forms.pipe_segmented_limited(1, 2, 0, 0, [0] * L, allreduces) == pytest.approx(printed)
    whole = forms.pipe_sequential(1, 0, 0, 0, p, n, *network)
    assert printed - whole == pytest.approx((L - 1) * (2 * (p - 1) * 1e-4 + 1e-5))  # what segments cost


def test_the_recursion_is_the_heaviest_path() -> None:
    draw = random.Random(3)
    for _ in range(300):
        L = draw.randint(1, 6)
        backward, communication = ([draw.randint(0, 9) for _ in range(L)] for _ in range(2))
        heaviest = max(sum(backward[: i + 1]) + sum(communication[i:]) for i in range(L))
        assert step_forms.pipe_segmented_limited(1, 1, 3, 4, backward, communication) == 7 + heaviest


def test_from_fill_to_drain() -> None:
    """One segment is `pipe_total`; any number settles at the steady state of `pipe_segmented_limited`."""
    draw = random.Random(4)
    for _ in range(60):
        L, K = draw.randint(1, 5), draw.randint(1, 4)
        backward, communication = ([draw.randint(1, 9) for _ in range(L)] for _ in range(2))
        l_up, l_for, warmup = draw.randint(0, 5), draw.randint(0, 5), draw.choice([0, 3])

        def total(T, case=(K, l_up, l_for, backward, communication, warmup)):
            return forms.pipe_segmented_total(T, *case)

        step = step_forms.pipe_segmented_limited(1, K, l_up, l_for, backward, communication)
        late = (total(1200) - total(600)) / 600  # what piled up during the fill is worked off by then
        assert late == pytest.approx(step), (L, K, backward, communication, l_up, l_for)
        if L == 1:
            l_comp, l_comm = l_for + backward[0], communication[0]
            for short in (1, 2, 5, 9):
                assert total(short) == step_forms.pipe_total(short, K, l_up, l_comp, l_comm, warmup)


def test_segments_gain_nothing_in_a_pipeline_and_hide_communication_without_one() -> None:
    """K = 2: with any number of segments the step is that of one allreduce or longer. K = 1: shorter."""
    p, n, network = 4, 4 * 120_000, (1e-5, 1e-9, 1e-10, 0.0)
    for l_back in (1e-4, 1e-3, 1e-2):
        whole = forms.segment_allreduces([n], p, *network)
        parts = forms.segment_allreduces([n // 4] * 4, p, *network)
        cut = [l_back / 4] * 4
        pipelined = step_forms.pipe_segmented_limited(1, 2, 0, 0, cut, parts)
        assert pipelined >= step_forms.pipe_segmented_limited(1, 2, 0, 0, [l_back], whole) * (1 - 1e-12)
        alone = step_forms.pipe_segmented_limited(1, 1, 0, 0, cut, parts)
        assert pipelined < alone
        assert l_back < 1e-3 or alone < step_forms.pipe_segmented_limited(1, 1, 0, 0, [l_back], whole)


# --- the strategy on the virtual fabric

ALPHA, BETA, WORKERS = 1e-5, 1e-9, 2
COSTS = Costs(
    True, {"reduce": 1e-10, "update": 3e-11, "encode/quantize8": 9e-11, "decode/quantize8": 7e-11}, {"sync": 2e-6}
)


def blocks() -> list[nn.Module]:
    return [nn.Linear(width, 48, bias=False, device="meta") for width in (20, 48, 64, 32)]  # WORKERS divides each


def run_pipe_sgd(T: int, options: dict, seconds: BlockSeconds) -> tuple[float, list[float]]:
    """(when the last rank is done, rank 0's time after each step) of T iterations without arithmetic."""

    def main(fabric: virtual.VirtualFabric) -> tuple[float, list[float]]:
        strategy_class = strategies.load("pipe_sgd")
        strategy = strategy_class(strategy_class.parse(options))
        part = ModelShard(nn.Sequential(*blocks()), SGD, torch.device("meta"))
        worker = Worker(WORKERS, fabric, Clock(fabric), part, NoBatches(), 1, 0, seconds, arithmetic=False)
        strategy.setup(worker)
        worker.clock.start()
        after = []
        for _ in range(T):
            strategy.step()
            after.append(fabric.now())
        strategy.drain()
        ended = fabric.now()
        strategy.close()
        return ended, after

    results = virtual.run(WORKERS, main, virtual.Network(ALPHA, BETA), COSTS)
    return max(ended for ended, _ in results), results[0][1]


@pytest.mark.parametrize("name, algorithm", [("none", "ring"), ("quantize8", "ring"), ("none", "ring_pipelined")])
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("L", [1, 2, 4])
@pytest.mark.parametrize("scale", [1e-6, 3e-5, 1e-3])
def test_the_strategy_takes_what_the_forms_say(name: str, algorithm: str, K: int, L: int, scale: float) -> None:
    """A segment's compression belongs to its backward pass, all decompression to the update."""
    seconds = BlockSeconds([scale] * 4, [2 * scale, scale, 3 * scale, 2 * scale])
    used, T = codec(name), 8
    cut = balanced_buckets(blocks(), L)[::-1]
    sizes = [4 * (segment.end - segment.start) for segment in cut]
    backward = [
        sum(seconds.backward[block] for block in segment.blocks) + collective_forms.codec_device(n, COSTS, used)[0]
        for segment, n in zip(cut, sizes)
    ]
    form = collective_forms.ring_encoded if algorithm == "ring" else collective_forms.ring_pipelined_encoded
    communication = [form(WORKERS, n, ALPHA, BETA, COSTS, used) for n in sizes]
    l_up = COSTS.seconds("update", sum(sizes)) + sum(collective_forms.codec_device(n, COSTS, used)[1] for n in sizes)
    case = (K, l_up, sum(seconds.forward), backward, communication)
    options = {"K": K, "segments": L, "codec": name, "algorithm": algorithm, "warmup_epochs": 0}
    total, after = run_pipe_sgd(T, options, seconds)
    assert total == pytest.approx(forms.pipe_segmented_total(T, *case), rel=1e-9)
    if K < 3:  # else what piled up during the fill may last beyond T
        assert after[-1] - after[-2] == pytest.approx(step_forms.pipe_segmented_limited(1, *case), rel=1e-9)
