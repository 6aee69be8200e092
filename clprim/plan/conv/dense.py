"""Convolutions of square images without gaps: what examples, tests and benchmarks plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from clprim.language.epilogue_snippet import define_epilogue
from clprim.plan.conv.pixels import Shuffle
from clprim.plan.conv.problem import Axis, Convolution
from clprim.plan.epilogue import Epilogue
from clprim.plan.place import Place
from clprim.traits import DeviceTraits

#: Devices that need not be here: a CPU with wide registers, and a GPU.
CPU = DeviceTraits(
    is_cpu=True,
    max_work_group_size=4096,
    vector_bytes=64,
    cache_bytes=32 << 20,
)
GPU = DeviceTraits(max_work_group_size=1024)


def dense_images(
    name: str, channels: int, size: int, dtype: Any, *, last: bool, step: int = 1
) -> Place:
    """Describes square images; channels or columns lie ``step`` elements apart."""
    edge = size * size * channels * step
    if last:
        return Place(name, dtype, 0, edge, step, size * channels * step, channels * step)
    return Place(name, dtype, 0, edge, size * size * step, size * step, step)


def dense_convolution(
    images: int,
    channels: int,
    size: int,
    outputs: int,
    kernel: int = 3,
    *,
    direction: str = "forward",
    groups: int = 1,
    stride: int = 1,
    padding: int | None = None,
    dilation: int = 1,
    last: bool = False,
    step: int = 1,
    dtype: Any = np.float32,
    epilogue: str | None = None,
    bias: bool = False,
    beta: bool = False,
    shuffle: Shuffle | None = None,
) -> Convolution:
    """Describes a convolution of square images."""
    stored = np.dtype(dtype)
    before = kernel // 2 if padding is None else padding
    axis = Axis(size, kernel, stride, dilation, before, before)
    back = direction == "input"
    x = dense_images("x", channels, size, stored, last=last, step=1 if back else step)
    edge, deep = axis.windows, outputs
    if shuffle is not None:
        edge, deep = edge * shuffle.block, shuffle.channels
    y = dense_images("y", deep, edge, stored, last=last, step=step if back else 1)
    each = channels // groups
    w = Place("w", stored, 0, each * kernel * kernel, kernel * kernel, kernel, 1)
    result = x if back else y
    arrays = [Place("bias", stored, 0, 0, 1, 0, 0)] if bias else []
    if epilogue and "x0" in epilogue:
        arrays.append(Place("x0", stored, 0, *result.strides))
    snippet = define_epilogue("conv2d", epilogue) if epilogue else None
    return Convolution(
        name={"forward": "conv2d", "input": "conv2d_input", "weight": "conv2d_weight"}[direction],
        direction=direction,
        images=images,
        channels=channels,
        outputs=outputs,
        groups=groups,
        rows=axis,
        columns=axis,
        value=np.dtype(np.float32) if stored.itemsize < 4 else stored,
        x=x,
        w=w,
        y=y,
        epilogue=Epilogue(snippet, tuple(arrays), beta=beta),
        shuffle=shuffle,
    )


def with_prologue(problem: Convolution, text: str, *channels: int) -> Convolution:
    """Returns a convolution of pixels that runs a snippet on what it reads."""
    arrays = tuple(Place(f"p{n}", problem.value, 0, 1, c, 0, 0) for n, c in enumerate(channels))
    snippet = define_epilogue("conv2d", text, part="prologue")
    return replace(problem, prologue=Epilogue(snippet, arrays))


def dense_depthwise(
    images: int, channels: int, size: int, kernel: int = 3, *, multiplier: int = 1, **options: Any
) -> Convolution:
    """Describes a depthwise convolution of square images; see `dense_convolution`."""
    outputs = channels * multiplier
    return dense_convolution(images, channels, size, outputs, kernel, groups=channels, **options)
