"""Networks that this project does not train, in published measurements or common; only their sizes are used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn

from repro.answers.ranking.arguments import BERT_BASE, BERT_LARGE, GPT2, RESNET101, RESNET152, VIT
from repro.models._residual import Bottleneck, head, imagenet_stem, stages

VOCABULARY = 30528  # of BERT's vocabulary, made divisible by 8 as in the benchmark
LENGTH = 64  # words of a sentence there


def build_resnet(*depths: int) -> nn.Module:
    """He et al. (CVPR 2016), table 1; 101 layers have 44,549,160 parameters at 1,000 classes, 152 have 60,192,808."""
    blocks = stages([64, 128, 256, 512], blocks=depths, projection=True, kind=Bottleneck)
    last = head(512 * Bottleneck.expansion, 1000)
    return nn.Sequential(OrderedDict(conv1=imagenet_stem((3, 224, 224)), **blocks, fc=last))


def transformer_layers(layers: int, width: int, heads: int) -> nn.Sequential:
    return nn.Sequential(
        *(
            nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True)
            for _ in range(layers)
        )
    )


class Bert(nn.Module):
    """Devlin et al. (2019), with the heads of pretraining: words (N, L) -> scores. The decoder shares the embedding's
    weights, whose gradient is complete at the end of the backward pass."""

    def __init__(self, layers: int, width: int, heads: int):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(512, width)
        self.sentences, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.layers = transformer_layers(layers, width, heads)
        self.pooler, self.next = nn.Linear(width, width), nn.Linear(width, 2)
        self.transform, self.last_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.decoder = nn.Linear(width, VOCABULARY)
        self.decoder.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(x.shape[1], device=x.device)
        value = self.norm(self.words(x) + self.places(places) + self.sentences(torch.zeros_like(x)))
        value = self.layers(value)
        return self.decoder(self.last_norm(self.transform(value))), self.next(self.pooler(value[:, 0]))


class Gpt2(nn.Module):
    """Radford et al. (2019), the small one of 124,439,808 parameters: words (N, L) -> scores."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.layers, self.norm = transformer_layers(12, 768, 12), nn.LayerNorm(768)
        self.decoder = nn.Linear(768, 50257, bias=False)
        self.decoder.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.decoder(self.norm(self.layers(value)))  # type: ignore[no-any-return]


class VisionTransformer(nn.Module):
    """Dosovitskiy et al. (2021), ViT-B/16, 86,567,656 parameters at 1,000 classes: image (N, 3, 224, 224) -> scores."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, 768)), nn.Parameter(torch.zeros(1, 197, 768))
        self.layers, self.norm, self.head = transformer_layers(12, 768, 12), nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        value = torch.cat([self.first.expand(len(x), -1, -1), patches], 1) + self.places
        return self.head(self.norm(self.layers(value))[:, 0])  # type: ignore[no-any-return]


BUILD: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    RESNET101: (lambda: build_resnet(3, 4, 23, 3), (3, 224, 224)),
    RESNET152: (lambda: build_resnet(3, 8, 36, 3), (3, 224, 224)),
    BERT_BASE: (lambda: Bert(12, 768, 12), (LENGTH,)),
    BERT_LARGE: (lambda: Bert(24, 1024, 16), (LENGTH,)),
    GPT2: (Gpt2, (1024,)),
    VIT: (VisionTransformer, (3, 224, 224)),
}
