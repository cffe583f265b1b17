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

from repro.models._shapes import feature_map, named_blocks

DEVIATION = 0.1  # of the weights, truncated at two deviations


def build_cifar100(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in five blocks conv1, conv2, conv3, fc1, fc2."""
    channels, height, width = feature_map(name, input_shape, feature_side)
    model = named_blocks(
        conv1=pooled_convolution(channels, 32, nn.MaxPool2d(3, 2, ceil_mode=True)),
        conv2=pooled_convolution(32, 32, nn.AvgPool2d(3, 2, ceil_mode=True)),
        conv3=pooled_convolution(32, 64, nn.AvgPool2d(3, 2, ceil_mode=True)),
        fc1=nn.Sequential(nn.Flatten(), nn.Linear(64 * height * width, 64)),
        fc2=nn.Sequential(nn.Linear(64, classes)),
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=DEVIATION, a=-2 * DEVIATION, b=2 * DEVIATION)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


def pooled_convolution(inputs: int, outputs: int, pooling: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 5, padding=2), nn.ReLU(), pooling)


def feature_side(side: int) -> int:
    """Pixels along one side after three poolings, each of which halves it, rounded down."""
    return side // 8


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in five blocks; InputError below 8x8."""
    return build_cifar100("cifar100_cnn", input_shape, classes)
