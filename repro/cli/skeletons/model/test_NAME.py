"""The network's number of parameters, and that it learns."""

import torch
from NAME import build
from torch.nn import functional


def test_its_parameters_are_as_many_as_published():
    model = build((1, 8, 8), 10, hidden=100)
    assert sum(each.numel() for each in model.parameters()) == (64 + 1) * 100 + (100 + 1) * 10


def test_a_few_steps_lower_the_loss():
    torch.manual_seed(0)
    model, x, y = build((1, 8, 8), 10), torch.randn(32, 1, 8, 8), torch.arange(32) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        losses.append(functional.cross_entropy(model(x), y))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0]
