"""Convolutions whose windows are moved element by element; arguments after torchvision's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.elementwise.binary import add
from clprim.ops.pool.sliding import Windows, sliding
from clprim.ops.product.matmul import matmul
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.window import Numbers


@operator(
    onnx="DeformConv(x, weight, offset, bias, mask) -group -offset_group @windows",
    sample="image(2), empty((0, 8, 3, 3)), empty((5, 3, 2, 2))",
)
@repeatable
def deform_conv2d(
    x: Any,
    offset: Any,
    weight: Any,
    bias: Any = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    mask: Any = None,
) -> Array:
    """Returns a deformable convolution: each element of a window is read at a place of its own.

    Dai and others (2017); with a mask Zhu and others (2019). Between elements x is interpolated
    bilinearly, around it are zeros.

    Args:
        x: (N, C, H, W) of floating numbers.
        offset: (N, 2 · groups · taps, H', W'): of every tap of a window how far down, then how far
            right it is moved. Channels share offsets in as many groups as fit.
        weight: (O, C / groups, h, w); taps are h · w.
        bias: (O,).
        stride: From one window to the next: a number, or one for each dimension.
        padding: Rows and columns of zeros around x, likewise; of ``(top, bottom, left, right)``
            those before and behind.
        dilation: From one element of a window to the next, likewise.
        mask: (N, groups · taps, H', W'): what taps are multiplied by.

    Returns:
        (N, O, H', W').

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.
    """
    what = "deform_conv2d"
    dtype = check_floating(what, "x", x)
    for label, array in (("offset", offset), ("weight", weight)):
        check_floating(what, label, array)
        if array.ndim != 4 or x.ndim != 4:
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, x {x.shape}: expected 4 dimensions"
            )
    (batch, channels, *sizes), (outputs, each, kh, kw) = x.shape, weight.shape
    w = sliding(what, sizes, (kh, kw), dilation, padding, stride, free=True)
    oh, ow = w.outputs
    taps, shares = kh * kw, offset.shape[1] // (2 * kh * kw)
    groups = channels // max(each, 1)
    if (
        not shares or channels % shares or channels != each * groups or outputs % groups
        or offset.shape != (batch, 2 * shares * taps, oh, ow)
    ):  # fmt: skip
        raise ShapeError(
            f"{what}: x of shape {x.shape}, offset of shape {offset.shape} and weight of shape "
            f"{weight.shape}: expected offsets of shape ({batch}, 2 · groups · {taps}, {oh}, {ow})"
        )
    if mask is not None:
        check_shape(what, "mask", mask, (batch, shares * taps, oh, ow))
    arrays = [x, offset] if mask is None else [x, offset, mask]
    settings = (*w.numbers, np.int32(channels // shares))
    shape = (batch, channels, *w.kernel, *w.outputs)
    columns = kernel(_columns(w, mask is not None), what, dtype)(*arrays, *settings, shape=shape)
    columns = columns.reshape((batch, groups, each * taps, oh * ow))
    rows = weight.reshape((1, groups, outputs // groups, math.prod(weight.shape[1:])))
    found = matmul(rows, columns).reshape((batch, outputs, oh, ow))
    return found if bias is None else add(found, bias.reshape((1, -1, 1, 1)))


def _columns(w: Windows, masked: bool) -> str:
    """The string of what each tap of each window reads."""
    # Taps of a group of channels follow each other, with two offsets each.
    tap = "(g * size(2) + coord(2)) * size(3) + coord(3)"
    by = f" * at_x2(coord(0), {tap}, coord(4), coord(5))" if masked else ""
    lines = "\n".join(w.declared())
    return f"""
        {lines}
        const long g = coord(1) / w{len(w.numbers)}, place = ({tap}) * 2;
        typeof_y0 y = coord(4) * stride0 - before0 + coord(2) * apart0
            + at_x1(coord(0), place, coord(4), coord(5));
        typeof_y0 x = coord(5) * stride1 - before1 + coord(3) * apart1
            + at_x1(coord(0), place + 1, coord(4), coord(5));
        const long row = (long)floor(y), column = (long)floor(x);
        const typeof_y0 fy = y - row, fx = x - column;
        typeof_y0 sum = 0;
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) {{
                const long r = row + i, q = column + j;
                if (r >= 0 && q >= 0 && r < size_x0(2) && q < size_x0(3))
                    sum += (i ? fy : 1 - fy) * (j ? fx : 1 - fx) * at_x0(coord(0), coord(1), r, q);
            }}
        y0 = sum{by};"""
