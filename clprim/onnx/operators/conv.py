"""Convolutions of one to three dimensions, with ONNX's ways to say where borders are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.border import padded
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler

_CONV: dict[int, Any] = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_TRANSPOSE: dict[int, Any] = {
    1: ops.conv_transpose1d,
    2: ops.conv_transpose2d,
    3: ops.conv_transpose3d,
}


class Window(NamedTuple):
    """Sizes of a window, a number a dimension, and its borders, a pair a dimension."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[tuple[int, int]]


def window_of(attributes: Any, sizes: Sequence[int], kernel: Sequence[int]) -> Window:
    """Returns the window that attributes describe.

    Args:
        attributes: ``strides``, ``dilations``, ``pads``, ``auto_pad``.
        sizes: Of the input.
        kernel: Of the window.

    Raises:
        DefinitionError: Not a number for each dimension, or none of at least 1.
    """
    n = len(sizes)
    kernel = list(kernel)
    strides = list(attributes.get("strides") or [1] * n)
    dilations = list(attributes.get("dilations") or [1] * n)
    flat = list(attributes.get("pads") or [0] * 2 * n)
    if not (len(kernel) == len(strides) == len(dilations) == n and len(flat) == 2 * n):
        raise DefinitionError(f"{kernel=}, {strides=}, {dilations=}, pads={flat}: expected {n}")
    if min(*kernel, *strides, *dilations) < 1 or min(flat) < 0:
        raise DefinitionError(f"{kernel=}, {strides=}, {dilations=}, pads={flat}: too small")
    pads = list(zip(flat[:n], flat[n:], strict=True))
    auto = attributes.get("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = [(0, 0)] * n
    elif auto.startswith("SAME"):
        pads = []
        for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
            total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            less, more = total // 2, total - total // 2
            pads.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return Window(kernel, strides, dilations, pads)


def convolved(attributes: Any, x: Any, w: Any, bias: Any = None, fill: Any = 0) -> Any:
    """Returns a convolution of images; what is around them is ``fill``."""
    n = x.ndim - 2
    if n not in _CONV:
        raise DefinitionError(f"a convolution of {n} dimensions; there are those of 1 to 3")
    window = window_of(attributes, x.shape[2:], attributes.get("kernel_shape") or w.shape[2:])
    pads = window.pads
    if fill or (n != 2 and any(a != b for a, b in pads)):
        x = padded(x, [(0, 0), (0, 0), *pads], fill=fill)
        pads = [(0, 0)] * n
    flat = [b for b, _ in pads] if n != 2 else [v for pair in pads for v in pair]
    padding = flat[0] if n == 1 else tuple(flat)
    one = n == 1
    stride = window.strides[0] if one else tuple(window.strides)
    dilation = window.dilations[0] if one else tuple(window.dilations)
    groups = attributes.get("group", 1)
    return _CONV[n](x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


@handler("Conv")
def _conv(context: Any, attributes: Any, x: Any, w: Any, bias: Any = None) -> Any:
    return convolved(attributes, x, w, bias)


@handler("ConvTranspose")
def _conv_transpose(context: Any, attributes: Any, x: Any, w: Any, bias: Any = None) -> Any:
    n = x.ndim - 2
    if n not in _TRANSPOSE:
        raise DefinitionError(f"a convolution of {n} dimensions; there are those of 1 to 3")
    kernel = list(attributes.get("kernel_shape") or w.shape[2:])
    strides = list(attributes.get("strides") or [1] * n)
    dilations = list(attributes.get("dilations") or [1] * n)
    extra = list(attributes.get("output_padding") or [0] * n)
    flat = list(attributes.get("pads") or [0] * 2 * n)
    wanted = attributes.get("output_shape")
    auto = attributes.get("auto_pad", "NOTSET")
    pads = list(zip(flat[:n], flat[n:], strict=True))
    if auto == "VALID":
        pads = [(0, 0)] * n
    grown = [m * s for m, s in zip(x.shape[2:], strides, strict=True)]
    if wanted or auto.startswith("SAME"):
        wanted = list(wanted)[-n:] if wanted else grown
        pads = []
        for d in range(n):
            whole = (
                strides[d] * (x.shape[2 + d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1
            )
            total = whole - wanted[d]
            less = total // 2
            pair = (less, total - less) if auto != "SAME_LOWER" else (total - less, less)
            pads.append(pair if total >= 0 else (0, total))
    # All that the kernel reaches, of which the borders are cut off, and which may grow behind.
    rest = [(attributes.get("group", 1)), tuple(dilations) if n > 1 else dilations[0]]
    stride = tuple(strides) if n > 1 else strides[0]
    even = all(a == b >= 0 for a, b in pads) and not any(extra)
    padding = tuple(a for a, _ in pads) if even else (0,) * n
    y = _TRANSPOSE[n](
        x, w, bias, stride=stride, padding=padding if n > 1 else padding[0],
        groups=rest[0], dilation=rest[1],
    )  # fmt: skip
    if even:
        return y
    cut = [(-a, -b + e) for (a, b), e in zip(pads, extra, strict=True)]
    if bias is None or all(after <= 0 for _, after in cut):
        return padded(y, [(0, 0), (0, 0), *cut])
    bare = _TRANSPOSE[n](x, w, None, stride=stride, groups=rest[0], dilation=rest[1])
    found = padded(bare, [(0, 0), (0, 0), *cut])
    return ops.add(found, bias.reshape((1, -1, *[1] * n)))


@handler("DeformConv")
def _deform_conv(
    context: Any, attributes: Any, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None
) -> Any:
    window = window_of(attributes, x.shape[2:], attributes.get("kernel_shape") or w.shape[2:])
    padding = tuple(n for pair in window.pads for n in pair)
    strides, dilations = tuple(window.strides), tuple(window.dilations)
    return ops.deform_conv2d(x, offset, w, bias, strides, padding, dilations, mask)


@handler("Col2Im", host=(1, 2))
def _col2im(context: Any, attributes: Any, x: Any, image: Any, block: Any) -> Any:
    sizes, kernel = [int(v) for v in image], [int(v) for v in block]
    w = window_of(attributes, sizes, kernel)
    rest = tuple(w.dilations), tuple(w.pads), tuple(w.strides)
    return ops.fold(x, tuple(sizes), tuple(kernel), *rest)


@handler("Gemm")
def _gemm(context: Any, attributes: Any, a: Any, b: Any, c: Any = None) -> Any:
    alpha, beta = attributes["alpha"], attributes["beta"]
    ta, tb = bool(attributes["transA"]), bool(attributes["transB"])
    y = ops.matmul(a, b, transpose_a=ta, transpose_b=tb)
    if c is None or not beta:
        return y if alpha == 1 else string("y0 = x0 * w0;", y.dtype, y, alpha)
    if (alpha, beta) == (1, 1):
        return ops.add(y, c)
    return string("y0 = x0 * w0 + x1 * w1;", y.dtype, y, c, alpha, beta)


@handler("Einsum")
def _einsum(context: Any, attributes: Any, *arrays: Any) -> Any:
    return ops.einsum(attributes["equation"].replace(" ", ""), *arrays)
