"""AlexNet as in Krizhevsky, Sutskever, Hinton, "ImageNet Classification with Deep CNNs" (NIPS 2012), on one device.

Grouped convolutions where the original's two GPUs do not talk (conv2, conv4, conv5), local response normalisation after
ReLU with k = 2, n = 5, alpha = 1e-4 (not divided by n, unlike in PyTorch), beta = 0.75, overlapping 3x3 pooling,
dropout in fc6 and fc7: 60,965,224 parameters at 227x227 and 1,000 classes, as in Caffe's bvlc_alexnet. There is no
adaptive pooling, so the size of fc6 depends on the image (at least 67x67). At 224x224, the size that the paper prints
(its 55x55 after conv1 needs 227), it has 49,430,888 parameters.

Weights are drawn as in He et al. (2015) and biases are 0. With the original's N(0, 0.01) and some biases of 1 the loss
stays constant for epochs of ImageNet. The Pipe-SGD paper names no initialisation.
"""

from __future__ import annotations

from torch import nn

from repro.models._shapes import feature_map, initialise_he, named_blocks, pooled_side

SIDE = 227  # image size with the published number of parameters
HIDDEN = 4096


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in eight blocks; InputError below 67x67."""
    channels, height, width = feature_map("alexnet", input_shape, feature_side)
    network = named_blocks(
        conv1=nn.Sequential(nn.Conv2d(channels, 96, 11, stride=4), nn.ReLU(), response_norm(), nn.MaxPool2d(3, 2)),
        conv2=nn.Sequential(nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), response_norm(), nn.MaxPool2d(3, 2)),
        conv3=nn.Sequential(nn.Conv2d(256, 384, 3, padding=1), nn.ReLU()),
        conv4=nn.Sequential(nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU()),
        conv5=nn.Sequential(nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        fc6=nn.Sequential(nn.Flatten(), nn.Linear(256 * height * width, HIDDEN), nn.ReLU(), nn.Dropout(0.5)),
        fc7=nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Dropout(0.5)),
        fc8=nn.Sequential(nn.Linear(HIDDEN, classes)),
    )
    return initialise_he(network, last=None)


def response_norm() -> nn.LocalResponseNorm:
    """Local response normalisation; PyTorch divides alpha by n = 5, the paper's section 3.3 does not."""
    return nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0)


def feature_side(side: int) -> int:
    """Pixels along one side after conv1 and the three poolings."""
    return pooled_side(pooled_side(pooled_side(pooled_side(side, 11, 4), 3, 2), 3, 2), 3, 2)
