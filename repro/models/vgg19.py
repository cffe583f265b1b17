"""VGG19 for ImageNet: Simonyan, Zisserman, "Very Deep Convolutional Networks" (ICLR 2015), configuration E.

`vgg16_imagenet` with sixteen convolutions: 143,667,240 parameters at 224x224 and 1,000 classes, iBatch's and Poseidon's
"143M". With the 21,841 classes of ImageNet22K it is their VGG19-22K: fc8 has 20,841 x 4,097 = 85,385,577 more, and the
network 229,052,817, their "229M". Nineteen blocks; a `width` other than 1 scales all channels and hidden units, for a
network of this shape that trains quickly without a GPU.
"""

from __future__ import annotations

from torch import nn

from repro.core.fields import Positive
from repro.models.vgg16_imagenet import SIDE as SIDE
from repro.models.vgg16_imagenet import build_vgg

STAGES = ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4)  # channels; a pooling ends each


def build(input_shape: tuple[int, ...], classes: int, *, width: Positive = 1.0) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in nineteen blocks conv1_1 ... conv5_4, fc6, fc7, fc8; InputError below
    32x32."""
    return build_vgg("vgg19", STAGES, input_shape, classes, width)
