"""LSTM-PTB: a word-level language model of an embedding, LSTM layers and a decoder, all of one width.

The gTop-k paper has "a 2-layer LSTM language model ... similar as in [12]" (section IV-A). ASSUMPTION (docs/errata.md,
GK-20): layers have 1,500 units as in [12] (Lin et al., Deep Gradient Compression, ICLR 2018). The paper's released code
(github.com/hclhkbu/gtopkssgd, `models/lstm.py`) has this width too, dropout 0.65 and, unlike [12], an untied decoder.
It is the large network of Zaremba, Sutskever, Vinyals (arXiv 1409.2329): dropout between layers only. Embedding and
decoder start uniform in +-0.1, the decoder's bias at 0, the LSTM as PyTorch draws it: 66,034,000 parameters with 10,000
words.
"""

from __future__ import annotations

import torch
from torch import nn

from repro.core.errors import InputError
from repro.core.fields import Count
from repro.models._shapes import Dropout, named_blocks

TAKES = "text"  # word numbers (N, steps), int64
RANGE = 0.1


def build(
    input_shape: tuple[int, ...], classes: int, *, hidden: Count = 1500, layers: Count = 2, dropout: Dropout = 0.65
) -> nn.Sequential:
    """Words (N, steps) -> logits (N * steps, classes) of each next word, in blocks embedding, lstm1 ..., decoder.

    InputError for sizes that are not whole numbers above 0, and for a dropout outside [0, 1).
    """
    if len(input_shape) != 1:
        raise InputError(f"model lstm_ptb takes sequences of words (steps,), not inputs of {tuple(input_shape)}")
    table = nn.Embedding(classes, hidden)
    blocks = {"embedding": nn.Sequential(table, nn.Dropout(dropout))}
    for layer in range(1, layers + 1):
        blocks[f"lstm{layer}"] = nn.Sequential(Recurrent(hidden, hidden), nn.Dropout(dropout))
    decoder = nn.Linear(hidden, classes)
    blocks["decoder"] = nn.Sequential(nn.Flatten(0, 1), decoder)
    for layer_of_words in (table, decoder):
        nn.init.uniform_(layer_of_words.weight, -RANGE, RANGE)
    nn.init.zeros_(decoder.bias)
    return named_blocks(**blocks)


class Recurrent(nn.Module):
    """An LSTM layer over (N, steps, inputs) that continues from the previous sequences; returns (N, steps, hidden).

    `hidden` and `cell` (1, N, hidden) are buffers outside of the state dict: the detached final state of this rank's
    streams. N is 0 until the first sequences after `reset_state`, which start from zeros.
    """

    hidden: torch.Tensor
    cell: torch.Tensor

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        for name in ("hidden", "cell"):
            self.register_buffer(name, torch.zeros(1, 0, hidden), persistent=False)

    def reset_state(self) -> None:
        """Forget the previous sequences."""
        self.hidden, self.cell = self.hidden[:, :0], self.cell[:, :0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.hidden.shape[1]:
            self.hidden, self.cell = (x.new_zeros(1, len(x), self.lstm.hidden_size) for _ in range(2))
        y, state = self.lstm(x, (self.hidden, self.cell))
        self.hidden, self.cell = (tensor.detach() for tensor in state)
        return y
