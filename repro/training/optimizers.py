"""The update rules: SGD with momentum and weight decay, and RMSProp, as PyTorch has them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repro.experiment.optimizer import Optimizer


def build(optimizer: Optimizer, parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    """The rule that the configuration's `optimizer` names, for these parameters; its rate is set before every step.

    RMSProp (Tieleman, Hinton 2012) divides a gradient by sqrt(s) + eps, s a running mean of its squares that keeps
    `alpha` of itself at every update, and then applies momentum. TensorFlow's, of the Inception-v3 paper (alpha 0.9,
    eps 1.0), has eps under the root, divides by sqrt(s + eps), and starts s at 1 instead of 0.
    """
    lr, momentum, weight_decay = optimizer.lr, optimizer.momentum, optimizer.weight_decay
    if optimizer.name == "rmsprop":
        return torch.optim.RMSprop(parameters, lr, optimizer.alpha, optimizer.eps, weight_decay, momentum)
    return torch.optim.SGD(parameters, lr, momentum, weight_decay=weight_decay)
