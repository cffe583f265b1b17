"""Pipelines against serial replays with the same weights, bit for bit; resume, real ranks, memory, wrong input."""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import pairwise, product

import pytest
import torch
from torch import nn

from repro.algorithms.pipeline.shapes import count_saved, output_shapes
from repro.core.errors import InputError
from repro.data.minibatches import Batches
from repro.testing import small

LR, BATCH, WIDTHS = small.SGD.lr, 4, (small.INPUTS, 7, 5, 6, 4, small.CLASSES)
BLOCKS = len(WIDTHS) - 1


def deep(seed: int = 0) -> nn.Sequential:
    """Five blocks, each a linear layer and all but the last a tanh."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(a, b) for a, b in pairwise(WIDTHS)]
    blocks = [nn.Sequential(layer, nn.Tanh()) for layer in layers[:-1]] + [nn.Sequential(layers[-1])]
    return nn.Sequential(OrderedDict((f"block{i}", block) for i, block in enumerate(blocks)))


def seconds(rank: int) -> small.BlockSeconds:
    return small.BlockSeconds([1e-3] * BLOCKS, [2e-3] * BLOCKS)


def run(config: str, cuts: list[int], steps: int = 12, name: str = "pipedream", **kwargs) -> small.SmallRun:
    """`steps` iterations, each as many minibatches as there are ranks."""
    options = {"config": config, "cuts": cuts} | kwargs.pop("options", {})
    workers = sum(map(int, config.split("-")))
    return small.run(
        name, options, workers=workers, steps=steps, batch=BATCH, build_model=deep, blocks=seconds, **kwargs
    )


def batches(workers: int) -> Batches:
    return Batches(small.split(), BATCH, 3, 10 * workers)


# --- the replay: stages' weights by version, and gradients of minibatches at any mixture of them


class Replay:
    """Weights of every stage after each of its updates, [stage][version] -> the parameters of its blocks."""

    def __init__(self, config: str, cuts: list[int], steps: int):
        self.replicas = [int(part) for part in config.split("-")]
        firsts = [0, *cuts, BLOCKS]
        self.runs = [range(a, b) for a, b in pairwise(firsts)]
        self.minibatches = sum(self.replicas) * steps
        self.batches = batches(sum(self.replicas))
        model = deep()
        self.weights = [[[p.detach().clone() for i in run for p in model[i].parameters()]] for run in self.runs]
        self.losses: list[float] = []

    def model(self, versions: list[int]) -> nn.Sequential:
        """The whole model, stage s with version versions[s] of its weights."""
        model = deep()
        with torch.no_grad():
            for run, held, version in zip(self.runs, self.weights, versions):
                for p, value in zip([p for i in run for p in model[i].parameters()], held[version]):
                    p.copy_(value)
        return model

    def gradient(self, minibatch: int, versions: list[int]) -> list[list[torch.Tensor]]:
        """Of each stage's parameters."""
        model = self.model(versions)
        x, y = self.batches[minibatch]
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        self.losses.append(loss.item())
        return [[p.grad for i in run for p in model[i].parameters()] for run in self.runs]

    def apply(self, stage: int, gradients: list[list[torch.Tensor]]) -> None:
        """One SGD step with the mean of gradients, added in the order given."""
        after = []
        for index, weight in enumerate(self.weights[stage][-1]):
            total = gradients[0][index].clone()
            for other in gradients[1:]:
                total += other[index]
            after.append(weight.add(total.div(len(gradients)) if len(gradients) > 1 else total, alpha=-LR))
        self.weights[stage].append(after)

    def assert_same(self, found: small.SmallRun) -> None:
        ranks = [stage for stage, m in enumerate(self.replicas) for _ in range(m)]
        for stage, weights in zip(ranks, found.weights, strict=True):
            assert torch.equal(weights, torch.cat([w.view(-1) for w in self.weights[stage][-1]]))


def replayed(config: str, cuts: list[int], steps: int, version) -> Replay:
    """Rounds: update r of a stage with m replicas is the mean of minibatches r m to r m + m - 1 (docs/errata.md, PD-5).

    version(stage, minibatch): the version of a stage's weights that a minibatch's passes use.
    """
    replay = Replay(config, cuts, steps)
    waiting: list[list] = [[] for _ in replay.replicas]
    for t in range(replay.minibatches):
        found = replay.gradient(t, [version(stage, t) for stage in range(len(replay.replicas))])
        for stage, gradient in enumerate(found):
            waiting[stage].append(gradient)
            if len(waiting[stage]) == replay.replicas[stage] or t + 1 == replay.minibatches:
                replay.apply(stage, waiting[stage])
                waiting[stage] = []
    return replay


STRAIGHT = [("1", []), ("1-1-1", [1, 3]), ("1-1-1-1", [1, 2, 4])]


@pytest.mark.parametrize(("config", "cuts"), STRAIGHT)
def test_weight_stashing_is_the_papers_update(config, cuts):
    """w(t+1) = w(t) - v grad f(w1(t-n+1), w2(t-n+2), ..., wn(t)) (section 3.4)."""
    n = len(cuts) + 1
    found = run(config, cuts, steps=6)
    replayed(config, cuts, 6, lambda stage, t: max(0, t - n + 1 + stage)).assert_same(found)


@pytest.mark.parametrize(("config", "cuts"), STRAIGHT)
def test_vertical_sync_has_all_stages_at_one_version(config, cuts):
    """w(t+1) = w(t) - v grad f(w1(t-n+1), ..., wn(t-n+1)) (section 3.4)."""
    n = len(cuts) + 1
    found = run(config, cuts, steps=6, options={"semantics": "vertical_sync"})
    replayed(config, cuts, 6, lambda stage, t: max(0, t - n + 1)).assert_same(found)


@pytest.mark.parametrize(("config", "cuts"), STRAIGHT)
def test_naive_mixes_two_versions_in_a_gradient(config, cuts):
    """Forward as with stashing, backward with the latest weights: layer by layer, by hand."""
    n = len(cuts) + 1
    replay = Replay(config, cuts, 6)
    stage_of = [stage for stage, blocks in enumerate(replay.runs) for _ in blocks]
    place = [2 * (block - replay.runs[stage].start) for block, stage in enumerate(stage_of)]
    for t in range(replay.minibatches):
        x, y = replay.batches[t]
        inputs, outputs = [x], []
        for block, stage in enumerate(stage_of):
            version = max(0, t - n + 1 + stage)
            weight, bias = replay.weights[stage][version][place[block] : place[block] + 2]
            linear = nn.functional.linear(inputs[-1], weight, bias)
            outputs.append(torch.tanh(linear) if block < BLOCKS - 1 else linear)
            inputs.append(outputs[-1])
        g = outputs[-1].detach().requires_grad_()
        nn.functional.cross_entropy(g, y).backward()
        g, found = g.grad, {}
        for block in reversed(range(BLOCKS)):
            if block < BLOCKS - 1:
                g = g * (1 - outputs[block] ** 2)
            weight = replay.weights[stage_of[block]][-1][place[block]]  # after t updates: the latest
            found[block] = [g.t() @ inputs[block], g.sum(0)]
            g = g @ weight
        for stage, blocks in enumerate(replay.runs):
            replay.apply(stage, [[one for block in blocks for one in found[block]]])
    got = run(config, cuts, steps=6, options={"semantics": "naive"})
    for stage, weights in enumerate(got.weights):
        torch.testing.assert_close(weights, torch.cat([w.view(-1) for w in replay.weights[stage][-1]]))
    if n > 1:  # the gradients that it mixes are not those of stashing
        assert not torch.allclose(got.weights[0], run(config, cuts, steps=6).weights[0], rtol=1e-6, atol=1e-7)


REPLICATED = [("3", []), ("2-1", [3]), ("1-2-1", [2, 4]), ("2-3", [2])]


def rounds(config: str, overlap: bool, vertical: bool):
    """The version that a minibatch uses, as PipeDream's section 3.4 defines it."""
    replicas = [int(part) for part in config.split("-")]

    def local(stage: int, t: int) -> int:
        m = replicas[stage]
        in_flight = math.ceil(sum(replicas[stage:]) / m)
        late = 1 if overlap and m > 1 and in_flight > 1 else 0
        return max(0, t // m - in_flight + 1 - late)

    def version(stage: int, t: int) -> int:
        return local(0, t) * replicas[0] // replicas[stage] if vertical else local(stage, t)

    return version


@pytest.mark.parametrize(("config", "cuts"), REPLICATED)
@pytest.mark.parametrize(("overlap", "vertical"), list(product([True, False], [False, True])))
def test_replicated_stages_update_in_rounds(config, cuts, overlap, vertical):
    options = {"overlap": overlap, "semantics": "vertical_sync" if vertical else "stashing"}
    found = run(config, cuts, steps=5, options=options)
    replayed(config, cuts, 5, rounds(config, overlap, vertical)).assert_same(found)


@pytest.mark.parametrize(("workers", "algorithm"), [(2, "sharded_server"), (6, "sharded_server"), (3, "tree")])
def test_one_replicated_stage_is_data_parallel_bsp(workers, algorithm):
    options = {"algorithm": algorithm}
    optimizer = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 1e-3})
    how = {"steps": 7, "build_model": deep, "blocks": seconds, "optimizer": optimizer}
    bsp = small.run("wfbp", options | {"bucket_mb": 0, "first_bucket_mb": 0}, workers=workers, **how)
    assert small.run("pipedream", options | {"config": str(workers)}, workers=workers, **how).digests == bsp.digests


@pytest.mark.parametrize(("config", "cuts"), STRAIGHT)
def test_model_parallelism_is_plain_sgd(config, cuts):
    found = run(config, cuts, steps=4, name="model_parallel")
    replayed(config, cuts, 4, lambda stage, t: t).assert_same(found)


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b_flush"])
@pytest.mark.parametrize(
    ("config", "cuts", "flush"), [("1-1-1-1", [1, 2, 4], 4), ("1-1", [2], 3), ("1-2-1", [1, 3], 2)]
)
def test_flushes_are_synchronous_sgd(name, config, cuts, flush):
    replay = Replay(config, cuts, 5)
    for start in range(0, replay.minibatches, flush):
        found = [
            replay.gradient(t, [-1] * len(replay.replicas))
            for t in range(start, min(start + flush, replay.minibatches))
        ]
        for stage, m in enumerate(replay.replicas):  # each replica adds up its own, then they are added in rank order
            own = [[gradient[stage] for gradient in found[replica::m]] for replica in range(m)]
            sums = [[sum(parts[1:], parts[0].clone()) for parts in zip(*one)] for one in own if one]
            after = [
                weight.add(sum(parts[1:], parts[0].clone()).div(len(found)), alpha=-LR)
                for weight, parts in zip(replay.weights[stage][-1], zip(*sums))
            ]
            replay.weights[stage].append(after)
    replay.assert_same(run(config, cuts, steps=5, name=name, options={"flush": flush}))


# --- what holds besides


@pytest.mark.parametrize(("config", "cuts"), [("1-1-1", [1, 3]), ("1-2-1", [2, 4])])
@pytest.mark.parametrize("semantics", ["stashing", "vertical_sync", "naive"])
def test_resume_changes_nothing_wherever_it_happens(config, cuts, semantics):
    options, optimizer = {"semantics": semantics}, small.SGD.model_copy(update={"momentum": 0.9})
    whole = run(config, cuts, steps=9, options=options, optimizer=optimizer)
    for stop in (1, 5):
        resumed = run(config, cuts, steps=9, options=options, optimizer=optimizer, stop_and_resume_at=stop)
        if semantics == "naive":  # a forward pass that is done again uses the weights at the stop
            assert resumed.bytes_sent >= whole.bytes_sent
        else:
            assert resumed.digests == whole.digests


@pytest.mark.ranks
@pytest.mark.parametrize("fabric", ["mpi", "torch"])
@pytest.mark.parametrize(("config", "cuts", "name"), [
    ("1-1-1-1", [1, 3, 4], "pipedream"), ("2-1-1", [2, 3], "pipedream"), ("3-1", [3], "pipedream"),
    ("4", [], "pipedream"),
    ("1-1-1-1", [1, 3, 4], "model_parallel"), ("1-2-1", [1, 3], "gpipe"), ("2-1-1", [1, 2], "one_f_one_b_flush"),
])  # fmt: skip
def test_real_ranks_train_to_the_same_bits(fabric, config, cuts, name):
    how = {"steps": 7, "name": name, "settle_every": 3}
    assert run(config, cuts, fabric=fabric, **how).digests == run(config, cuts, **how).digests


@pytest.mark.parametrize("semantics", ["stashing", "vertical_sync"])
def test_staleness_is_that_of_the_formula(semantics):
    found = run("1-1-1-1", [1, 2, 3], steps=6, options={"semantics": semantics})
    stages = {"stashing": [3, 2, 1, 0], "vertical_sync": [3, 3, 3, 3]}[semantics]
    for stale, late in zip(found.staleness, stages):
        assert stale == [min(t, late) for t in range(24)]


def test_bytes_are_activations_and_gradients_of_the_cut_layers():
    found, minibatches = run("1-1-1", [1, 3], steps=5), 15
    first, second = (4 * BATCH * WIDTHS[cut] * minibatches for cut in (1, 3))
    assert found.bytes_sent == [first, first + second, second]


@pytest.mark.parametrize(("config", "cuts", "message"), [
    ("1-1-1", [1], "2 cuts"), ("1-1", [5], "block numbers"), ("1-1-1", [3, 3], "block numbers"),
    ("1-1-1-1-1-1", [1, 2, 3, 4, 5], "6 stages, but the model has 5 blocks"),
])  # fmt: skip
def test_wrong_cuts(config, cuts, message):
    with pytest.raises(InputError, match=message):
        run(config, cuts, steps=1)


def test_saved_bytes_are_known_without_running_a_block():
    blocks = list(deep())
    found = output_shapes(blocks, torch.zeros(BATCH, small.INPUTS))
    activation = torch.zeros(BATCH, small.INPUTS)
    for block, shape in zip(blocks, found, strict=True):
        with count_saved(block.parameters()) as kept:
            activation = block(activation.detach().requires_grad_())
        assert shape.kept == kept.nbytes > 0 and shape.size == tuple(activation.shape)


def test_batch_norm_resumes_with_minibatches_under_way():
    """Their forward passes are done again, and running statistics put back, before their backward passes."""

    def normed():
        blocks = [nn.Sequential(nn.Linear(small.INPUTS, 5), nn.BatchNorm1d(5), nn.ReLU()), nn.Linear(5, small.CLASSES)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for block in blocks[0][0], blocks[1]:
                block.reset_parameters()
        return nn.Sequential(OrderedDict(zip("ab", blocks)))

    how = {"workers": 2, "build_model": normed}
    whole = small.run("pipedream", {"config": "1-1", "cuts": [1]}, **how)
    resumed = small.run("pipedream", {"config": "1-1", "cuts": [1]}, stop_and_resume_at=5, **how)
    assert resumed.digests == whole.digests
