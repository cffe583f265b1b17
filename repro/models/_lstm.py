"""An LSTM layer with one bias vector."""

from __future__ import annotations

import math

import torch
from torch import nn

State = tuple[torch.Tensor, torch.Tensor]  # hidden and cell, (1, N, hidden)


class Lstm(nn.Module):
    """One LSTM layer over (N, steps, inputs); its outputs (N, steps, hidden).

    weight_ih (4 hidden, inputs), weight_hh (4 hidden, hidden) and bias (4 hidden,) have the gates in PyTorch's order:
    input, forget, cell, output. It has one bias, like TensorFlow's and Caffe's cells; PyTorch's nn.LSTM has two, of
    which only the sum matters, so this passes zeros for the second.

    Weights start uniform within 1 / sqrt(hidden), as PyTorch draws them; the forget gate's bias starts at 1, the others
    at 0, as in TensorFlow.
    """

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias = nn.Parameter(torch.empty(4 * hidden))
        within = 1 / math.sqrt(hidden)
        with torch.no_grad():
            for weight in (self.weight_ih, self.weight_hh):
                nn.init.uniform_(weight, -within, within)
            nn.init.zeros_(self.bias)
            nn.init.ones_(self.bias[hidden : 2 * hidden])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(x)[0]

    def run(self, x: torch.Tensor, state: State | None = None) -> tuple[torch.Tensor, State]:
        """(outputs, final state), from an initial state (None: zeros)."""
        if state is None:
            state = x.new_zeros(1, len(x), self.weight_hh.shape[1]), x.new_zeros(1, len(x), self.weight_hh.shape[1])
        weights = [self.weight_ih, self.weight_hh, self.bias, torch.zeros_like(self.bias)]
        # as nn.LSTM.forward: with biases, one layer, no dropout, one direction, batch first
        outputs, hidden, cell = torch.lstm(x, state, weights, True, 1, 0.0, self.training, False, True)
        return outputs, (hidden, cell)
