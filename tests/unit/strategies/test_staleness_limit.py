"""The largest stable learning rate under staleness, which the report states beside the ResNet-20 runs.

On a quadratic of curvature h, SGD with momentum m is stable for lr h < 2 (1 + m) with fresh gradients; with gradients
one update old (Pipe-SGD with K = 2) the characteristic polynomial z^2 - (1 + m) z + m + lr h has both roots inside the
unit circle only for lr h < 1 - m.
"""

from __future__ import annotations

import pytest
import torch

H = 2.0  # curvature: loss = H w^2 / 2


def distance(lr: float, momentum: float, staleness: int, updates: int = 4000) -> float:
    """|w| after many updates from w = 1, each with the gradient of `staleness` updates before."""
    w = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    optimizer = torch.optim.SGD([w], lr=lr, momentum=momentum)
    gradients = [torch.zeros((), dtype=torch.float64)] * staleness
    for _ in range(updates):
        gradients.append(H * w.detach().clone())
        w.grad = gradients.pop(0)
        optimizer.step()
        if abs(w.item()) > 1e6:
            break
    return abs(w.item())


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("staleness", [0, 1])
def test_largest_stable_learning_rate(momentum, staleness):
    limit = (1 - momentum if staleness else 2 * (1 + momentum)) / H
    assert distance(0.9 * limit, momentum, staleness) < 1e-3
    assert distance(1.1 * limit, momentum, staleness) > 1e3
