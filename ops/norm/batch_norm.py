"""Batch normalisation (Ioffe and Szegedy 2015): statistics, training, inference, gradients.

Arrays are (N, C), (N, C, L), (N, C, H, W) or (N, C, D, H, W) in any memory format, in which results
come back too. What there is one of a channel has the shape (C,). float16 and bfloat16 are
normalised in float32, and so are their statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from clprim.arrays.array import Array, new_dense
from clprim.call.arguments import as_results, check_aliases, check_array
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.norm.checks import (
    channel_view,
    channels_of,
    check_floats,
    check_result,
    check_vector,
)
from clprim.ops.norm.moments import (
    about_origin,
    moments,
    origins_of,
    spread_view,
    statistics_dtype,
)
from clprim.ops.norm.running_statistics import RunningStatistics
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.epilogue import append, check_epilogue, split_arguments
from clprim.ops.shared.ranks import Store, of_rank
from clprim.primitives.grouped import Grouped
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import current_device

if TYPE_CHECKING:
    from typing_extensions import Unpack


def reduced_axes(ndim: int) -> tuple[int, ...]:
    """Returns all axes but that of the channels."""
    return (0, *range(2, ndim))


@operator()
@repeatable
def batch_norm_stats(x: Any, *, out: Any = None) -> tuple[Array, Array]:
    """Returns (mean, biased variance) of every channel, in one read of ``x``.

    Both stay accurate where the mean is many times the deviation: what is added up are distances
    from an element, and partial results merge as in Chan, Golub and LeVeque (1979).

    Args:
        x: (N, C, …), of any dtype. Of no elements, all is NaN.
        out: Two arrays of shape (C,), for mean and variance.

    Returns:
        Two arrays of shape (C,): float32 for float32, float16 and bfloat16, float64 for float64 and
        integers.

    Raises:
        ShapeError: Fewer than two dimensions.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[4096, 9], [4097, 9], [4098, 9], [4099, 9]]))
        >>> mean, variance = ops.batch_norm_stats(x)
        >>> mean.get().tolist(), variance.get().tolist()
        ([4097.5, 9.0], [1.25, 0.0])
    """
    what = "batch_norm_stats"
    dtype = dtype_of(what, "x", x)
    check_array(what, "x", x, current_device())
    channels = channels_of(what, x)
    if out is not None:
        out = as_results(what, out, 2)
        for array in out:
            check_result(what, array, (channels,), statistics_dtype(dtype))
        check_aliases(what, out, (x,), same_allowed=False)
    mean, variance = moments(x, reduced_axes(len(x.shape)), out=out)
    return mean, variance


@operator(sample="x, *[empty(3, number)] * 2")
@repeatable
def batch_norm(
    x: Any,
    mean: Any,
    var: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    eps: float = 1e-5,
    epilogue: str | None = None,
    epilogue_args: Sequence[Any] = (),
    out: Any = None,
) -> Array:
    """Returns (x - mean) / √(var + eps) · weight + bias, as inference does.

    Args:
        x: (N, C, …) of floating-point numbers.
        mean: Of every channel, (C,).
        var: Likewise, the biased or the running variance.
        weight: Likewise; 1 where it is None.
        bias: Likewise; 0 where it is None.
        eps: Added to the variance.
        epilogue: A snippet on ``y0``, the value before it is stored, run in the same kernel; its
            gradient is `epilogue_backward`.
        epilogue_args: Its arrays ``x0``, …, which broadcast to ``x``, then its numbers ``w0``, ….
        out: Where the result goes; may be ``x``.

    Raises:
        ShapeError, DTypeError, DeviceError, DefinitionError: With what was given and expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, -2], [3, 6]]))
        >>> mean, var = cp.asarray(np.float32([2, 2])), cp.asarray(np.float32([1, 16]))
        >>> ops.batch_norm(x, mean, var, eps=0).get()
        array([[-1., -1.],
               [ 1.,  1.]], dtype=float32)
        >>> ops.batch_norm(x, mean, var, eps=0, epilogue="y0 = y0 < 0 ? 0 : y0;").get()
        array([[0., 0.],
               [1., 1.]], dtype=float32)
    """
    what = "batch_norm"
    dtype = check_floats(what, "x", x)
    channels = channels_of(what, x)
    vectors = {"mean": mean, "var": var, "weight": weight, "bias": bias}
    for label, vector in vectors.items():
        if vector is None and label in ("mean", "var"):
            raise DTypeError(f"{what}: expected a device array for {label}, got None")
        check_vector(what, label, vector, channels)
    eps = real(what, "eps", eps)
    check_epilogue(what, current_device(), epilogue, epilogue_args, x.shape)
    arrays, numbers = split_arguments(epilogue_args)
    if out is not None:
        given = [a for a in vectors.values() if a is not None]
        check_result(what, out, x.shape, dtype, [x, *given, *arrays])
    kind = statistics_dtype(dtype)
    scale = _invstd_of(kind)(var, eps) if weight is None else _scale_of(kind)(weight, var, eps)
    return _normalize(what, x, mean, scale, bias, epilogue, arrays, numbers, out)


@repeatable
def _batch_norm_train(
    what: str,
    x: Any,
    weight: Any = None,
    bias: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    *,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    num_batches_tracked: Any = None,
    **store: Unpack[Store],
) -> tuple[Array, Array, Array]:
    """Normalises with the statistics of the batch, and updates the running ones in place.

    ``running = (1 - momentum) · running + momentum · batch``, with the unbiased variance of the
    batch. A batch without elements leaves them as they are.

    Args:
        x: (N, C, …) of floating-point numbers, more than one a channel.
        weight: A factor a channel, (C,), or None.
        bias: A summand a channel, (C,), or None.
        running_mean: Updated; None, together with ``running_var``, tracks nothing.
        running_var: Likewise.
        momentum: Weight of this batch; None averages all batches alike, for which
            ``num_batches_tracked`` says how many came before.
        eps: Added to the variance.
        num_batches_tracked: Batches before this one: a number, or an array of one integer, which
            is counted up.
        epilogue: A snippet on ``y0``, the value before it is stored, run in the same kernel; its
            gradient is `epilogue_backward`.
        epilogue_args: Its arrays ``x0``, …, which broadcast to ``x``, then its numbers ``w0``, ….
        out: Where the result goes; may be ``x``, unless gradients are wanted.

    Returns:
        (y, save_mean, save_invstd): the latter two of shape (C,), for `batch_norm_backward`.

    Raises:
        ShapeError: One element a channel, which has no variance; wrong shapes.
        DTypeError, DeviceError, DefinitionError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, -2], [3, 6]]))
        >>> running_mean, running_var = cp.zeros(2), cp.full(2, 1.0)
        >>> y, mean, invstd = ops.batch_norm_train(
        ...     x, None, None, running_mean, running_var, momentum=0.5, eps=0
        ... )
        >>> y.get(), mean.get(), invstd.get()
        (array([[-1., -1.],
               [ 1.,  1.]], dtype=float32), array([2., 2.], dtype=float32), array([1.  , 0.25], dtype=float32))
        >>> running_mean.get(), running_var.get()
        (array([1., 1.], dtype=float32), array([ 1.5, 16.5], dtype=float32))
    """  # noqa: E501
    epilogue, epilogue_args, out = store["epilogue"], store["epilogue_args"], store["out"]
    dtype = check_floats(what, "x", x)
    channels = channels_of(what, x)
    for label, vector in (("weight", weight), ("bias", bias)):
        check_vector(what, label, vector, channels)
    count = math.prod(x.shape[d] for d in reduced_axes(len(x.shape)))
    if count == 1:
        raise ShapeError(
            f"{what}: expected more than one value a channel, got x of shape {x.shape}: the "
            "variance of one value says nothing; batch_norm() takes running statistics instead"
        )
    eps = real(what, "eps", eps)
    check_epilogue(what, current_device(), epilogue, epilogue_args, x.shape)
    arrays, numbers = split_arguments(epilogue_args)
    given = [x, *(a for a in (weight, bias, *arrays) if a is not None)]
    running = RunningStatistics(
        what, running_mean, running_var, channels, momentum, num_batches_tracked, given
    )
    if out is not None:
        check_result(what, out, x.shape, dtype, [*given, *running.arrays])
    ndim, kind = len(x.shape), statistics_dtype(dtype)
    axes = reduced_axes(ndim)
    if out is None:
        out = empty_like(x, x.shape, dtype)
    mean, invstd = (new_dense((channels,), kind) for _ in range(2))
    keep: list[Any] = [spread_view(a, axes) for a in (mean, invstd)]
    operands: list[Any] = [x, *origins_of(x, axes, kind)]
    scalars: list[float] = [eps]
    origins = len(operands) - 1
    values = "group_y0 = mean; group_y1 = 1 / sqrt(variance + w0);\n"
    each = "y0 = (x0 - group_y0) * group_y1"
    if weight is not None:
        values += f"group_y2 = group_y1 * x{len(operands)};\n"
        each = "y0 = (x0 - group_y0) * group_y2"
        operands.append(channel_view(weight, ndim))
        keep.append(False)
    if running.arrays and count:
        tracked = [spread_view(a, axes) for a in running.arrays]
        values += running.terms("mean", "variance", len(operands), 1, f"group_y{len(keep)}")
        operands += [*tracked, *running.inputs[2:]]
        scalars += running.numbers(count / (count - 1))
        keep += tracked
    if bias is not None:
        each += f" + x{len(operands)}"
        operands.append(channel_view(bias, ndim))
    each = append(what, each + ";", epilogue, len(operands), len(scalars))
    operator = _training(dtype, origins, values, each)
    operator.apply(*operands, *arrays, *scalars, *numbers, axis=axes, out=out, keep=keep)
    if count:
        running.count()
    return out, mean, invstd


batch_norm_train = of_rank(_batch_norm_train, "batch_norm_train", gradient="`batch_norm_backward`")


@lru_cache(maxsize=256)
def _training(dtype: AnyDType, origins: int, values: str, each: str) -> Grouped:
    """Of x, its origins and what ``values`` and ``each`` read."""
    strings = about_origin(origins)
    strings["finalize"] += values
    kind = statistics_dtype(dtype)
    name = "batch_norm_train"
    return Grouped(**strings, each=each, result_type=dtype, partial_type=kind, name=name)


@lru_cache(maxsize=8)
def _scale_of(kind: AnyDType) -> Pointwise:
    return Pointwise("y0 = x0 / sqrt(x1 + w0);", result_type=kind, name="batch_norm_scale")


@lru_cache(maxsize=8)
def _invstd_of(kind: AnyDType) -> Pointwise:
    return Pointwise("y0 = 1 / sqrt(x0 + w0);", result_type=kind, name="batch_norm_scale")


@lru_cache(maxsize=256)
def _apply(what: str, dtype: AnyDType, bias: bool, epilogue: str | None) -> Pointwise:
    """The pass over x: mean, scale and bias a channel, then the epilogue."""
    # x - mean first: what is left of two close numbers is exact, and is what matters.
    expr = "y0 = (x0 - x1) * x2 + x3;" if bias else "y0 = (x0 - x1) * x2;"
    expr = append(what, expr, epilogue, 4 if bias else 3, 0)
    return Pointwise(expr, result_type=dtype, name="batch_norm")


def _normalize(
    what: str,
    x: Any,
    mean: Any,
    scale: Any,
    bias: Any,
    epilogue: str | None,
    arrays: tuple[Any, ...],
    numbers: tuple[Any, ...],
    out: Any,
) -> Array:
    vectors = [channel_view(v, len(x.shape)) for v in (mean, scale, bias) if v is not None]
    operator = _apply(what, x.dtype, bias is not None, epilogue)
    result: Array = operator(x, *vectors, *arrays, *numbers, out=out)
    return result
