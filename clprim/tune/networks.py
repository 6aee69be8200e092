"""The convolutions of published networks, typed from their papers: what tuning and benchmarks time.

Every row is a layer of distinct shape; ``count`` says how often the network has it. Sizes are of
the square input of the layer, without padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

#: What follows layers: the least and the greatest result.
ACTIVATIONS: dict[str, tuple[float, float]] = {
    "": (-math.inf, math.inf),
    "ReLU": (0, math.inf),
    "ReLU6": (0, 6),
}


@dataclass(frozen=True)
class Layer:
    """A convolution."""

    channels: int
    filters: int
    kernel: int
    size: int  # Height and width of its input, equal
    stride: int = 1
    padding: int = 0
    groups: int = 1  # Into which channels and filters are divided
    count: int = 1  # How often the network has it
    dilation: int = 1  # From one tap of the kernel to the next
    # Whether the block's input is added to the result, where that is measured as well
    adds: bool = False
    activation: str = ""  # What follows then: a key of `ACTIVATIONS`

    @property
    def result_size(self) -> int:
        """Height and width of its output."""
        reach = self.dilation * (self.kernel - 1) + 1
        return (self.size + 2 * self.padding - reach) // self.stride + 1

    @property
    def title(self) -> str:
        """For readers, such as ``64→64 3×3 of 56²``."""
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        groups = f" groups {self.groups}" if self.groups > 1 else ""
        dilation = f" dilation {self.dilation}" if self.dilation > 1 else ""
        kernel = f"{self.kernel}×{self.kernel}{stride}{dilation}"
        follows = f"{', sum' * self.adds}{', ' * bool(self.activation)}{self.activation}"
        return f"{self.channels}→{self.filters} {kernel}{groups} of {self.size}²{follows}"

    def flops(self, batch: int) -> int:
        """Return the operations of one run, or of either gradient; a multiply-add counts as two."""
        results = batch * self.filters * self.result_size**2
        return 2 * results * (self.channels // self.groups) * self.kernel**2


@dataclass(frozen=True)
class Network:
    """A list of layers."""

    title: str
    layers: tuple[Layer, ...]  # From the input to the output, those of equal shape once
    batches: tuple[int, ...] = (8,)  # Sizes of batch that are measured unless one is named
    # The same with what follows each, norms folded into weights and biases; empty where that is not
    # measured
    followed: tuple[Layer, ...] = ()

    @staticmethod
    def of(title: str, followed: Iterable[Layer]) -> Network:
        """Return a network of layers with what follows each."""
        followed = _distinct(followed)
        plain = _distinct(replace(layer, adds=False, activation="") for layer in followed)
        return Network(title, plain, followed=followed)


def _one(channels: int, filters: int, size: int, **options: Any) -> Layer:
    return Layer(channels, filters, 1, size, **options)


def _three(channels: int, filters: int, size: int, **options: Any) -> Layer:
    return Layer(channels, filters, 3, size, padding=1, **options)


def _distinct(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return layers of one shape as one, with their count."""
    counts: dict[Layer, int] = {}
    for layer in layers:
        one = replace(layer, count=1)
        counts[one] = counts.get(one, 0) + layer.count
    return tuple(replace(layer, count=count) for layer, count in counts.items())


# He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2015, table 1. The stride of a
# downsampling block is at its 3×3 layer, as in the version that everyone trains and measures
# ("v1.5"; the paper has it at the 1×1 layer before).
def _resnet50() -> tuple[Layer, ...]:
    layers = [Layer(3, 64, 7, 224, stride=2, padding=3, activation="ReLU")]
    channels = 64
    for middle, size, blocks in ((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3)):
        for block in range(blocks):
            stride = 1 if block or middle == 64 else 2
            layers += [
                _one(channels, middle, size * stride, activation="ReLU"),
                _three(middle, middle, size * stride, stride=stride, activation="ReLU"),
                _one(middle, 4 * middle, size, adds=True, activation="ReLU"),
            ]
            if not block:
                layers.append(_one(channels, 4 * middle, size * stride, stride=stride))
            channels = 4 * middle
    return tuple(layers)


def _vgg(deep: int) -> tuple[Layer, ...]:
    """Return configuration D or E; they differ in how many layers the last three stages have."""
    # Source: Simonyan, Zisserman: Very deep convolutional networks, 2014, table 1.
    return (
        _three(3, 64, 224),
        _three(64, 64, 224),
        _three(64, 128, 112),
        _three(128, 128, 112),
        _three(128, 256, 56),
        _three(256, 256, 56, count=deep - 1),
        _three(256, 512, 28),
        _three(512, 512, 28, count=deep - 1),
        _three(512, 512, 14, count=deep),
    )


# Krizhevsky, Sutskever, Hinton: ImageNet classification with deep convolutional neural networks,
# 2012, figure 2: two towers are two groups. (The input of 227² gives the 55² that the paper names.)
_ALEXNET = (
    Layer(3, 96, 11, 227, stride=4),
    Layer(96, 256, 5, 27, padding=2, groups=2),
    Layer(256, 384, 3, 13, padding=1),
    Layer(384, 384, 3, 13, padding=1, groups=2),
    Layer(384, 256, 3, 13, padding=1, groups=2),
)

# Szegedy and others: Going deeper with convolutions, 2014, table 1. Of each inception: input size,
# channels, #1×1, #3×3 reduce, #3×3, #5×5 reduce, #5×5, pool proj.
_INCEPTIONS = (
    (28, 192, 64, 96, 128, 16, 32, 32),  # 3a
    (28, 256, 128, 128, 192, 32, 96, 64),  # 3b
    (14, 480, 192, 96, 208, 16, 48, 64),  # 4a
    (14, 512, 160, 112, 224, 24, 64, 64),  # 4b
    (14, 512, 128, 128, 256, 24, 64, 64),  # 4c
    (14, 512, 112, 144, 288, 32, 64, 64),  # 4d
    (14, 528, 256, 160, 320, 32, 128, 128),  # 4e
    (7, 832, 256, 160, 320, 32, 128, 128),  # 5a
    (7, 832, 384, 192, 384, 48, 128, 128),  # 5b
)


def _googlenet() -> tuple[Layer, ...]:
    layers = [Layer(3, 64, 7, 224, stride=2, padding=3), _one(64, 64, 56), _three(64, 192, 56)]
    for size, channels, one, reduce3, three, reduce5, five, pool in _INCEPTIONS:
        layers += [
            _one(channels, one, size),
            _one(channels, reduce3, size),
            _three(reduce3, three, size),
            _one(channels, reduce5, size),
            Layer(reduce5, five, 5, size, padding=2),
            _one(channels, pool, size),
        ]
    return _distinct(layers)


# Howard and others: MobileNets, 2017, table 1: the pointwise layers, which have 95 % of its
# multiply-adds.
_MOBILENET = (
    _one(32, 64, 112),
    _one(64, 128, 56),
    _one(128, 128, 56),
    _one(128, 256, 28),
    _one(256, 256, 28),
    _one(256, 512, 14),
    _one(512, 512, 14, count=5),
    _one(512, 1024, 7),
    _one(1024, 1024, 7),
)


# Sandler and others: MobileNetV2, 2018, table 2: t, c, n, s line by line, but for the depthwise
# layers.
def _mobilenet_v2() -> tuple[Layer, ...]:
    layers = [_three(3, 32, 224, stride=2, activation="ReLU6")]
    channels, size = 32, 112
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
    for expansion, filters, blocks, first in (*stages, (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            if expansion > 1:
                layers.append(_one(channels, expansion * channels, size, activation="ReLU6"))
            size //= 1 if block else first
            layers.append(_one(expansion * channels, filters, size, adds=block > 0))
            channels = filters
    return (*layers, _one(320, 1280, 7, activation="ReLU6"))


#: By the name that ``--network`` takes.
NETWORKS = {
    "resnet50": Network.of("ResNet-50", _resnet50()),
    "vgg16": Network("VGG-16", _vgg(3)),
    "vgg19": Network("VGG-19", _vgg(4)),
    "alexnet": Network("AlexNet", _ALEXNET),
    "googlenet": Network("GoogLeNet", _googlenet()),
    "mobilenet": Network("MobileNet, 1×1 layers", _MOBILENET),
    "mobilenet-v2": Network.of("MobileNetV2 but its depthwise layers", _mobilenet_v2()),
    "blog": Network("64→64 3×3 of 56²", (_three(64, 64, 56),), batches=(64, 8, 1)),
}
