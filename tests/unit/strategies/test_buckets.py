"""Pipe-SGD with pipelined gradient communication (L segments) and staleness-aware learning rate."""

from __future__ import annotations

from collections import OrderedDict
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from repro.algorithms.timing import collective_forms
from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.fabric.codecs import CODECS
from repro.fabric.collectives import dense as collectives
from repro.fabric.costs import Costs
from repro.testing import small
from repro.training.buckets import balanced_buckets, block_sizes, cut_buckets
from repro.training.device_times import BlockSeconds

TRAINED = 4  # of the model's five blocks
SIZES = [56, 0, 36, 20, 12]  # all divide by 4: in rings of 2 and 4 no rank is ahead of another
BUSY = BlockSeconds([1e-3] * 5, [2e-3, 1e-3, 3e-3, 1e-3, 2e-3])  # computation takes 14 ms
QUICK = BlockSeconds([1e-5] * 5, [2e-5] * 5)  # communication takes longer


def model() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second, third = nn.Linear(small.INPUTS, 8), nn.Linear(8, 4), nn.Linear(4, 4)
        last = nn.Linear(4, small.CLASSES, bias=False)
    second, third = nn.Sequential(second, nn.Tanh()), nn.Sequential(third, nn.Tanh())
    return nn.Sequential(OrderedDict(a=first, b=nn.Tanh(), c=second, d=third, e=last))


def run(options, name="pipe_sgd", blocks=BUSY, **how):
    return small.run(name, options, build_model=model, blocks=lambda rank: blocks, **how)


# --- the cut


def test_blocks_without_parameters_belong_to_a_neighbour():
    blocks = list(model().children())
    assert block_sizes(blocks) == SIZES
    assert cut_buckets(SIZES, 4) == [range(0, 2), range(2, 3), range(3, 4), range(4, 5)]
    assert cut_buckets([0, 5, 0, 5, 0], 2) == [range(0, 3), range(3, 5)]
    middle = balanced_buckets(blocks, 3)[1]
    assert (middle.blocks, middle.trained, middle.start, middle.end) == (range(2, 3), {2}, 56, 92)


@given(st.lists(st.sampled_from([0, 1, 3, 10, 50]), min_size=1, max_size=9).filter(any), st.data())
def test_the_cut_covers_all_blocks_and_is_balanced(sizes, data):
    trained = [i for i, size in enumerate(sizes) if size]
    count = data.draw(st.integers(1, len(trained)))
    runs = cut_buckets(sizes, count)
    assert [i for run in runs for i in run] == list(range(len(sizes))) and len(runs) == count
    assert all(any(sizes[i] for i in run) for run in runs)

    def squares(firsts):
        return sum(sum(sizes[a:b]) ** 2 for a, b in zip([0, *firsts], [*firsts, len(sizes)]))

    assert sum(sum(sizes[i] for i in run) ** 2 for run in runs) == min(
        squares(firsts) for firsts in combinations(trained[1:], count - 1)
    )


def test_frozen_blocks_are_no_segments():
    blocks = list(model().children())
    for parameter in blocks[0].parameters():
        parameter.requires_grad_(False)
    assert block_sizes(blocks) == [0, 0, 36, 20, 12]
    assert [(s.start, s.end) for s in balanced_buckets(blocks, 3)] == [(0, 36), (36, 56), (56, 68)]


# --- what is computed: K = 1 is D-Sync, K > 1 is delayed SGD, for every L


@pytest.mark.parametrize("L", [2, TRAINED])
@pytest.mark.parametrize(("workers", "algorithm"), [(1, "tree"), (3, "tree"), (3, "recursive_doubling")])
def test_K_1_is_dsync(L, workers, algorithm):
    """With algorithms that add in the same order wherever the gradient is cut."""
    dsync = run({"algorithm": algorithm}, "dsync", workers=workers, steps=6)
    pipe = run({"K": 1, "segments": L, "algorithm": algorithm}, workers=workers, steps=6)
    assert (pipe.digests, pipe.losses) == (dsync.digests, dsync.losses)


@pytest.mark.parametrize("L", [1, 3])
@pytest.mark.parametrize("algorithm", ["ring_pipelined", "auto"])
def test_every_allreduce_carries_segments(algorithm, L):
    pipe = run({"K": 2, "segments": L, "algorithm": algorithm}, workers=3)
    assert len(set(pipe.digests)) == 1
    torch.testing.assert_close(pipe.weights[0], run({"K": 2}, workers=3).weights[0])


def ring_sum(gradients: list[torch.Tensor]) -> torch.Tensor:
    """The sum (n,) as a ring makes it: block b begins at rank b and goes round to the right."""
    p = len(gradients)
    total = torch.empty_like(gradients[0])
    for block, (start, end) in enumerate(collectives.chunk_bounds(total.numel(), p)):
        partial = gradients[block][start:end].clone()
        for hop in range(1, p):
            partial = gradients[(block + hop) % p][start:end] + partial
        total[start:end] = partial
    return total


def initial() -> torch.Tensor:
    return small.ModelShard(model(), small.SGD, torch.device("cpu")).weights.clone()


def delayed_sgd(K, L, workers, steps, staleness_lr=False, warmup=0):
    """Weights before and after the drain; w[t] = w[t-1] - lr_t * mean gradient taken K - 1 updates before."""
    cuts = [(s.start, s.end) for s in balanced_buckets(list(model().children()), L)]
    weights, waiting, updates = initial(), [], 0

    def apply(weights):
        nonlocal updates
        total, read = waiting.pop(0)
        rate = small.SGD.lr * (1 / max(1, updates - read) if staleness_lr else 1.0)
        updates += 1
        return weights.add(total.div(workers), alpha=-rate)

    for t in range(1, steps + 1):
        gradients = [small.serial_gradient(weights, t - 1, w, workers, build_model=model) for w in range(workers)]
        total = torch.cat([ring_sum([gradient[start:end] for gradient in gradients]) for start, end in cuts])
        waiting.append((total, updates))
        while len(waiting) >= (1 if t <= warmup else K):
            weights = apply(weights)
    before = weights
    while waiting:
        weights = apply(weights)
    return before, weights


@pytest.mark.parametrize(("K", "L", "workers"), [(1, 1, 3), (1, 3, 3), (3, 1, 3), (3, 3, 3), (3, TRAINED, 1)])
def test_it_is_delayed_sgd(K, L, workers):
    """In ring order within each segment; the drain applies the rest, each gradient once."""
    before, after = delayed_sgd(K, L, workers, steps=8)
    options = {"K": K, "segments": L}
    assert torch.equal(run(options, workers=workers, steps=8, drain=False).weights[0], before)
    assert torch.equal(run(options, workers=workers, steps=8).weights[0], after)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_and_every_resume(codec, workers=3):
    options = {"K": 3, "segments": 3, "codec": codec, "warmup_epochs": 0.3}
    whole = run(options, workers=workers)
    assert len(set(whole.digests)) == 1 and torch.isfinite(whole.weights[0]).all()
    assert not torch.equal(whole.weights[0], initial())
    for stop in (1, 5):
        assert run(options, workers=workers, stop_and_resume_at=stop).digests == whole.digests
    assert run(options, workers=workers, settle_every=1).digests == whole.digests


@pytest.mark.parametrize("name", ["dsync", "parameter_averaging", "pipe_sgd"])
@pytest.mark.parametrize("codec", ["quantize8", "ternary"])
def test_strategies_keep_their_codecs_state(name, codec):
    whole = small.run(name, {"codec": codec}, workers=3)
    assert small.run(name, {"codec": codec}, workers=3, stop_and_resume_at=5).digests == whole.digests


@pytest.mark.parametrize("codec", ["none", "quantize8"])
@pytest.mark.parametrize("K", [1, 2])
def test_the_hooks_of_a_real_backward_pass_give_the_same(codec, K):
    """Without modelled seconds segments are handed over from inside the backward pass, which compression interrupts."""
    options = {"K": K, "segments": 3, "codec": codec}
    assert run(options, workers=3, blocks=None).digests == run(options, workers=3).digests


# --- bad input


def test_more_segments_than_blocks_with_parameters_are_refused_before_ranks_start():
    runs = expand_runs("pipesgd/fig4-mnist", ["strategy=pipe_sgd", "strategy.segments=4", "dataset.standin=always"])
    with pytest.raises(InputError, match="3 blocks with parameters to train; must be 1 to 3"):
        identify_runs(runs)


@pytest.mark.parametrize(("warmup", "epochs"), [(5, 5), (0.5, 0.25)])
def test_a_warm_up_as_long_as_the_run_is_refused(warmup, epochs):
    overrides = ["strategy=pipe_sgd", f"strategy.warmup_epochs={warmup}", f"epochs={epochs}"]
    with pytest.raises(InputError, match=f"warmup_epochs={warmup}: must be less than epochs={epochs}"):
        expand_runs("pipesgd/fig4-mnist", overrides)
    longer = [*overrides[:2], f"epochs={warmup + 1}"]
    assert expand_runs("pipesgd/fig4-mnist", longer)


# --- virtual time


def communication(L: int, workers: int, costs: Costs = small.COSTS) -> list[float]:
    """Seconds of each segment's ring, in the order of the backward pass."""
    network, gamma, sync = small.NETWORK, costs.seconds_per_byte["reduce"], costs.fixed_seconds["sync"]
    sizes = [4 * (s.end - s.start) for s in balanced_buckets(list(model().children()), L)][::-1]
    return [collective_forms.ring_seconds(workers, n, network.alpha, network.beta, gamma, sync) for n in sizes]


def ready_times(blocks: BlockSeconds, L: int) -> list[float]:
    """When each segment's gradient is there, from the start of the step, in the order of the backward pass."""
    last_to_first = [s.blocks for s in balanced_buckets(list(model().children()), L)][::-1]
    # a segment leaves with its lowest block that has parameters; those below it in the run have none
    lowest = [min(block for block in run if SIZES[block]) for run in last_to_first]
    return [sum(blocks.forward) + sum(blocks.backward[block:]) for block in lowest]


UPDATE_S = 4 * sum(SIZES) * small.COSTS.seconds_per_byte["update"]
MANY_S = 0.7e-3  # a latency-free way to make communication long: S of equation (5), once a segment
SLOW = Costs(True, small.COSTS.seconds_per_byte, {"sync": MANY_S})


@pytest.mark.parametrize("L", [1, 3, TRAINED])
@pytest.mark.parametrize("blocks", [BUSY, QUICK], ids=["busy", "quick"])
@pytest.mark.parametrize("costs", [small.COSTS, SLOW], ids=["fast", "slow"])
def test_K_1_takes_the_recursion_over_segments(L, blocks, costs, workers=4):
    done = 0.0
    for ready, allreduce in zip(ready_times(blocks, L), communication(L, workers, costs), strict=True):
        done = max(ready, done) + allreduce
    step = max(done, sum(blocks.forward) + sum(blocks.backward)) + UPDATE_S
    seconds = run({"K": 1, "segments": L}, workers=workers, blocks=blocks, steps=5, costs=costs).seconds
    assert seconds == pytest.approx(5 * step, rel=1e-9)


@pytest.mark.parametrize("L", [1, 3, TRAINED])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("blocks", [BUSY, QUICK], ids=["busy", "quick"])
def test_K_2_takes_the_time_of_limited_resources(L, K, blocks):
    """max(l_up + l_for + l_back, L allreduces): equation (6) with the whole backward pass on the main task."""
    seconds = [run({"K": K, "segments": L}, workers=4, blocks=blocks, steps=n, costs=SLOW).seconds for n in (10, 20)]
    computation = sum(blocks.forward) + sum(blocks.backward) + UPDATE_S
    expected = max(computation, sum(communication(L, 4, SLOW)))
    assert (seconds[1] - seconds[0]) / 10 == pytest.approx(expected, rel=1e-9)


# --- staleness


@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_staleness_is_K_less_one_once_the_pipeline_is_full(K):
    reported = run({"K": K}, steps=12).staleness
    fill = [*range(K - 1)]
    assert reported == [fill + [K - 1] * (12 - 2 * (K - 1))] * 2
    warm = run({"K": K, "warmup_epochs": 0.4}, steps=12).staleness[0]
    assert warm == ([0] * 4 + fill + [K - 1] * 20)[: 12 - (K - 1)]


@pytest.mark.parametrize(("K", "L", "warmup"), [(1, 1, 0), (2, 3, 0), (2, 1, 3), (5, 1, 0), (5, 3, 3)])
def test_staleness_aware_learning_rate(K, L, warmup):
    """lr / max(1, staleness), computed serially; K = 1 and 2 are as without it."""
    options = {"K": K, "segments": L, "staleness_lr": True, "warmup_epochs": warmup / 10}
    before, after = delayed_sgd(K, L, 2, steps=12, staleness_lr=True, warmup=warmup)
    assert torch.equal(run(options, drain=False).weights[0], before)
    whole = run(options)
    assert torch.equal(whole.weights[0], after)
    assert (run(options | {"staleness_lr": False}).digests == whole.digests) == (K <= 2)
    assert run(options, stop_and_resume_at=6).digests == whole.digests
