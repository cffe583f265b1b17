"""iBatch for modules in general: a module with skip connections trains to the weights of plain synchronous SGD."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from repro.algorithms.parameter_server.module import ServedModule
from repro.core.errors import InputError
from repro.fabric.virtual import fabric as virtual
from repro.testing import small

OPTIMIZER = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}


class Residual(nn.Module):
    """Not a sequence: every block's input is added to its output."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(small.INPUTS, small.INPUTS) for _ in range(4))
        self.head = nn.Linear(small.INPUTS, small.CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).tanh()
        return self.head(x)

    @property
    def blocks(self):
        return [*self.layers, self.head]


def build() -> Residual:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return Residual()


def minibatch(iteration: int, rank: int, ranks: int):
    split = small.split()
    first = 4 * (iteration * ranks + rank)
    return split.x[first : first + 4], split.y[first : first + 4]


def plain(ranks: int, steps: int) -> dict[str, torch.Tensor]:
    module = build()
    optimizer = torch.optim.SGD(module.parameters(), **OPTIMIZER)
    for iteration in range(steps):
        gradients = []
        for rank in range(ranks):
            x, y = minibatch(iteration, rank, ranks)
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            gradients.append([p.grad.clone() for p in module.parameters()])
        for parameter, own in zip(module.parameters(), zip(*gradients)):
            total = own[0]
            for one in own[1:]:
                total = total + one
            parameter.grad = total.div_(ranks)
        optimizer.step()
    return module.state_dict()


def train(ranks: int, mode: str | None, steps: int = 5, placement: str = "layers"):
    def main(fabric):
        module = build()
        server = ServedModule(fabric, module, module.blocks, OPTIMIZER, placement)
        batches = ()
        if mode:
            batches = server.batch(server.profile(lambda: module(small.split().x[:4]), 2), mode)
        for iteration in range(steps):
            x, y = minibatch(iteration, fabric.rank, ranks)
            with server.step():
                nn.functional.cross_entropy(module(x), y).backward()
        weights = server.weights()
        server.close()
        return weights, batches

    return virtual.run(ranks, main, small.NETWORK, small.COSTS)


@pytest.mark.parametrize(("ranks", "mode", "placement"), [
    (1, "greedy", "layers"), (2, None, "layers"), (2, "layerwise", "layers"), (3, "exact", "layers"),
    (3, "greedy", "layers"), (3, "greedy", "vector"),
])  # fmt: skip
def test_the_weights_are_those_of_synchronous_sgd(ranks, mode, placement):
    expected = plain(ranks, 5)
    for weights, batches in train(ranks, mode, placement=placement):
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
        assert not batches or (batches[0][0], batches[-1][1]) == (1, 5)


def made(blocks, optimizer=OPTIMIZER, ranks=1):
    def main(fabric):
        module = build()
        ServedModule(fabric, module, blocks(module), optimizer).close()

    virtual.run(ranks, main, small.NETWORK)


@pytest.mark.parametrize(("blocks", "message"), [
    (lambda module: module.layers, "head.weight is in none of them"),
    (lambda module: [*module.blocks, module.layers[0]], "layers.0.weight is in an earlier block too"),
    (lambda module: [*module.blocks, nn.Linear(2, 2)], "block 5: has a parameter that is not the module's"),
])  # fmt: skip
def test_blocks_that_are_not_the_modules(blocks, message):
    with pytest.raises(InputError, match=message):
        made(blocks)


def test_a_block_that_does_not_run():
    def main(fabric):
        module = build()
        server = ServedModule(fabric, module, module.blocks, OPTIMIZER)
        try:
            server.profile(lambda: module.layers[0](small.split().x[:4]), 1)
        finally:
            server.close()

    with pytest.raises(InputError, match="1 of 5 ran"):
        virtual.run(1, main, small.NETWORK)


def test_clipping_is_refused():
    with pytest.raises(InputError, match="clip_norm"):
        made(lambda module: module.blocks, OPTIMIZER | {"clip_norm": 1.0}, ranks=2)
