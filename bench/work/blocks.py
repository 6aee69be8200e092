"""The inverted residuals of MobileNetV2, fused by clprim: rows of ``python -m bench depthwise``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bench.clock.compute import Promise
from bench.peers.compute import Packs
from bench.peers.peer import Inputs
from bench.work.conv import FORMATS
from bench.work.reference import conv_forward
from clprim.runtime.device import Device
from clprim.tune.networks import Layer

Shape = tuple[int, ...]

# What the promise is of.
_PROMISED = 8
_CLIP = 0, 6


@dataclass(frozen=True)
class Block:
    """One row: 1 × 1, depthwise 3 × 3, 1 × 1, with ReLU6 after the first two.

    Attributes:
        channels: Of the input.
        expansion: Channels between, by those of the input; a block of 1 has no first convolution.
        filters: Channels of the result.
        size: Height and width of the input.
        stride: Of the depthwise convolution.
        count: How often the network has it.
        batch: Images.
        memory_format: Of all its arrays; a key of `FORMATS`.
        group: The table that it stands in.
        promises: Of all rows of that table.
    """

    channels: int
    expansion: int
    filters: int
    size: int
    stride: int = 1
    count: int = 1
    batch: int = 1
    memory_format: str = "channels_last"
    group: str = ""
    promises: tuple[Promise, ...] = ()

    op = "inverted_residual"

    @property
    def middle(self) -> int:
        """Channels between."""
        return self.channels * self.expansion

    @property
    def adds(self) -> bool:
        """Whether the input is added to the result."""
        return self.stride == 1 and self.channels == self.filters

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its convolutions: two of them where nothing is expanded."""
        size, middle = self.size, self.middle
        depthwise = Layer(middle, middle, 3, size, self.stride, 1, middle)
        last = Layer(middle, self.filters, 1, depthwise.result_size)
        first = (Layer(self.channels, middle, 1, size),) if self.expansion > 1 else ()
        return (*first, depthwise, last)

    @property
    def title(self) -> str:
        """For readers."""
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        middle = f"{self.middle}→" if self.expansion > 1 else ""
        return f"{self.channels}→{middle}{self.filters}{stride} of {self.size}²"

    @property
    def flops(self) -> int:
        """Operations of one run; a multiply-add counts as two."""
        return sum(layer.flops(self.batch) for layer in self.layers)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of the input, and of weight and bias of each convolution."""
        found: list[Shape] = [(self.batch, self.channels, self.size, self.size)]
        for layer in self.layers:
            inputs = layer.channels // layer.groups
            found += [(layer.filters, inputs, layer.kernel, layer.kernel)]
            found += [(layer.filters, 1, 1, 1)]
        return tuple(found)

    def operands(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the input and six weights and biases, of which the first two may be None."""
        x, *rest = arrays
        rest = [a.reshape(-1) if n % 2 else a for n, a in enumerate(rest)]
        return [x, *([] if self.expansion > 1 else [None, None]), *rest]

    def steps(self, rest: Sequence[Any]) -> list[tuple[Layer, Any, Any]]:
        """Return each convolution with its weight and bias, out of ``rest`` of `operands`."""
        given = [a for a in rest if a is not None]
        return list(zip(self.layers, given[::2], given[1::2], strict=True))

    def reference(self, inputs: Inputs) -> np.ndarray[Any, Any]:
        """Return the result, exactly, from inputs of small whole numbers."""
        x, *rest = self.operands(inputs.host)
        y = x
        for n, (layer, w, b) in enumerate(self.steps(rest)):
            y = conv_forward(np.clip(y, *_CLIP) if n else y, w, layer) + b.reshape(-1, 1, 1)
        return y + x if self.adds else y


# Sandler and others: MobileNetV2, 2018, table 2: t, c, n, s line by line.
BLOCKS = (
    Block(32, 1, 16, 112),
    Block(16, 6, 24, 112, 2),
    Block(24, 6, 24, 56),
    Block(24, 6, 32, 56, 2),
    Block(32, 6, 32, 28, count=2),
    Block(32, 6, 64, 28, 2),
    Block(64, 6, 64, 14, count=3),
    Block(64, 6, 96, 14),
    Block(96, 6, 96, 14, count=2),
    Block(96, 6, 160, 14, 2),
    Block(160, 6, 160, 7, count=2),
    Block(160, 6, 320, 7),
)


class Separate(Packs):
    """This project's three convolutions, one after the other."""

    name = "clprim, separate"
    remarks: ClassVar = {"inverted_residual": "the same with `algorithm='separate'`"}
    algorithm = "separate"
    gemm = conv_forward = conv_input = conv_weight = None


def block_jobs(
    device: Device,
    *,
    batch: int | None = None,
    formats: Iterable[str] = tuple(FORMATS),
    quick: bool = False,
) -> list[Block]:
    """Return the rows of a table of each format.

    Args:
        device: Where; what is promised depends on it.
        batch: Images; None for 8.
        formats: Keys of `FORMATS`.
        quick: Whether to make everything tiny: few channels and pixels of one image.
    """
    images = batch or (1 if quick else _PROMISED)
    jobs: list[Block] = []
    for memory_format in formats:
        group = f"MobileNetV2, batch {images}, {FORMATS[memory_format]}, inverted residuals"
        promised = device.traits.is_cpu and (quick or images == _PROMISED)
        kept: tuple[Promise, ...] = ()
        if promised and memory_format == "channels_last":
            kept = (Promise("oneDNN prepacked", mean=1.2),)
        same = {"batch": images, "memory_format": memory_format, "group": group, "promises": kept}
        jobs += [replace(block, **same) for block in (_tiny(BLOCKS) if quick else BLOCKS)]
    return jobs


def _tiny(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return one small block of each kind: with and without expansion, stride, residual."""
    found: dict[tuple[bool, int, bool], Block] = {}
    for block in blocks:
        kind = (block.expansion > 1, block.stride, block.adds)
        filters = 20 if block.adds else 8
        small = Block(20, min(block.expansion, 2), filters, 9, block.stride, block.count)
        found.setdefault(kind, small)
    return tuple(found.values())
