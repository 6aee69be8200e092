"""Volumes convolved as images: the planes of a volume, or the volume flattened.

The planes that one result plane sees are put side by side as channels: (N, C, D, H, W) becomes
N · OD images of C · KD channels, and the weight (O, C, KD, KH, KW) is, where it lies, one of as
many channels. So a volume is convolved by whatever is fastest for images, the epilogue runs at its
store and each sum is added up in one go; a sum over KD convolutions that add to each other's
results would read and write the result KD times, and round it as often. The copy costs
KD / (O · KH · KW) of the arithmetic. There is none where a kernel is one plane deep, or one element
high and wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.call.packed import PackedWeight, matrix_of
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError
from clprim.ops.conv.operands import batched, unbatched
from clprim.ops.conv.problem import FORWARD, convolve, forward, to_weight, transposed
from clprim.ops.conv.settings import Settings
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.checks import check_shape
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.epilogue import append, check_epilogue, split_arguments
from clprim.ops.shared.ranks import Convolved
from clprim.ops.shared.strings import kernel
from clprim.plan.conv.problem import Axis
from clprim.plan.epilogue import is_position
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import contract
from clprim.runtime.device import current_device

Axes = tuple[Axis, ...]
# An array, a weight and a bias.
Operands = tuple[Any, Any, Any]


class Told(NamedTuple):
    """What a convolution of volumes is told."""

    axes: Axes
    groups: int
    epilogue: str | None
    scalars: tuple[Any, ...]
    beta: float
    algorithm: str


def _thin(found: Axes) -> bool:
    """Whether windows are one element high and wide: volumes are images D high and H · W wide."""
    return all(
        (a.kernel, a.stride, a.before, a.after) == (1, 1, 0, 0) for a in (found[1], found[2])
    )


def _merged(array: Any, d: int, sizes: tuple[int, int] | None = None) -> Any:
    """The array with dimensions d and d + 1 as one, or None where that would be a copy.

    It is None as well where it would not broadcast to such sizes any more.
    """
    if sizes is not None and array.shape[d : d + 2] not in (sizes, (1, 1)):
        return None
    (m, n), (outer, inner) = array.shape[d : d + 2], array.strides[d : d + 2]
    if m == 1 or outer == n * inner:
        step = inner
    elif n == 1:
        step = outer
    else:
        return None
    shape = (*array.shape[:d], m * n, *array.shape[d + 2 :])
    return view_of(array, shape, (*array.strides[:d], step, *array.strides[d + 2 :]), array.offset)


def _planes(array: Any) -> Any:
    """(N, C, D, H, W) as (N, D, C, H, W)."""
    return array.transpose(0, 2, 1, 3, 4)


def _images(array: Any) -> Any:
    """(N, C, D, H, W) as N · D images; a copy where they are not evenly apart."""
    found = _merged(_planes(array), 0)
    return _merged(_planes(array).copy(), 0) if found is None else found


def _matrix(w: Any) -> Any:
    """A weight (O, C, KD, KH, KW) as one of C · KD channels; packed once if it was to be."""
    array = matrix_of(w)
    view = _merged(array, 1)
    if view is None:
        view = _merged(array.copy(), 1)
    return PackedWeight(view, w) if isinstance(w, PackedWeight) else view


def _as_weight(w: Any) -> Any:
    """A weight of thin windows as one of images, (O, C, KD, 1)."""
    array = matrix_of(w)
    view = view_of(array, array.shape[:4], array.strides[:4], array.offset)
    return PackedWeight(view, w) if isinstance(w, PackedWeight) else view


def _settings(rows: Axis, columns: Axis) -> dict[str, Any]:
    return {
        "stride": (rows.stride, columns.stride),
        "padding": (rows.before, rows.after, columns.before, columns.after),
        "dilation": (rows.dilation, columns.dilation),
    }


def _settings_of(found: Axes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of images: those of planes, and those where windows are thin."""
    return _settings(*found[1:]), _settings(found[0], Axis(1, 1, 1, 1, 0, 0))


def _seen(x: Any, axis: Axis) -> Any:
    """Returns (N, OD, C · KD, H, W): the planes that each result plane sees, as channels."""
    if axis.kernel == 1 and not axis.leaves:
        return _planes(x)[:, : (axis.windows - 1) * axis.stride + 1 : axis.stride]
    n, c, _, h, w = x.shape
    shape = (n, axis.windows, c, axis.kernel, h, w)
    last = c > 1 and abs(x.strides[1]) < min(abs(x.strides[3]), abs(x.strides[4]))
    out = new_dense(shape, x.dtype, (0, 1, 4, 5, 2, 3) if last else range(6))
    numbers = (np.int32(n) for n in (axis.stride, axis.dilation, axis.before))
    kernel(_LOOK, "conv3d_planes", x.dtype)(x, *numbers, shape=shape, out=out)
    return _merged(out, 2)


# The planes that a result plane sees: stride, dilation and padding are numbers.
_LOOK = """
    int z = (int)(coord(1) * w0 + coord(3) * w1 - w2);
    int d = clamp(z, 0, (int)size_x0(2) - 1);
    typeof_x0 v = at_x0(coord(0), coord(2), d, coord(4), coord(5));
    y0 = d == z ? v : 0;
"""
# Adds up what the taps of depth passed on, (N, OD, O, KD, H, W), and the bias.
_FOLD = """
    typeof_y0 sum = 0;
    for (int k = 0; k < {kernel}; ++k) {{
        int from = (int)coord(2) + w0 - k * w1;
        int o = clamp(from / {stride}, 0, (int)size_x0(1) - 1);
        typeof_y0 v = at_x0(coord(0), o, coord(1), k, coord(3), coord(4));
        sum += o * {stride} == from ? v : 0;
    }}
    y0 = sum{bias};
"""


def volumes(
    what: str,
    run: Callable[..., Any],
    operands: Operands,
    found: Axes,
    shape: tuple[int, ...],
    groups: int,
    store: Convolved,
    single: bool,
) -> Array:
    """Checks what is left to check of volumes, and computes them."""
    (x, w, bias), device = operands, current_device()
    matrix, given, beta = matrix_of(w), store["out"], store["beta"]
    out = batched(given) if single and getattr(given, "ndim", 0) == 4 else given
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    epilogue = store["epilogue"]
    args, scalars = _epilogue(what, bias, epilogue, store["epilogue_args"], shape, value)
    extras = [*args, *([] if bias is None else [bias])]
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    if out is None:
        out = empty_like(x, shape, dtype)
    told = Told(found, groups, epilogue, scalars, beta, store["algorithm"])
    y = run(what, x, w, bias, args, out, told) if math.prod(shape) else out
    return given if given is not None else unbatched(y) if single else y


def _epilogue(
    what: str, bias: Any, epilogue: Any, args: Any, shape: tuple[int, ...], value: AnyDType
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Checks a bias and an epilogue; returns its arrays, each of five dimensions, and numbers."""
    device = current_device()
    if bias is not None:
        check_operands(what, device, bias=bias)
        check_shape(what, "bias", bias, (shape[1],))
    read = check_epilogue(what, device, epilogue, args, shape, value)
    if read.sizes or any(is_position(a.name) for a in read.arrays):
        raise DefinitionError(
            f"{what}: the epilogue reads index, coord or size, which that of a volume cannot"
        )
    arrays, numbers = split_arguments(args)
    wide = [
        view_of(a, (*(1,) * (5 - a.ndim), *a.shape), (*(0,) * (5 - a.ndim), *a.strides), a.offset)
        for a in arrays
    ]
    return tuple(wide), numbers


def convolve_volumes(
    what: str,
    x: Any,
    w: Any,
    bias: Any,
    args: tuple[Any, ...],
    out: Any,
    told: Told,
) -> Any:
    """Every window becomes an element of the result."""
    found, scalars, primitive = told.axes, told.scalars, forward(FORWARD)
    across, down = _settings_of(found)
    options: dict[str, Any] = {"groups": told.groups, "algorithm": told.algorithm}
    options |= {"epilogue": told.epilogue, "bias": bias is not None}
    if _thin(found):
        flat = [_merged(a, 3, x.shape[3:]) for a in (x, out, *args)]
        if all(a is not None for a in flat):
            images, result, *rest = flat
            settings = Settings(**down, **options)
            given = images, _as_weight(w), bias, settings, (*rest, *scalars)
            convolve(primitive, *given, out=result, beta=told.beta)
            return out
    weight, settings = _matrix(w), Settings(**across, **options)
    stacks = [_seen(x, found[0]), *(_planes(a) for a in (out, *args))]
    whole = [_merged(a, 0, stacks[0].shape[:2]) for a in stacks]
    if all(a is not None for a in whole):
        images, result, *rest = whole
        given = images, weight, bias, settings, (*rest, *scalars)
        convolve(primitive, *given, out=result, beta=told.beta)
        return out
    for n in range(x.shape[0]):
        images, result, *rest = (a[min(n, len(a) - 1)] for a in stacks)
        given = images, weight, bias, settings, (*rest, *scalars)
        convolve(primitive, *given, out=result, beta=told.beta)
    return out


def spread(
    what: str,
    x: Any,
    w: Any,
    bias: Any,
    args: tuple[Any, ...],
    out: Any,
    told: Told,
) -> Any:
    """Every element of x adds its multiple of the weight to the result."""
    found, beta = told.axes, told.beta
    across, _ = _settings_of(found)
    depth, value = found[0], product_dtypes(what, current_device(), x.dtype, w.dtype)[1]
    channels = out.shape[1] * depth.kernel
    images = _images(x)
    shape = (len(images), channels, *out.shape[3:])
    order = (0, 2, 3, 1) if images.strides[1] < images.strides[3] else (0, 1, 2, 3)
    sums = new_dense(shape, value, order)
    # What no window reaches: it may be more than the padding, and that be less than nothing then.
    across["padding"] = tuple(max(0, n) for n in across["padding"])
    across["output_padding"] = tuple(
        a.size - ((a.windows - 1) * a.stride - a.before - max(0, a.after) + a.reach)
        for a in found[1:]
    )
    settings = Settings(**across, groups=told.groups, algorithm=told.algorithm)
    primitive = transposed("conv_transpose2d")
    convolve(primitive, images, _matrix(w), None, settings, (), out=sums, beta=0)
    step = sums.strides
    taps = view_of(
        sums,
        (x.shape[0], x.shape[2], out.shape[1], depth.kernel, *shape[2:]),
        (x.shape[2] * step[0], step[0], depth.kernel * step[1], step[1], *step[2:]),
        0,
    )
    operands = [taps]
    if bias is not None:
        strides = (0, bias.strides[0], 0, 0, 0)
        operands.append(view_of(bias, (1, bias.shape[0], 1, 1, 1), strides, bias.offset))
    text = _FOLD.format(
        kernel=depth.kernel, stride=depth.stride, bias=" + x1" if operands[1:] else ""
    )
    numbers = np.int32(depth.before), np.int32(depth.dilation)
    text = append(what, text, told.epilogue, len(operands), len(numbers))
    given = (*operands, *args, *numbers, *told.scalars)
    run = kernel(text, what, out.dtype)
    if not beta:
        return run(*given, shape=out.shape, out=out)
    return _ADD(run(*given, shape=out.shape), out, beta, out=out)


def correlate(
    x: Any,
    grad: Any,
    out: Any,
    told: Told,
) -> Any:
    """Every element of the gradient adds its multiple of a window to the weight's."""
    found, beta = told.axes, told.beta
    across, down = _settings_of(found)
    options: dict[str, Any] = {"groups": told.groups, "algorithm": told.algorithm}
    flat = [_merged(a, 3) for a in (x, grad)] if _thin(found) else [None]
    if all(a is not None for a in flat):
        settings = Settings(**down, **options, shape=out.shape[:4])
        _of_images(flat[0], flat[1], settings, _as_weight(out), beta)
        return out
    images = _images(_planes(_seen(x, found[0])))
    result = _merged(out, 1)
    target = new_dense(out.shape, out.dtype) if result is None else out
    matrix = _matrix(target)
    settings = Settings(**across, **options, shape=matrix.shape)
    _of_images(images, _images(grad), settings, matrix, beta if target is out else 0)
    if target is out:
        return out
    if not beta:
        return _COPY(target, out=out)
    return _ADD(target, out, beta, out=out)


def _of_images(x: Any, grad: Any, told: Settings, out: Any, beta: float) -> None:
    contract(to_weight("conv2d_weight"), x, grad, (), told, told.key, out=out, beta=beta)


_COPY = Pointwise("y0 = x0;", name="copy")
_ADD = Pointwise("y0 = x0 + w0 * x1;", name="conv3d_weight")
