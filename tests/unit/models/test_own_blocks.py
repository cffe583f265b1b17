"""A user's module, cut into blocks, has the same outputs, gradients and parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from repro.models._blocks import ONE_BLOCK, blocks_of


def residual(width: int = 4) -> nn.Module:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c, self.d = (nn.Linear(width, width) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x)
            return self.d(x + self.c(self.b(x).relu()))

    return Net()


def one_block(forward) -> nn.Module:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return forward(self, x)

    return Net()


def tied() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    return net


RELU = nn.ReLU()


@pytest.mark.parametrize(("net", "names"), [
    (residual(), ["a", "b", "d"]),
    (nn.Sequential(nn.Linear(4, 4), RELU, nn.Linear(4, 4), RELU), ["0", "1", "2", "1__2"]),
    (tied(), ["model"]),
    (nn.Linear(4, 4), ["model"]),
    (one_block(lambda net, x: net.b(net.a(x)) if x.sum() > 0 else net.a(x)), ["model"]),
    (one_block(lambda net, x: net.b(net.a(x)) + 0 * torch.randn(1)), ["model"]),
    (one_block(lambda net, x: net.b(nn.functional.dropout(net.a(x), 0.5, net.training))), ["model"]),
])  # fmt: skip
def test_blocks_compute_what_the_module_does(net, names):
    net.eval()
    x, was = torch.randn(3, 4), net.training
    want, gradient = net(x), torch.autograd.grad(net(x).sum(), [*net.parameters()], allow_unused=True)
    cut = blocks_of(net, (4,)).eval()
    assert [name for name, _ in cut.named_children()] == names and net.training == was
    assert torch.equal(cut(x), want)
    assert {id(one) for one in cut.parameters()} == {id(one) for one in net.parameters()}
    again = torch.autograd.grad(cut(x).sum(), [*net.parameters()], allow_unused=True)
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(gradient, again))
    assert hasattr(cut[0], ONE_BLOCK) is (names == ["model"])
