"""Transformer (Vaswani et al., NIPS 2017) for sentence pairs: embedding, encoder and decoder layers, generator.

The layers are PyTorch's, with normalisation after each sublayer as in the paper; positions are encoded by sines and
cosines; both languages share a table of words, and the generator has its own. eager-SGD's section 2.2 names no sizes:
the defaults are those of the paper's base model.

All blocks but the last map a tensor (N, 2 L, width) to another, with the source in its first half and the target in its
second, so that a pipeline may be cut anywhere: an encoder layer changes only the first half, a decoder layer the
second. Padding is a zero vector before and after every block, by which the next block recognises it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from repro.core.errors import InputError
from repro.core.fields import Count
from repro.core.word_numbers import PAD
from repro.models._shapes import Dropout, named_blocks

TAKES = "sentence pairs"


def build(
    input_shape: tuple[int, ...],
    classes: int,
    *,
    width: Count = 512,
    layers: Count = 6,
    heads: Count = 8,
    feed_forward: Count = 2048,
    dropout: Dropout = 0.1,
) -> nn.Sequential:
    """Words (N, 2 L) of any L -> logits (N * L, classes) of the target's next words, in 2 + 2 x layers blocks.

    InputError for an odd width, or one that is not a multiple of `heads`."""
    if width % heads or width % 2:
        raise InputError(f"model.width={width}: must be even and a multiple of model.heads={heads}")
    if len(input_shape) != 1 or input_shape[0] % 2:
        raise InputError(f"model transformer takes sentence pairs (2 x words,), not inputs of {tuple(input_shape)}")
    sizes_of_layer: dict[str, Any] = {"dim_feedforward": feed_forward, "dropout": dropout, "batch_first": True}
    blocks: dict[str, nn.Module] = {"embedding": Embedding(classes, width, dropout)}
    for number in range(1, layers + 1):
        blocks[f"encoder{number}"] = Encoder(nn.TransformerEncoderLayer(width, heads, **sizes_of_layer))
    for number in range(1, layers + 1):
        blocks[f"decoder{number}"] = Decoder(nn.TransformerDecoderLayer(width, heads, **sizes_of_layer))
    blocks["generator"] = Generator(width, classes)
    network = named_blocks(**blocks)
    for block in list(network)[1:]:
        for parameter in block.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)  # as nn.Transformer does
    return network


class Embedding(nn.Module):
    """Word numbers (N, 2 L) -> vectors (N, 2 L, width) with their positions; padding becomes zero vectors."""

    def __init__(self, words: int, width: int, dropout: float):
        super().__init__()
        self.table, self.dropout, self.width = nn.Embedding(words, width), nn.Dropout(dropout), width
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1] // 2
        rates = torch.exp(torch.arange(0, self.width, 2, device=x.device) * (-math.log(10000.0) / self.width))
        angles = torch.arange(length, device=x.device).unsqueeze(1) * rates
        positions = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        vectors = self.dropout(self.table(x) * math.sqrt(self.width) + positions.repeat(2, 1))
        return vectors.masked_fill((x == PAD).unsqueeze(-1), 0.0)


class Encoder(nn.Module):
    """An encoder layer on the source."""

    def __init__(self, layer: nn.TransformerEncoderLayer):
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        source, target = x.chunk(2, 1)
        padding = (source == 0).all(-1)
        source = self.layer(source, src_key_padding_mask=padding)
        return torch.cat([source.masked_fill(padding.unsqueeze(-1), 0.0), target], 1)


class Decoder(nn.Module):
    """A decoder layer on the target, which attends to its earlier words and to the whole source."""

    def __init__(self, layer: nn.TransformerDecoderLayer):
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        source, target = x.chunk(2, 1)
        unseen, padding = (source == 0).all(-1), (target == 0).all(-1)
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=x.device).triu(1)
        target = self.layer(
            target, source, tgt_mask=later, tgt_key_padding_mask=padding, memory_key_padding_mask=unseen
        )
        return torch.cat([source, target.masked_fill(padding.unsqueeze(-1), 0.0)], 1)


class Generator(nn.Module):
    """The target's vectors -> logits (N * L, classes)."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.linear = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.chunk(2, 1)[1].flatten(0, 1))
