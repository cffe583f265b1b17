"""LSTM on video features (eager-SGD section 6.3, after Yue-Hei Ng et al., CVPR 2015): LSTM, dense, classes.

LSTM(2048 -> 2048) with one bias vector, dense 512, dense 101: 34,663,525 parameters at 2,048 features and 101 classes,
the only such form with the count of Table 1 (docs/errata.md, EA-6).

ASSUMPTIONS: ReLU on the dense layer of 512; TensorFlow's start with 1 for the forget gate's bias and 0 for the others'
(the paper names neither); weights uniform within 1 / sqrt(hidden), as PyTorch draws an LSTM's. The last output of
the sequence goes to the dense layers, so shorter videos of a minibatch are padded at the front.
"""

from __future__ import annotations

import torch
from torch import nn

from repro.core.errors import InputError
from repro.core.fields import Count
from repro.models._lstm import Lstm
from repro.models._shapes import named_blocks

TAKES = "sequences"


def build(input_shape: tuple[int, ...], classes: int, *, hidden: Count = 2048, dense: Count = 512) -> nn.Sequential:
    """(N, steps, features) of any number of steps -> logits (N, classes), in blocks lstm, fc1, fc2."""
    if len(input_shape) != 2:
        raise InputError(f"model lstm_ucf101 takes sequences of (steps, features), not inputs of {tuple(input_shape)}")
    return named_blocks(
        lstm=LastOutput(input_shape[1], hidden),
        fc1=nn.Sequential(nn.Linear(hidden, dense), nn.ReLU()),
        fc2=nn.Sequential(nn.Linear(dense, classes)),
    )


class LastOutput(Lstm):
    """One LSTM layer over (N, steps, inputs) from a zero state; its output at the last step, (N, hidden)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)[:, -1]
