"""S2VT: Venugopalan, Rohrbach, Donahue, Mooney, Darrell, Saenko, "Sequence to Sequence - Video to Text" (ICCV 2015).

Two LSTM layers of 1,000 units read the frames of a clip and then the words of its caption. The first layer's input is a
frame's features (4,096 of VGG's fc7, projected to 500), and zeros during the words; the second layer's input is the
first one's output with the words' vectors (500), which are zeros during the frames; a linear layer predicts the next
word at every step of the caption (teacher forcing). The network is unrolled for twice as many steps as there are
frames: 80 at the data set's default of 40, as in S2VT.

Parameters: 18,056,500, and 1,501 for each word. With the 12,594 words of PipeDream's section 5.1 they are 36,960,094
(148 MB in float32), not its "349 MB". That is the size of the network that S2VT's authors released: its file
s2vt_vgg_rgb.caffemodel has 349,436,137 bytes (listed in github.com/singnet/dnn-model-services), and its vocabulary file
names four corpora (yt_coco_mvad_mpiimd_vocabulary.txt). At most 46,170 words fit into that many bytes, and with
`vocabulary=46170` this model has 87,357,670 parameters, 349.4 MB. DEVIATION: the number of words is derived, not read.

One tensor passes between blocks; its last channel carries the word's number from the input to the block with the word
vectors. Dropout is before and after both layers, as in S2VT's section 4. ASSUMPTION: words' vectors start uniform in
+-0.08, the layers as in `repro.models._lstm`.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from repro.core.errors import InputError
from repro.core.fields import Count
from repro.core.word_numbers import BOS, EOS, PAD
from repro.models._lstm import Lstm
from repro.models._shapes import Dropout

TAKES = "captioned clips"
RANGE = 0.08


def build(
    input_shape: tuple[int, ...],
    classes: int,
    *,
    hidden: Count = 1000,
    embedding: Count = 500,
    vocabulary: Count | None = None,
    dropout: Dropout = 0.5,
    every_step: bool = False,
) -> nn.Sequential:
    """(N, steps, features + 1) -> logits (N * steps, words) of each step's next word, in five blocks.

    The last value of a step is the number of a caption's word, the others are the features of a clip's frame.
    vocabulary: the number of words, by default that of classes. InputError for fewer words than classes. every_step:
    compute words at the frames' steps too, which the loss ignores, as the released s2vt.prototxt does.
    """
    words = classes if vocabulary is None else vocabulary
    if words < classes:
        raise InputError(f"model.vocabulary={words}: must be {classes} (the data set's words) or more, or null")
    if len(input_shape) != 2 or input_shape[1] < 2:
        raise InputError(f"model s2vt takes captioned clips (steps, features + 1), not inputs of {tuple(input_shape)}")
    return S2vt(
        OrderedDict(
            frames=Frames(input_shape[1] - 1, embedding, dropout),
            lstm1=First(embedding, hidden, dropout),
            words=Words(words, embedding, dropout),
            lstm2=Second(hidden + embedding, hidden, dropout, every_step),
            vocabulary=Vocabulary(hidden, words, every_step),
        )
    )


class S2vt(nn.Sequential):
    """The five blocks, and greedy decoding of captions."""

    frames: Frames
    lstm1: First
    words: Words
    lstm2: Second
    vocabulary: Vocabulary

    @torch.no_grad()
    def captions(self, x: torch.Tensor) -> torch.Tensor:
        """Greedy decoding: word numbers (N, steps) for x (N, steps, features + 1), whose words are ignored. Each clip's
        words end with EOS, followed by PAD. Call it in evaluation mode."""
        frames, later = self.lstm1(self.frames(x))[..., :-1].chunk(2, 1)
        no_words = frames.new_zeros(*frames.shape[:2], self.words.width)
        _, state = self.lstm2.lstm.run(torch.cat([frames, no_words], -1))
        word = torch.full((len(x),), BOS, device=x.device)
        ended, words = torch.zeros_like(word, dtype=torch.bool), []
        for step in later.split(1, 1):
            output, state = self.lstm2.lstm.run(torch.cat([step, self.words.table(word).unsqueeze(1)], -1), state)
            word = self.vocabulary.linear(output.flatten(0, 1)).argmax(1).masked_fill(ended, PAD)
            ended |= word == EOS
            words.append(word)
        return torch.stack(words, 1)


class Frames(nn.Module):
    """(N, steps, features + 1) -> (N, steps, embedding + 1)."""

    def __init__(self, features: int, embedding: int, dropout: float):
        super().__init__()
        self.linear, self.dropout = nn.Linear(features, embedding), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.dropout(self.linear(x[..., :-1])), x[..., -1:]], -1)


class First(nn.Module):
    """(N, steps, embedding + 1) -> (N, 2 steps, hidden + 1): first the frames, then the words."""

    def __init__(self, embedding: int, hidden: int, dropout: float):
        super().__init__()
        self.lstm, self.dropout = Lstm(embedding, hidden), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames, numbers = x[..., :-1], x[..., -1:]
        outputs = self.dropout(self.lstm(torch.cat([frames, torch.zeros_like(frames)], 1)))
        return torch.cat([outputs, torch.cat([torch.zeros_like(numbers), numbers], 1)], -1)


class Words(nn.Module):
    """(N, 2 steps, hidden + 1) -> (N, 2 steps, hidden + embedding): words' vectors, zeros in the first half."""

    def __init__(self, words: int, embedding: int, dropout: float):
        super().__init__()
        self.table, self.dropout, self.width = nn.Embedding(words, embedding, PAD), nn.Dropout(dropout), embedding
        with torch.no_grad():
            nn.init.uniform_(self.table.weight, -RANGE, RANGE)
            self.table.weight[PAD] = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs, numbers = x[..., :-1], x[:, x.shape[1] // 2 :, -1]
        vectors = self.dropout(self.table(numbers.long()))
        return torch.cat([outputs, torch.cat([torch.zeros_like(vectors), vectors], 1)], -1)


class Second(nn.Module):
    """(N, 2 steps, hidden + embedding) -> (N, steps, hidden): the second half only, unless words are computed at every
    step."""

    def __init__(self, inputs: int, hidden: int, dropout: float, every_step: bool):
        super().__init__()
        self.lstm, self.dropout, self.every_step = Lstm(inputs, hidden), nn.Dropout(dropout), every_step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs = self.lstm(x)
        return self.dropout(outputs if self.every_step else outputs[:, x.shape[1] // 2 :])


class Vocabulary(nn.Module):
    """(N, steps, hidden), or (N, 2 steps, hidden) if words are computed at every step -> logits (N * steps, words)."""

    def __init__(self, hidden: int, words: int, every_step: bool):
        super().__init__()
        self.linear, self.every_step = nn.Linear(hidden, words), every_step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.every_step:
            return self.linear(x)[:, x.shape[1] // 2 :].flatten(0, 1)
        return self.linear(x.flatten(0, 1))
