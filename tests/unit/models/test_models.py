"""Frozen parameters, hooks of each block, modelled backward passes, batch norm and dropout."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import models
from repro.data.base import Split
from repro.data.minibatches import Batches
from repro.experiment.testbeds import Rate
from repro.fabric.virtual import fabric as virtual
from repro.testing.small import COSTS, NETWORK, SGD
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds, backward_passes, block_seconds
from repro.training.evaluation.evaluate import evaluate_weights, weights_digest
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker
from tests.support.probes import check, composed

CPU = torch.device("cpu")
DEVICE = Rate(peak_flops=1e9, utilisation=1.0, launch_s=1.0)


def images(count: int = 8, side: int = 8, channels: int = 3, classes: int = 5, seed: int = 0) -> Split:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, channels, side, side, generator=generator)
    return Split(x, torch.randint(classes, (count,), generator=generator))


# Frozen parameters


def pass_through(part: ModelShard, split: Split, gradient_ready=None) -> torch.Tensor:
    """One forward and backward pass; the loss."""
    around = lambda name, block: nullcontext()  # noqa: E731
    return part.forward_backward(split.x, split.y, functional.cross_entropy, around, gradient_ready=gradient_ready)


def convex(seed: int, **optimizer) -> ModelShard:
    return ModelShard(models.build_model("cifar100_convex", (3, 8, 8), 5, seed), SGD.model_copy(update=optimizer), CPU)


def test_only_the_last_layer_is_communicated_and_updated():
    part = convex(0)
    assert part.size == 64 * 5 + 5 and len(part.parameters) == 2
    before, split = part.snapshot(), images()
    losses = []
    for _ in range(5):
        losses.append(pass_through(part, split).item())
        part.update(part.gradient(part.empty()))
    after = part.snapshot()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"fc2.0.weight", "fc2.0.bias"}
    assert torch.equal(torch.cat([after["fc2.0.weight"].view(-1), after["fc2.0.bias"]]), part.weights)
    assert losses == sorted(losses, reverse=True)
    assert part.model[:4](split.x).grad_fn is None, "autograd records the frozen blocks"


def test_a_shard_with_frozen_parameters_resumes():
    part, other, split = convex(0, momentum=0.9), convex(1, momentum=0.9), images()
    for _ in range(2):
        pass_through(part, split)
        part.update()
    state = copy.deepcopy(part.state_dict())
    other.load_state_dict(state)
    for one in (part, other):
        pass_through(one, split)
        one.update()
    assert weights_digest(part.snapshot()) == weights_digest(other.snapshot()) and torch.equal(
        part.weights, other.weights
    )


@pytest.mark.parametrize("name, shape", [("cifar100_convex", (3, 8, 8)), ("softmax", (3, 8, 8))])
def test_convex_along_every_line(name, shape):
    part, split = ModelShard(models.build_model(name, shape, 5, 0), SGD, CPU), images(32)
    generator = torch.Generator().manual_seed(1)

    def loss(weights: torch.Tensor) -> float:
        part.weights.copy_(weights)
        with torch.no_grad():
            return functional.cross_entropy(part.model(split.x), split.y).double().item()

    for _ in range(5):
        one, two = (torch.randn(part.size, generator=generator) for _ in range(2))
        for share in (0.25, 0.5, 0.75):
            chord = (1 - share) * loss(one) + share * loss(two)
            assert loss((1 - share) * one + share * two) <= chord + 1e-4


# Hooks


class Sum(nn.Module):
    """A block without parameters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def stack(*kinds: str) -> nn.Sequential:
    """Blocks by letter: t trains, f is frozen, n has no parameters."""
    blocks = [Sum() if kind == "n" else nn.Linear(5, 5) for kind in kinds]
    for block, kind in zip(blocks, kinds):
        block.requires_grad_(kind == "t")
    return nn.Sequential(*blocks)


@pytest.mark.parametrize("kinds", ["t", "ftt", "nnt", "tnn", "tntnft", "fntnnfnt"])
def test_every_block_is_reported_once_last_first(kinds):
    part, ready = ModelShard(stack(*kinds), SGD, CPU), []
    split = Split(torch.randn(4, 5), torch.arange(4))
    trained = [index for index, kind in enumerate(kinds) if kind == "t"]

    def gradient_ready(block: int) -> None:
        if kinds[block] == "t":
            assert all(p.grad is not None for p in part.blocks[block].parameters())
            lower = [p for index in trained if index < block for p in part.blocks[index].parameters()]
            assert all(p.grad is None for p in lower), "an earlier block's gradient came first"
        ready.append(block)

    for _ in range(2):
        ready.clear()
        pass_through(part, split, gradient_ready)
        assert ready == list(reversed(range(len(kinds))))


# Modelled times


@pytest.mark.parametrize(("kinds", "passes"), [
    ("ttt", [2, 2, 2]), ("tnt", [2, 2, 2]), ("fft", [0, 0, 1]), ("ftt", [0, 1, 2]), ("tft", [1, 1, 2]),
    ("nft", [0, 0, 1]), ("ftn", [0, 1, 1]),
])  # fmt: skip
def test_work_of_backward_passes(kinds, passes):
    assert backward_passes(stack(*kinds)) == passes


def test_modelled_seconds_of_frozen_blocks():
    frozen, whole = (
        block_seconds(models.build_model(name, (3, 32, 32), 100, 0, "meta"), (3, 32, 32), 10, DEVICE)
        for name in ("cifar100_convex", "cifar100_cnn")
    )
    assert frozen.forward[4] == pytest.approx(1.0 + 10 * 2 * 64 * 100 / 1e9)
    assert frozen.backward == [0.0, 0.0, 0.0, 0.0, frozen.forward[4]]
    assert whole.forward == frozen.forward
    assert whole.backward == pytest.approx([1.0 + 2 * (seconds - 1.0) for seconds in whole.forward])


# Batch norm and dropout


def test_snapshots_contain_the_statistics_that_evaluation_uses():
    part, split = ModelShard(models.build_model("resnet8", (3, 8, 8), 5, 0), SGD, CPU), images()
    spare = models.build_model("resnet8", (3, 8, 8), 5, 9)
    before = weights_digest(part.snapshot())
    fresh = evaluate_weights(spare, part.snapshot(), split, CPU)
    for _ in range(5):
        pass_through(part, split)
    snapshot = part.snapshot()
    assert snapshot["conv1.1.num_batches_tracked"].item() == 5 and weights_digest(snapshot) != before
    assert evaluate_weights(spare, snapshot, split, CPU) != fresh, "the running statistics changed, the weights did not"
    assert part.model.training and weights_digest(part.snapshot()) == weights_digest(snapshot)


@pytest.mark.parametrize("ranks", [1, 3])
def test_dropout_depends_on_seed_and_minibatch_alone(ranks):
    """Not on other virtual ranks, which run between this one's blocks, nor on earlier passes."""

    def model() -> nn.Sequential:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            first, second = nn.Linear(6, 32), nn.Linear(32, 5)
        return nn.Sequential(first, nn.Dropout(0.5), nn.Sequential(second, nn.Dropout(0.5)))

    def main(fabric: virtual.VirtualFabric) -> list[float]:
        batches = Batches(Split(torch.ones(8, 6), torch.arange(8) % 5), 4, 0)
        shard, seconds = ModelShard(model(), SGD, CPU), BlockSeconds([1e-3] * 3, [1e-3] * 3)
        worker = Worker(ranks, fabric, Clock(fabric), shard, batches, iterations_per_epoch=2, seed=0, blocks=seconds)
        worker.clock.start()
        if fabric.rank:
            worker.gradients(fabric.rank)
        losses = [worker.gradients(minibatch).item() for minibatch in (0, 1, 7)]
        torch.rand(3)
        return [*losses, worker.gradients(7).item()]

    results = virtual.run(ranks, main, NETWORK, COSTS)
    assert results == [results[0]] * ranks and results[0][2] == results[0][3]
    assert len(set(results[0][:3])) == 3


@pytest.mark.parametrize(("model", "side", "expected"), [
    ("alexnet", 224, "49,430,888 parameters at 224x224 pixels, not 60,965,224 as at the published 227x227"),
    ("alexnet", 227, None), ("vgg16_imagenet", 227, None), ("resnet18", 64, None),
    ("vgg19", 256, f"{143_667_240 + 15 * 512 * 4096:,} parameters at 256x256 pixels, not 143,667,240"),
])  # fmt: skip
def test_a_note_for_images_that_change_the_number_of_parameters(model, side, expected):
    dataset = SimpleNamespace(input_shape=(3, side, side), classes=1000)
    note = models.size_note(check(composed("fig4-mnist") | {"model": {"name": model}}), dataset)
    assert note is None if expected is None else expected in note
