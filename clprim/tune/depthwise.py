"""The depthwise layers of published networks, typed from their papers."""

from __future__ import annotations

from clprim.tune.networks import Layer, Network


def layer_of(
    channels: int, size: int, kernel: int = 3, stride: int = 1, count: int = 1, dilation: int = 1
) -> Layer:
    """Returns a layer that is padded so that all of its windows are in; see `Layer`."""
    padding = dilation * (kernel // 2)
    return Layer(
        channels, channels, kernel, size, stride, padding, channels, count, dilation=dilation
    )


# Howard and others: MobileNets, 2017, table 1.
_V1 = (
    layer_of(32, 112),
    layer_of(64, 112, stride=2),
    layer_of(128, 56),
    layer_of(128, 56, stride=2),
    layer_of(256, 28),
    layer_of(256, 28, stride=2),
    layer_of(512, 14, count=5),
    layer_of(512, 14, stride=2),
    layer_of(1024, 7),
)

# Sandler and others: MobileNetV2, 2018, table 2.
_V2 = (
    layer_of(32, 112),
    layer_of(96, 112, stride=2),
    layer_of(144, 56),
    layer_of(144, 56, stride=2),
    layer_of(192, 28, count=2),
    layer_of(192, 28, stride=2),
    layer_of(384, 14, count=4),
    layer_of(576, 14, count=2),
    layer_of(576, 14, stride=2),
    layer_of(960, 7, count=3),
)

# Howard and others: Searching for MobileNetV3, 2019, table 1, large.
_V3 = (
    layer_of(16, 112),
    layer_of(64, 112, stride=2),
    layer_of(72, 56),
    layer_of(72, 56, 5, stride=2),
    layer_of(120, 28, 5, count=2),
    layer_of(240, 28, stride=2),
    layer_of(200, 14),
    layer_of(184, 14, count=2),
    layer_of(480, 14),
    layer_of(672, 14),
    layer_of(672, 14, 5, stride=2),
    layer_of(960, 7, 5, count=2),
)

# Tan, Le: EfficientNet, 2019, table 1.
_B0 = (
    layer_of(32, 112),
    layer_of(96, 112, stride=2),
    layer_of(144, 56),
    layer_of(144, 56, 5, stride=2),
    layer_of(240, 28, 5),
    layer_of(240, 28, stride=2),
    layer_of(480, 14, count=2),
    layer_of(480, 14, 5),
    layer_of(672, 14, 5, count=2),
    layer_of(672, 14, 5, stride=2),
    layer_of(1152, 7, 5, count=3),
    layer_of(1152, 7),
)

# Liu and others: A ConvNet for the 2020s, 2022, ConvNeXt-T.
_NEXT = (
    layer_of(96, 56, 7, count=3),
    layer_of(192, 28, 7, count=3),
    layer_of(384, 14, 7, count=9),
    layer_of(768, 7, 7, count=3),
)

# Chen and others: DeepLabV3+, 2018, on MobileNetV2 at 513² with an output stride of 8: its last
# blocks, and separable pyramid pooling.
_DEEPLAB = (
    layer_of(384, 65, dilation=2, count=4),
    layer_of(576, 65, dilation=2, count=2),
    layer_of(960, 65, dilation=4, count=3),
    layer_of(320, 65, dilation=8),
    layer_of(320, 65, dilation=12),
    layer_of(320, 65, dilation=24),
)

#: By the name that ``--network`` takes.
DEPTHWISE = {
    "mobilenet-v1": Network("MobileNet", _V1),
    "mobilenet-v2": Network("MobileNetV2", _V2),
    "mobilenet-v3": Network("MobileNetV3-Large", _V3),
    "efficientnet-b0": Network("EfficientNet-B0", _B0),
    "convnext": Network("ConvNeXt-T", _NEXT),
    "deeplab": Network("DeepLab on MobileNetV2", _DEEPLAB, batches=(2,)),
}
