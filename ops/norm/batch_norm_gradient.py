"""Gradients of batch normalisation: one fused reduction, then one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.call.arguments import check_aliases, check_array, check_out
from clprim.call.repeat import repeatable
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.grouped import GroupedMap
from clprim.ops.norm.arguments import (
    allocate,
    allocate_like,
    channel_view,
    channels_of,
    check_floats,
    check_gradient,
    check_mask,
    check_vector,
)
from clprim.ops.norm.batch_norm import reduced_axes
from clprim.ops.norm.moments import spread_view, statistics_dtype
from clprim.ops.shared.arguments import real
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction
from clprim.runtime.device import current_device

__all__ = ["batch_norm_backward", "gradient_sums"]

_NAMES = ("dx", "dweight", "dbias")


@lru_cache(maxsize=8)
def gradient_sums(kind: AnyDType) -> Reduction:
    """Returns the reduction of (grad, x, mean) to Σ grad and Σ grad · (x - mean)."""
    return Reduction(
        "y0 = x0; y1 = x0 * (x1 - x2);",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        result_type=kind,
        name="gradient_sums",
    )


@repeatable
def batch_norm_backward(
    grad: Any,
    x: Any,
    weight: Any,
    save_mean: Any,
    save_invstd: Any,
    *,
    training: bool = True,
    output_mask: Sequence[bool] = (True, True, True),
    out: Sequence[Any] | None = None,
    beta: Any = 0,
) -> tuple[Array | None, Array | None, Array | None]:
    """Returns the gradients (dx, dweight, dbias) of a batch normalisation.

    With xhat = (x - mean) · invstd and means over a channel: dbias = Σ grad,
    dweight = Σ grad · xhat, dx = weight · invstd · (grad - mean(grad) - xhat · mean(grad · xhat))
    (Ioffe and Szegedy 2015, section 3). Sums are in float32 at least and repeat bit for bit.

    Args:
        grad: Of the result, of the shape of ``x``.
        x: What was normalised, (N, C, …).
        weight: (C,), or None.
        save_mean: (C,), as `batch_norm_train` returned it. Of frozen statistics, the running mean.
        save_invstd: Likewise; of frozen statistics, 1 / √(running_var + eps).
        training: Whether mean and deviation depend on ``x``. If not, dx = weight · invstd · grad.
        output_mask: Which of the three are wanted; None stands for the others.
        out: Where they go: three arrays, or None for those to allocate. dx may be ``grad`` or
            ``x``.
        beta: A number, or one for each: ``beta`` times what ``out`` holds is added. It is not read
            where that is 0.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1], [3], [5], [7]]))
        >>> y, mean, invstd = ops.batch_norm_train(x)
        >>> grad = cp.asarray(np.float32([[1], [0], [0], [0]]))
        >>> dx, dweight, dbias = ops.batch_norm_backward(grad, x, None, mean, invstd)
        >>> dx.get().round(3).ravel(), dweight.get().round(3), dbias.get()
        (array([ 0.134, -0.179, -0.045,  0.089], dtype=float32), array([-1.342], dtype=float32), array([1.], dtype=float32))
    """  # noqa: E501
    what = "batch_norm_backward"
    dtype = check_floats(what, "x", x)
    channels = channels_of(what, x)
    check_gradient(what, grad, x)
    vectors = {"weight": weight, "save_mean": save_mean, "save_invstd": save_invstd}
    for label, vector in vectors.items():
        if vector is None and label != "weight":
            raise DTypeError(f"{what}: expected a device array for {label}, got None")
        check_vector(what, label, vector, channels)
    given = [a for a in vectors.values() if a is not None]
    kind = statistics_dtype(dtype)
    wanted = check_mask(what, output_mask, _NAMES)
    outs, betas = _outputs(what, wanted, out, beta)
    shapes = (x.shape, (channels,), (channels,))
    dtypes = (dtype, kind if weight is None else weight.dtype, kind)
    for n, array in enumerate(outs):
        if array is not None:
            check_array(what, f"out= of {_NAMES[n]}", array, current_device())
            check_out(what, n, array, shapes[n], dtypes[n])
    check_aliases(what, [a for a in outs if a is not None], given, same_allowed=False)
    check_aliases(what, [a for a in outs[:1] if a is not None], [grad, x])
    check_aliases(what, [a for a in outs[1:] if a is not None], [grad, x], same_allowed=False)

    axes = reduced_axes(len(x.shape))
    count = math.prod(x.shape[d] for d in axes)
    if all(wanted) and training and not any(betas):
        found = _near(grad, x, weight, save_mean, save_invstd, 1 / max(1, count), outs, dtypes)
        if found is not None:
            return found
    sums = None
    if wanted[1] or wanted[2] or (wanted[0] and training):
        sums = gradient_sums(kind)(grad, x, channel_view(save_mean, len(x.shape)), axis=axes)
    gains = () if weight is None else (weight,)
    dx = dweight = dbias = factors = None
    if sums is not None:
        dweight, dbias, factors = _channels(
            sums, save_invstd, gains, 1 / max(1, count), wanted, training, outs, betas, dtypes[1]
        )
    if wanted[0]:
        dx = _input_gradient(grad, x, gains, save_mean, save_invstd, factors, outs[0], betas[0])
    return dx, dweight, dbias


def _near(
    grad: Any,
    x: Any,
    weight: Any,
    mean: Any,
    invstd: Any,
    part: float,
    outs: tuple[Any, ...],
    dtypes: tuple[AnyDType, ...],
) -> tuple[Array, Array, Array] | None:
    """Computes all gradients in one kernel, or returns None where a near cache holds no channel.

    ``part`` is 1 / number of elements, ``dtypes`` are those of the gradients.
    """
    ndim = len(x.shape)
    axes = reduced_axes(ndim)
    vectors = [v for v in (mean, invstd, weight) if v is not None]
    shapes = (x.shape, mean.shape, mean.shape)
    dx, dweight, dbias = (
        (allocate_like(x, t) if n == 0 else allocate(shape, t)) if out is None else out
        for n, (out, shape, t) in enumerate(zip(outs, shapes, dtypes, strict=True))
    )
    done = _near_map(weight is not None)(
        [grad, x],
        [channel_view(v, ndim) for v in vectors],
        [],
        [part],
        axes=axes,
        out=dx,
        kept=[None, None, None, None, spread_view(dweight, axes), spread_view(dbias, axes)],
    )
    return (dx, dweight, dbias) if done else None


@lru_cache(maxsize=2)
def _near_map(weight: bool) -> GroupedMap:
    return GroupedMap(
        "y0 = x0; y1 = x0 * (x1 - x2);",
        # Of Σ grad, Σ grad · (x - mean), mean, 1 / deviation and weight.
        "y0 = x0 * w0; y1 = x2; y2 = x1 * w0 * x3 * x3; y3 = x3"
        + (" * x4" if weight else "")
        + "; y4 = x1 * x3; y5 = x0;",
        "y0 = (x0 - x2 - (x1 - x3) * x4) * x5;",
        name="batch_norm_backward",
    )


def _outputs(
    what: str, mask: tuple[bool, ...], out: Sequence[Any] | None, beta: Any
) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """Checks how many there are, and returns ``out`` and ``beta`` as three each."""
    outs = (None, None, None) if out is None else out
    if not isinstance(outs, tuple | list) or len(outs) != 3:
        raise ShapeError(f"{what}: out= expects three arrays or None: dx, dweight, dbias")
    given = tuple(beta) if isinstance(beta, tuple | list) else (beta,) * 3
    if len(given) != 3:
        raise ShapeError(f"{what}: beta= holds {len(given)} numbers for 3 results")
    betas = tuple(real(what, "beta", b) for b in given)
    for name, wanted, array, b in zip(_NAMES, mask, outs, betas, strict=True):
        if not wanted and array is not None:
            raise ShapeError(f"{what}: out= holds {name}, which output_mask leaves out")
        if wanted and array is None and b != 0:
            raise ShapeError(f"{what}: beta={b!r} needs out= for {name}, whose old value it scales")
    return tuple(outs), betas


@lru_cache(maxsize=64)
def _operator(expr: str, dtype: AnyDType, name: str, old: int, number: int) -> Pointwise:
    """An operator that adds w times its result's old value, which is the input ``x{old}``."""
    if old:
        expr += f" y0 += w{number} * x{old};"
    return Pointwise(expr, result_type=dtype, name=name)


def _channels(
    sums: tuple[Array, Array],
    invstd: Any,
    gains: tuple[Any, ...],
    part: float,
    wanted: tuple[bool, ...],
    training: bool,
    outs: tuple[Any, ...],
    betas: tuple[float, ...],
    weight_dtype: AnyDType,
) -> tuple[Array | None, Array | None, tuple[Array, ...] | None]:
    """Does all that there is one of a channel in a launch.

    Args:
        sums: Σ grad and Σ grad · (x - mean).
        invstd: 1 / deviation.
        gains: The weight, if there is one.
        part: 1 / number of elements.
        wanted: Of dx, dweight, dbias.
        training: Whether dx needs means.
        outs: Where the gradients go.
        betas: What their old values are multiplied with.
        weight_dtype: Of dweight.

    Returns:
        dweight, dbias, and what dx needs: mean(grad), a factor of x - mean, a gain.
    """
    arrays: list[Any] = []
    numbers: list[float] = []
    values: list[tuple[str, Any, AnyDType]] = []  # what is computed, where it goes, as what

    def x(array: Any) -> str:
        arrays.append(array)
        return f"x{len(arrays) - 1}"

    def w(number: float) -> str:
        numbers.append(number)
        return f"w{len(numbers) - 1}"

    def gradient(value: str, out: Any, dtype: AnyDType, beta: float) -> None:
        values.append((f"{value} + {w(beta)} * {x(out)}" if beta else value, out, dtype))

    kind = sums[0].dtype
    means = wanted[0] and training
    if means or outs[2] is not None:
        total = x(sums[0])
    if means or wanted[1]:
        product, deviation = x(sums[1]), x(invstd)
    if means:
        each = w(part)
        gain = " * ".join([deviation, *map(x, gains)])
        values.append((f"{total} * {each}", None, kind))
        values.append((f"{product} * {each} * {deviation} * {deviation}", None, kind))
        values.append((gain, None, kind))
    if wanted[1]:
        gradient(f"{product} * {deviation}", outs[1], weight_dtype, betas[1])
    if outs[2] is not None:
        gradient(total, outs[2], kind, betas[2])
    results: tuple[Array, ...] = ()
    if values:
        expr = "".join(f"y{n} = {value};\n" for n, (value, _, _) in enumerate(values))
        operator = _channel_operator(expr, tuple(dtype for *_, dtype in values))
        given = None
        if any(out is not None for _, out, _ in values):
            shape = sums[0].shape
            given = tuple(allocate(shape, t) if out is None else out for _, out, t in values)
        found = operator(*arrays, *numbers, out=given)
        results = (found,) if len(values) == 1 else found
    rest = results[3:] if means else results
    dweight = rest[0] if wanted[1] else None
    dbias = outs[2] if outs[2] is not None else sums[0] if wanted[2] else None
    return dweight, dbias, results[:3] if means else None


@lru_cache(maxsize=64)
def _channel_operator(expr: str, types: tuple[AnyDType, ...]) -> Pointwise:
    return Pointwise(expr, result_type=types, name="batch_norm_gradients")


def _input_gradient(
    grad: Any,
    x: Any,
    gains: tuple[Any, ...],
    mean: Any,
    invstd: Any,
    factors: tuple[Array, ...] | None,
    out: Any,
    beta: float,
) -> Array:
    """Computes dx in one pass; without ``factors``, the statistics are constants."""
    ndim = len(x.shape)
    if factors is None:
        kind = statistics_dtype(x.dtype)
        gain = _operator("y0 = x0 * x1;", kind, "gain", 0, 0)(invstd, *gains) if gains else invstd
        expr, arrays = "y0 = x0 * x1;", [grad, channel_view(gain, ndim)]
    else:
        grad_mean, slope, gain = (channel_view(f, ndim) for f in factors)
        expr = "y0 = (x0 - x2 - (x1 - x3) * x4) * x5;"
        arrays = [grad, x, grad_mean, channel_view(mean, ndim), slope, gain]
    accumulate = beta != 0
    operator = _operator(expr, x.dtype, "batch_norm_dx", len(arrays) if accumulate else 0, 0)
    result: Array = operator(*arrays, *((out, beta) if accumulate else ()), out=out)
    return result
