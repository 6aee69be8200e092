"""What ``python -m bench conv`` measures: layers of networks, both formats, three directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.clock.compute import Promise
from bench.peers.peer import Inputs
from bench.work import reference
from clprim.runtime.device import Device
from clprim.tune.networks import NETWORKS, Layer

Shape = tuple[int, ...]

#: What can be computed of a layer: its result, or the gradient by its input or by its weight.
DIRECTIONS = ("forward", "input", "weight")

#: Memory formats, with the names that readers know them by.
FORMATS = {"channels_last": "NHWC", "contiguous": "NCHW"}

_WHAT = {"forward": "forward", "input": "gradient by input", "weight": "gradient by weight"}
_FOLLOWED = "with what follows"
# Promised are these layers only, at this batch.
_PROMISED = "resnet50", 8
_POCL = "Portable Computing Language"


@dataclass(frozen=True)
class Conv:
    """One row of a table of convolutions.

    Attributes:
        layer: Which.
        batch: Images.
        memory_format: Of all its arrays; a key of `FORMATS`.
        direction: One of `DIRECTIONS`.
        group: The table that it stands in.
        promises: Of all rows of that table.
        followed: Whether what follows the layer is computed with it.
    """

    layer: Layer
    batch: int
    memory_format: str
    direction: str
    group: str = ""
    promises: tuple[Promise, ...] = ()
    followed: bool = False

    @property
    def title(self) -> str:
        """For readers."""
        return self.layer.title

    @property
    def op(self) -> str:
        """What is computed: the name of the peers' methods."""
        return "conv_followed" if self.followed else f"conv_{self.direction}"

    @property
    def count(self) -> int:
        """How often the network has it."""
        return self.layer.count

    @property
    def flops(self) -> int:
        """Operations of one run; a multiply-add counts as two."""
        return self.layer.flops(self.batch)

    @property
    def input_shape(self) -> Shape:
        """``(N, C, H, W)``."""
        return self.batch, self.layer.channels, self.layer.size, self.layer.size

    @property
    def weight_shape(self) -> Shape:
        """``(F, C/groups, K, K)``."""
        layer = self.layer
        return layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel

    @property
    def result_shape(self) -> Shape:
        """``(N, F, H', W')``."""
        size = self.layer.result_size
        return self.batch, self.layer.filters, size, size

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of the operands: two of input, weight and gradient by the result; bias and summand."""
        if self.followed:
            bias = 1, self.layer.filters, 1, 1
            summand = (self.result_shape,) if self.layer.adds else ()
            return self.input_shape, self.weight_shape, bias, *summand
        operands = {
            "forward": (self.input_shape, self.weight_shape),
            "input": (self.weight_shape, self.result_shape),
            "weight": (self.input_shape, self.result_shape),
        }
        return operands[self.direction]

    @property
    def options(self) -> dict[str, int]:
        """How the operators take the layer, here and in other libraries."""
        layer = self.layer
        return {
            "stride": layer.stride,
            "padding": layer.padding,
            "dilation": layer.dilation,
            "groups": layer.groups,
        }

    def reference(self, inputs: Inputs) -> np.ndarray[Any, Any]:
        """Return the result, exactly, from inputs of small whole numbers."""
        compute = getattr(reference, self.op)
        return compute(*inputs.host, layer=self.layer)


def conv_jobs(
    device: Device,
    *,
    networks: Iterable[str] = ("resnet50",),
    batch: int | None = None,
    formats: Sequence[str] = tuple(FORMATS),
    directions: Sequence[str] = ("forward",),
    followed: bool = False,
    quick: bool = False,
) -> list[Conv]:
    """Return the rows of a table of each network, batch, direction and format.

    Args:
        device: Where; what is promised depends on it.
        networks: Keys of `NETWORKS`.
        batch: Images; None for what the network is usually measured with.
        formats: Keys of `FORMATS`.
        directions: Of `DIRECTIONS`.
        followed: Whether to compute with each layer what follows it; of those networks only where
            that is known, and forward.
        quick: Whether to make everything tiny: few channels and pixels of one image.
    """
    jobs = []
    for name in networks:
        network = NETWORKS[name]
        layers = network.followed if followed else network.layers
        layers = _tiny(layers) if quick else layers
        usual = (1, 8) if followed else network.batches
        for images in (batch,) if batch else (1,) if quick else usual:
            for direction in directions:
                for memory_format in formats:
                    known = FORMATS[memory_format]
                    what = _FOLLOWED if followed else _WHAT[direction]
                    group = f"{network.title}, batch {images}, {known}, {what}"
                    promised = (name, 8 if quick else images) == _PROMISED
                    kept = promises(device, memory_format, direction) if promised else ()
                    if followed:
                        kept = _followed_promises(device, memory_format)
                    jobs += [
                        Conv(layer, images, memory_format, direction, group, kept, followed)
                        for layer in layers
                    ]
    return jobs


def promises(device: Device, memory_format: str, direction: str) -> tuple[Promise, ...]:
    """Return what is promised of ResNet-50 on this device, beside peers on the same processor."""
    if not device.traits.is_cpu:
        return ()
    if direction != "forward":
        return (Promise("oneDNN", mean=0.9),)
    pocl = device.platform == _POCL
    if memory_format == "channels_last":
        peer = "oneDNN prepacked"
        return (Promise(peer, mean=0.85) if pocl else Promise(peer, mean=0.97, least=0.85),)
    return (Promise("oneDNN", mean=1.1) if pocl else Promise("oneDNN", mean=1.3, least=0.95),)


def _followed_promises(device: Device, memory_format: str) -> tuple[Promise, ...]:
    """Return what is promised of every layer with what follows it."""
    if not device.traits.is_cpu or device.platform == _POCL:
        return ()
    one = "oneDNN prepacked" if memory_format == "channels_last" else "oneDNN"
    return tuple(Promise(peer, least=0.95) for peer in (one, "onnxruntime"))


def _tiny(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return one small layer of each kind: kernel, stride, groups, what follows."""
    found: dict[str, Layer] = {}
    for layer in layers:
        small = replace(
            layer,
            channels=min(layer.channels, 4 * layer.groups),
            filters=min(layer.filters, 8 * layer.groups),
            size=layer.kernel + 4,
        )
        kind = replace(small, channels=0, filters=0, count=0)
        found.setdefault(kind.title, small)
    return tuple(found.values())
