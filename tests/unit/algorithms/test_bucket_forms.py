"""Pipe-SGD with gradients in segments, equation (6): the recursion against other forms and against the strategy."""

from __future__ import annotations

import random

import pytest
from torch import nn

from repro.algorithms.timing import collective_forms, step_forms
from repro.fabric.codecs import make_codec
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.training.buckets import balanced_buckets
from repro.training.device_times import BlockSeconds
from tests.support import forms
from tests.support.stepping import timed_steps


def test_the_second_term_is_that_of_equation_6() -> None:
    p, L, n, network = 4, 3, 4 * 12_000, (1e-4, 1e-9, 1e-10, 1e-5)
    allreduces = [collective_forms.ring_seconds(p, n // L, *network)] * L
    printed = step_forms.pipe_segmented(1, L, 0, 0, 0, p, n, *network)
    assert sum(allreduces) == pytest.approx(printed)
    assert step_forms.pipe_segmented_limited(1, 2, 0, 0, [0] * L, allreduces) == pytest.approx(printed)
    whole = forms.pipe_sequential(1, 0, 0, 0, p, n, *network)
    assert printed - whole == pytest.approx((L - 1) * (2 * (p - 1) * 1e-4 + 1e-5))  # what segments cost


def test_the_recursion_is_the_heaviest_path() -> None:
    draw = random.Random(3)
    for _ in range(100):
        L = draw.randint(1, 6)
        backward, communication = ([draw.randint(0, 9) for _ in range(L)] for _ in range(2))
        heaviest = max(sum(backward[: i + 1]) + sum(communication[i:]) for i in range(L))
        assert step_forms.pipe_segmented_limited(1, 1, 3, 4, backward, communication) == 7 + heaviest


def test_long_runs_settle_at_the_steady_state() -> None:
    draw = random.Random(4)
    for _ in range(40):
        L, K = draw.randint(1, 5), draw.randint(1, 4)
        backward, communication = ([draw.randint(1, 9) for _ in range(L)] for _ in range(2))
        case, warmup = (K, draw.randint(0, 5), draw.randint(0, 5), backward, communication), draw.choice([0, 3])
        first, last = (forms.pipe_segmented_total(T, *case, warmup) for T in (600, 1200))
        step = step_forms.pipe_segmented_limited(1, *case)  # the backlog of the fill is worked off by then
        assert (last - first) / 600 == pytest.approx(step), case


# --- the strategy on the virtual fabric

ALPHA, BETA, WORKERS = 1e-5, 1e-9, 2
PRICES = {"reduce": 1e-10, "update": 3e-11, "encode/quantize8": 9e-11, "decode/quantize8": 7e-11}
COSTS = Costs(True, PRICES, {"sync": 2e-6})


def blocks() -> list[nn.Module]:
    return [nn.Linear(width, 48, bias=False, device="meta") for width in (20, 48, 64, 32)]  # WORKERS divides each


@pytest.mark.parametrize("name, algorithm", [("none", "ring"), ("quantize8", "ring"), ("none", "ring_pipelined")])
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("scale", [3e-5, 1e-3])
def test_the_strategy_takes_the_time_of_the_forms(name: str, algorithm: str, K: int, scale: float) -> None:
    """A segment's compression belongs to its backward pass, all decompression to the update. One segment is in
    test_closed_forms.py."""
    seconds = BlockSeconds([scale] * 4, [2 * scale, scale, 3 * scale, 2 * scale])
    used, T, L = make_codec(name), 8, 4
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
    network = virtual.Network(ALPHA, BETA)
    total, after = timed_steps("pipe_sgd", options, WORKERS, T, blocks(), seconds, network, COSTS)
    assert total == pytest.approx(forms.pipe_segmented_total(T, *case), rel=1e-9)
    if K < 3:  # else what piled up during the fill may last beyond T
        assert after[-1] - after[-2] == pytest.approx(step_forms.pipe_segmented_limited(1, *case), rel=1e-9)
