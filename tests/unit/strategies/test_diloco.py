"""DiLoCo and local SGD against the algorithm by PyTorch's optimizers and against other strategies; AdamW."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from repro.core.errors import InputError
from repro.data.minibatches import Batches
from repro.experiment.optimizer import Optimizer
from repro.testing import small
from repro.training.model_shard import ModelShard

ADAMW = Optimizer(name="adamw", lr=0.01, weight_decay=0.1, betas=[0.8, 0.95], eps=1e-6)
LOCAL = {"outer_lr": 1.0, "outer_momentum": 0.0}


def inner(parameters, optimizer=ADAMW) -> torch.optim.Optimizer:
    how = {"betas": tuple(optimizer.betas), "eps": optimizer.eps, "weight_decay": optimizer.weight_decay}
    return torch.optim.AdamW(parameters, optimizer.lr, **how)


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, minibatch: int, per_epoch: int) -> None:
    x, y = Batches(small.split(), 4, 3, per_epoch)[minibatch]
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


# --- AdamW


def test_adamw_is_pytorchs_to_the_bit():
    model = small.model()
    optimizer = inner(model.parameters())
    for minibatch in range(12):
        trained(model, optimizer, minibatch, 10)
    expected = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(small.run("dsync", workers=1, optimizer=ADAMW).weights[0], expected)


@pytest.mark.parametrize("name", ["dsync", "ps_async", "pipe_sgd", "gtopk"])
def test_strategies_train_with_adamw_and_go_on_after_a_resume(name):
    whole = small.run(name, optimizer=ADAMW)
    assert whole.digests == small.run(name, optimizer=ADAMW, stop_and_resume_at=7).digests


def test_momentum_correction_needs_a_momentum():
    with pytest.raises(InputError, match=r"strategy\.momentum_correction=true"):
        small.run("topk", {"momentum_correction": True}, optimizer=ADAMW)


# --- DiLoCo


@pytest.mark.parametrize(("workers", "steps"), [(1, 10), (3, 12), (3, 10)])
def test_it_is_algorithm_1_by_pytorchs_optimizers(workers, steps):
    """AdamW inside, SGD with Nesterov momentum outside; ten steps end within a round of four."""
    H = 4
    found = small.run("diloco", {"H": H}, workers=workers, steps=steps, optimizer=ADAMW)
    common = nn.Parameter(small.initial_weights())
    outer = torch.optim.SGD([common], 0.7, momentum=0.9, nesterov=True)
    models = [small.model() for _ in range(workers)]
    parameters = [list(model.parameters()) for model in models]
    optimizers = [inner(each) for each in parameters]
    for step in range(steps):
        for worker in range(workers):
            trained(models[worker], optimizers[worker], step * workers + worker, 10 * workers)
        if (step + 1) % H == 0 or step == steps - 1:
            mine = [nn.utils.parameters_to_vector(each).detach() for each in parameters]
            common.grad = torch.stack([common.detach() - theta for theta in mine]).mean(0)
            outer.step()
            for each in parameters:
                nn.utils.vector_to_parameters(common.detach().clone(), each)
    torch.testing.assert_close(found.weights[0], common.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("workers", [1, 3])
def test_an_outer_step_each_iteration_of_rate_1_is_averaging_of_parameters(workers):
    """To the bit; and so synchronous SGD up to rounding (`parameter_averaging`)."""
    found = small.run("diloco", {"H": 1} | LOCAL, workers=workers)
    averaged, dsync = (small.run(name, workers=workers) for name in ("parameter_averaging", "dsync"))
    assert (found.digests, found.losses, found.bytes_sent) == (averaged.digests, averaged.losses, averaged.bytes_sent)
    torch.testing.assert_close(found.weights[0], dsync.weights[0])


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("options", [{}, LOCAL])
def test_on_the_same_data_it_is_one_worker(workers, options):
    """To the bit where the mean is: doubling adds equal numbers to a power of two of them."""
    chosen = {"H": 3, "algorithm": "recursive_doubling"} | options
    how = {"optimizer": ADAMW, "same_data": True}
    one, several = (small.run("diloco", chosen, workers=number, **how) for number in (1, workers))
    assert set(several.digests) == set(one.digests)


@pytest.mark.parametrize("workers", [3])
def test_it_sends_one_model_a_round_and_all_hold_the_common_weights(workers):
    found, dsync = (small.run(name, workers=workers, steps=12) for name in ("diloco", "dsync"))
    rounds = 3  # of five, five and two iterations
    assert [12 * sent for sent in found.bytes_sent] == [rounds * sent for sent in dsync.bytes_sent]
    within = small.run("diloco", workers=workers, steps=12, drain=False)
    assert len(set(within.digests)) == 1 and not torch.equal(within.weights[0], within.weights[1])
    evaluated = ModelShard(small.model(), small.SGD, torch.device("cpu"))
    evaluated.model.load_state_dict(within.evaluated[1])
    assert torch.equal(evaluated.weights, within.states[0]["common"])


def test_a_round_hides_nothing_and_saves_all_but_its_own_exchange():
    """6 ms of passes an iteration; what a ring of four takes, an iteration of D-Sync as a round of ten."""
    dsync, diloco = (small.run(name, o, workers=4, steps=50) for name, o in (("dsync", {}), ("diloco", {"H": 10})))
    assert diloco.seconds - 50 * 6e-3 == pytest.approx((dsync.seconds - 50 * 6e-3) / 10, rel=1e-2)
