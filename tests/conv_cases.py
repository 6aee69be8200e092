"""Which convolutions to try: in few cases, every combination of any two factors, and more."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import dataclass, field

import conv_reference as reference
import numpy as np
from conv_reference import four, out_shape
from support import numbers, wide

import clprim as cp
from clprim import ops

FORMATS = ["contiguous", "channels_last"]


def upload(array, memory_format="contiguous"):
    """A host array on the device; None stays None."""
    return None if array is None else cp.asarray(array, memory_format=memory_format)


def algorithms(x, w, **options):
    """The names of the strategies that can do a convolution: on the first device, of all.

    On the others not a GPU's: tests of their own run those kernels on every device. Nor those of
    sub-groups where kernels are optimised: compilers of CPUs take seconds for one. What reads
    windows in place may do a call and not its gradient, nor one into a view: ``auto`` runs it.
    """
    names = list(ops.conv2d.algorithms(x, w, **options))
    first = cp.current_device() == cp.devices()[0]
    names = ["auto" if name == "in_place" else name for name in names]
    left_out = set() if first else {"tiles"}
    if "-cl-opt-disable" not in os.environ.get("CLPRIM_BUILD_OPTIONS", ""):
        left_out.add("sub_groups")
    return [name for name in names if name not in left_out]


# A group's channels are tails of every tile; "C" has a group for every channel.
FACTORS = {
    "kernel": [(1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (1, 7), (3, 1)],
    "stride": [1, 2, 3],
    "dilation": [1, 2, 3],
    "padding": ["none", "same", "pair", "four", "one side", "beyond"],
    "groups": [1, 2, "C"],
    "channels": [1, 3, 7, 13, 17],
    "outputs": [1, 3, 7, 13, 17],
    "extent": ["least", "small", "wide"],
    "batch": [1, 2],
    "memory_format": FORMATS,
    "strategy": ["panels", "tiles", "auto"],  # a CPU's, a GPU's, and which may have one of its own
}


@dataclass(frozen=True)
class Case:
    """One convolution: shapes and arguments, as `conv2d` takes them."""

    x_shape: tuple[int, int, int, int]
    w_shape: tuple[int, int, int, int]
    options: dict = field(hash=False)
    memory_format: str
    strategy: str

    @property
    def y_shape(self):
        o = self.options
        return out_shape(self.x_shape, self.w_shape, o["stride"], o["padding"], o["dilation"])

    def operands(self, dtype=np.float32, seed=0):
        """Input, weights and bias of small whole numbers."""
        shapes = (self.x_shape, self.w_shape, self.w_shape[:1])
        return tuple(numbers(shape, dtype, seed=seed + n) for n, shape in enumerate(shapes))

    def __str__(self):
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        how = f"{self.memory_format}, {self.strategy}"
        return f"x {self.x_shape}, w {self.w_shape}, {options}, {how}"


def make_case(
    kernel,
    stride,
    dilation,
    padding,
    groups,
    channels,
    outputs,
    extent,
    batch,
    memory_format,
    strategy,
):
    """The convolution with these factors; the input is as large as the kernel needs, or more."""
    kernel_h, kernel_w = kernel
    pads = {
        "none": 0,
        "same": kernel_h // 2,
        "pair": (1, 2),
        "four": (1, 0, 2, 3),
        "one side": (0, 2, 0, 0),
        "beyond": (dilation * kernel_h + 1, dilation * kernel_w),
    }[padding]
    top, bottom, left, right = four(pads)
    more_h, more_w = {"least": (0, 0), "small": (3, 5), "wide": (2, 37)}[extent]
    height = max(1, dilation * (kernel_h - 1) + 1 - top - bottom) + more_h
    width = max(1, dilation * (kernel_w - 1) + 1 - left - right) + more_w
    if groups == "C":
        groups, c, k = channels, channels, channels * (1 + outputs % 2)
    else:
        c, k = channels * groups, outputs * groups
    options = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    shapes = (batch, c, height, width), (k, c // groups, *kernel)
    return Case(*shapes, options, memory_format, strategy)


def check_case(case, algorithm, dtype, *, formats=(), gradients=False):
    """Compares every element of a case's result, or of its gradients, with NumPy's."""
    x, w, bias = case.operands(dtype)
    how = {**case.options, "algorithm": algorithm}
    ours, weights = formats or (case.memory_format, "contiguous")
    a, b = upload(x, ours), upload(w, weights)
    if gradients:
        grad = numbers(case.y_shape, dtype, seed=7)
        g = upload(grad, ours)
        found = [ops.conv2d_input(x.shape, b, g, **how), ops.conv2d_weight(a, w.shape, g, **how)]
        expected = [
            reference.conv2d_input(x.shape, w, grad, **case.options),
            reference.conv2d_weight(x, w.shape, grad, **case.options),
        ]
    else:
        found = [ops.conv2d(a, b, cp.asarray(bias), **how)]
        expected = [reference.conv2d(x, w, bias, **case.options)]
    for one, right in zip(found, expected, strict=True):
        assert one.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(wide(one.get()), wide(right.astype(dtype)), err_msg=str(case))


def covering(factors, strength, seed=0):
    """Rows in which every combination of values of any ``strength`` factors occurs, few of them.

    Greedy, as in Cohen, Dalal, Fredman and Patton, The AETG System (1997): each row starts with a
    combination that is still missing, and of some random completions takes the one that meets
    most others. The same rows every time.
    """
    names = list(factors)
    draw = random.Random(seed)
    missing = {
        (chosen, values)
        for chosen in itertools.combinations(range(len(names)), strength)
        for values in itertools.product(*(factors[names[n]] for n in chosen))
    }
    order = sorted(missing, key=repr)
    rows = []

    def met(row):
        combinations = itertools.combinations(range(len(names)), strength)
        return {(chosen, tuple(row[n] for n in chosen)) for chosen in combinations} & missing

    for start in order:
        if start not in missing:
            continue
        best, best_met = None, set()
        for _ in range(12):
            row = [draw.choice(factors[name]) for name in names]
            for n, value in zip(*start, strict=True):
                row[n] = value
            found = met(row)
            if len(found) > len(best_met):
                best, best_met = row, found
        missing -= best_met
        rows.append(dict(zip(names, best, strict=True)))
    return rows


# All pairs of all factors; and all threes of those that decide which elements meet, in one shape of
# channels and image, as a device compiles other kernels for other sizes.
PAIRS = covering(FACTORS, 2)
SHAPED = {"groups": [1], "channels": [3], "outputs": [17], "extent": ["small"], "batch": [1]}
THREES = covering(FACTORS | SHAPED, 3)

# The layers of published networks, their images cut down: channels, kernels, strides and pads stay.
LAYERS = {
    "ResNet-50 stem": ((1, 3, 61, 64), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
    "ResNet-50 1x1 up": ((2, 64, 14, 14), (256, 64, 1, 1), {}),
    "ResNet-50 1x1 stride 2": ((1, 256, 14, 14), (512, 256, 1, 1), {"stride": 2}),
    "ResNet-50 3x3": ((2, 128, 14, 14), (128, 128, 3, 3), {"padding": 1}),
    "ResNet-50 3x3 stride 2": ((1, 128, 15, 14), (128, 128, 3, 3), {"stride": 2, "padding": 1}),
    "ResNet-50 last": ((1, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
    "ResNeXt": ((1, 128, 14, 14), (128, 4, 3, 3), {"padding": 1, "groups": 32}),
    "AlexNet first": ((1, 3, 63, 63), (64, 3, 11, 11), {"stride": 4, "padding": 2}),
    "GoogLeNet 5x5": ((2, 16, 14, 14), (48, 16, 5, 5), {"padding": 2}),
    "MobileNet depthwise": ((2, 96, 14, 13), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
    "MobileNet depthwise stride 2": (
        (1, 144, 15, 14),
        (144, 1, 3, 3),
        {"stride": 2, "padding": 1, "groups": 144},
    ),
    "fully connected": ((2, 64, 6, 6), (100, 64, 6, 6), {}),
    "Inception 1x7": ((1, 64, 17, 17), (96, 64, 1, 7), {"padding": (0, 3)}),
}
