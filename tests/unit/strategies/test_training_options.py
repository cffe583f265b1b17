"""Gradient clipping, learning-rate warm-up and microbatches."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch.nn import functional

from repro import models, strategies
from repro.core.errors import InputError
from repro.data.base import Split
from repro.data.minibatches import Batches
from repro.experiment.expand import expand_runs
from repro.experiment.optimizer import Optimizer
from repro.fabric.virtual import fabric as virtual
from repro.testing import small
from repro.testing.small import COSTS, NETWORK, SGD
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.evaluation.evaluate import weights_digest
from repro.training.model_shard import ModelShard
from repro.training.optimizers import Schedule
from repro.training.worker import Worker

CPU = torch.device("cpu")
BLOCKS = BlockSeconds([1e-3, 3e-3], [2e-3, 5e-3])

# Clipping


def norm(part: ModelShard) -> float:
    return torch.cat([p.grad.view(-1) for p in part.parameters]).norm().item()


@pytest.mark.parametrize("own", [False, True], ids=["a vector", "the part's own"])
def test_a_long_gradient_is_scaled_down_and_a_short_one_left_alone(own):
    vector = torch.linspace(-1, 1, ModelShard(small.model(), SGD, CPU).size)
    for clip, expected in ((0.5, 0.5), (1e9, vector.norm().item())):
        part = ModelShard(small.model(), SGD.model_copy(update={"clip_norm": clip}), CPU)
        before, given = part.weights.clone(), vector.clone()
        if own:
            for parameter, view in zip(part.parameters, part.views(given)):
                parameter.grad = view
        part.update(None if own else given)
        assert norm(part) == pytest.approx(expected, rel=1e-4)
        torch.testing.assert_close(before - part.weights, 0.1 * vector * (expected / vector.norm()))


def test_weight_decay_and_momentum_come_after_clipping():
    part = ModelShard(small.model(), Optimizer(lr=0.1, momentum=0.9, weight_decay=0.5, clip_norm=1e-6), CPU)
    before = part.weights.clone()
    part.update(torch.ones(part.size))
    torch.testing.assert_close(part.weights, before * (1 - 0.1 * 0.5))


@pytest.mark.parametrize("name", ["dsync", "pipe_sgd", "ps_sync"])
def test_a_norm_that_is_never_met_changes_no_bit_and_a_small_one_clips_the_mean(name):
    plain = small.run(name, workers=3)
    assert small.run(name, workers=3, optimizer=SGD.model_copy(update={"clip_norm": 1e6})).digests == plain.digests
    clipped = small.run(name, workers=3, optimizer=SGD.model_copy(update={"clip_norm": 1e-3}), steps=5)
    assert len(set(clipped.digests)) == 1
    start = ModelShard(small.model(), SGD, CPU).weights
    assert 0 < (clipped.weights[0] - start).norm() <= 5 * 0.1 * 1e-3 * 1.01, "five steps of lr x norm at most"


# Warm-up of the learning rate


def test_the_first_epochs_take_a_part_of_the_rate():
    def rates(**optimizer):
        schedule = Schedule(SGD.model_copy(update=optimizer), 3)
        return [schedule.rate(t) for t in range(1, 9)]

    assert rates() == rates(warmup=[]) == [0.1] * 8
    assert rates(warmup=[0.5, 0.25]) == [0.05] * 3 + [0.025] * 3 + [0.1] * 2
    step = {"schedule": "step", "milestones": [1], "decay": 0.1}
    assert rates(**step, warmup=[0.5, 0.5]) == [r * f for r, f in zip(rates(**step), [0.5] * 6 + [1.0] * 2)]


def test_warmup_reaches_the_optimizer_and_survives_a_resume():
    optimizer = SGD.model_copy(update={"momentum": 0.9, "warmup": [0.01]})
    whole = small.run("dsync", optimizer=optimizer)
    assert whole.digests == small.run("dsync", optimizer=optimizer, stop_and_resume_at=7).digests
    assert whole.digests != small.run("dsync", optimizer=SGD.model_copy(update={"momentum": 0.9})).digests


# Microbatches


def images(count: int = 48) -> Split:
    generator = torch.Generator().manual_seed(1)
    return Split(torch.randn(count, 3, 8, 8, generator=generator), torch.randint(5, (count,), generator=generator))


def train(name: str = "dsync", accumulate: int = 1, workers: int = 2, steps: int = 4, resume_at: int = 0, **how):
    """Per rank: weights (n,), digest, losses, virtual seconds."""

    def rank(fabric):
        def build():
            model = models.build_model(how.get("model", "cifar100_cnn"), (3, 8, 8), 5, 0)
            part = ModelShard(model, SGD.model_copy(update={"lr": 0.01, "momentum": 0.9}), CPU, 3)
            blocks = BlockSeconds([1e-3] * len(model), [2e-3] * len(model))
            worker = Worker(
                workers, fabric, Clock(fabric), part, Batches(images(), 8, 3, 3 * workers), 3, 0, blocks,
                arithmetic=how.get("arithmetic", True), accumulate=accumulate,
            )  # fmt: skip
            strategy_class = strategies.load_strategy(name)
            strategy = strategy_class(strategy_class.parse(how.get("options", {})))
            strategy.setup(worker)
            worker.clock.start()
            return worker, strategy

        worker, strategy = build()
        losses = []
        for step in range(1, steps + 1):
            loss = strategy.step().loss
            losses.append(None if loss is None else loss.item())
            if step == resume_at:
                strategy.settle()
                states = worker.model_shard.state_dict(), strategy.state_dict()
                strategy.close()
                worker, strategy = build()
                worker.model_shard.load_state_dict(states[0])
                strategy.load_state_dict(states[1])
        strategy.drain()
        seconds = worker.clock.train_s()
        strategy.close()
        return worker.model_shard.weights.clone(), weights_digest(strategy.eval_weights()), losses, seconds

    return virtual.run(workers, rank, NETWORK, COSTS)


@pytest.mark.parametrize("name", ["dsync", "pipe_sgd", "wfbp"])
def test_microbatches_are_the_minibatch_to_rounding_on_every_rank(name):
    whole, cut = train(name), train(name, accumulate=4)
    torch.testing.assert_close(cut[0][0], whole[0][0], rtol=1e-4, atol=1e-6)
    assert len({digest for _, digest, _, _ in cut}) == 1 and cut[0][1] != whole[0][1]
    for (_, _, mine, _), (_, _, theirs, _) in zip(cut, whole):
        assert mine == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("arithmetic", [True, False])
def test_microbatches_take_the_same_virtual_time(arithmetic):
    whole, cut = (train(accumulate=n, arithmetic=arithmetic)[0][3] for n in (1, 4))
    assert cut == pytest.approx(whole, rel=1e-12)
    # wait-free backpropagation hides less: only the last microbatch's backward pass has gradients to send
    buckets = {"bucket_mb": 0, "first_bucket_mb": 0}
    hidden = [train("wfbp", n, options=buckets, arithmetic=arithmetic)[0][3] for n in (1, 4)]
    assert hidden[0] < hidden[1] < whole


def pass_through(part: ModelShard, pieces: int, x: torch.Tensor, y: torch.Tensor, **hooks) -> None:
    around = lambda name, block: nullcontext()  # noqa: E731
    for number, (inputs, labels) in enumerate(zip(x.chunk(pieces), y.chunk(pieces))):
        part.forward_backward(inputs, labels, functional.cross_entropy, around, **hooks, microbatch=(number, pieces))


def test_hooks_see_the_last_microbatch_alone_and_the_whole_gradient():
    part, split = ModelShard(models.build_model("cifar100_cnn", (3, 8, 8), 5, 0), SGD, CPU), images(8)
    pass_through(part, 1, split.x, split.y)
    expected = part.gradient(part.empty()).clone()
    seen, blocks, ready, library = [], [], [], {}
    for index, parameter in enumerate(part.parameters):  # as DistributedDataParallel and Horovod watch them

        def arrived(p, index=index):
            seen.append(index)
            library[index] = p.grad.clone()

        parameter.register_post_accumulate_grad_hook(arrived)
    passes = []

    def through(run):
        passes.append(1)
        return run()

    pass_through(part, 4, split.x, split.y, before_block=blocks.append, gradient_ready=ready.append, through=through)
    assert sorted(seen) == list(range(len(part.parameters))) and len(passes) == 1
    assert blocks == [0, 1, 2, 3, 4] and ready == [4, 3, 2, 1, 0]
    torch.testing.assert_close(part.gradient(part.empty()), expected, rtol=1e-4, atol=1e-7)
    assert torch.equal(torch.cat([library[i].view(-1) for i in range(len(seen))]), part.gradient(part.empty()))


def test_each_microbatch_has_dropout_of_its_own():
    seeds = []

    def rank(fabric):
        model = models.build_model("lstm_ptb", (4,), 9, 0, hidden=4)
        x = torch.arange(24).view(6, 4) % 9
        batches = Batches(Split(x, torch.arange(6)), 6, 0)
        how = {"accumulate": 3, "loss_function": lambda logits, y: logits.sum()}
        worker = Worker(1, fabric, Clock(fabric), ModelShard(model, SGD, CPU), batches, 1, 0, **how)
        for module in model.modules():
            if hasattr(module, "reset_state"):
                module.register_forward_hook(lambda module, *_: module.reset_state())
        model.embedding[1].register_forward_pre_hook(lambda *_: seeds.append(torch.initial_seed()))
        worker.clock.start()
        worker.gradients(0)

    virtual.run(1, rank, NETWORK, COSTS)
    assert len(set(seeds)) == 3


@pytest.mark.parametrize(
    ("accumulate", "complaint"),
    [
        ("3", "a worker's minibatch of 8 must be cut into equal parts: 1, 2, 4, 8"),
        ("0", "accumulate=0: must be 1 or more"),
        ("true", "accumulate=True: must be a whole number"),
    ],
)
def test_a_minibatch_is_cut_into_equal_parts(accumulate, complaint):
    override = ["workers=2", "batch=16", "strategy=dsync", "testbed=virtual"]
    assert expand_runs("pipesgd/fig4-mnist", [*override, "accumulate=8"])
    with pytest.raises(InputError, match=complaint):
        expand_runs("pipesgd/fig4-mnist", [*override, f"accumulate={accumulate}"])
