"""ResNet-20 for CIFAR-10 (He et al., CVPR 2016, section 4.2, n = 3): 269,722 parameters at 10 classes.

Shortcuts are identities, padded with zeros where sizes change (option A), as in the paper.
"""

from __future__ import annotations

from torch import nn

from repro.models._residual import cifar_stem, head, initialise, stages
from repro.models._shapes import named_blocks


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in eleven blocks."""
    stem = cifar_stem(input_shape, 16)
    blocks = stages([16, 32, 64], blocks=3, projection=False)
    return initialise(named_blocks(conv1=stem, **blocks, fc=head(64, classes)))
