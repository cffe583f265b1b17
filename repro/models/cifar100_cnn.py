"""CIFAR100-CNN: the "simple AlexNet-style" network of Pipe-SGD section 4, three convolutions and two linear layers.

Its sizes are those of the paper's reference [32] (Liao, Schwing, Zemel, Urtasun, "Learning Deep Parsimonious
Representations", NIPS 2016) as its authors released it: github.com/lrjconan/deep_parsimonious, `exp_config.py`
(CIFAR100_baseline), `CIFAR_models.py`, `nn_cell_lib.py`. 5x5 convolutions of 32, 32 and 64 channels, each followed by
ReLU and 3x3 pooling with stride 2 (maximum, mean, mean); linear layers to 64 and to the classes with nothing between
them. TensorFlow's "same" padding of an even side is one pixel at the far end that neither maximum nor mean counts:
PyTorch's ceil_mode. Weights from a normal distribution of deviation 0.1 cut off at two deviations, biases 0. 151,428
parameters at 3x32x32 and 100 classes.

DEVIATION: they subtract the mean image from pixels of 0 to 255; here each channel is normalised (see the data set).
"""

from __future__ import annotations

from torch import nn

from repro.models._cifar100 import build_cifar100


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in five blocks; InputError below 8x8."""
    return build_cifar100("cifar100_cnn", input_shape, classes)
