"""Gradients of batch normalisation: one fused reduction, then one pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.call.arguments import check_aliases, check_array, check_out
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.norm.batch_norm import reduced_axes
from clprim.ops.norm.checks import (
    channel_view,
    channels_of,
    check_floats,
    check_gradient,
    check_vector,
)
from clprim.ops.norm.moments import spread_view, standardizing, statistics_dtype
from clprim.ops.shared.checks import check_mask, real
from clprim.ops.shared.dims import empty_like
from clprim.primitives.grouped import Grouped
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device

_NAMES = ("dx", "dweight", "dbias")


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
    dtypes = (dtype, kind if weight is None else weight.dtype, kind)
    _check_outputs(what, outs, dtypes, (grad, x), given)
    axes = reduced_axes(x.ndim)
    found = empty_like(x, x.shape, dtype) if outs[0] is None else outs[0]
    parameters = [
        new_dense((channels,), t) if a is None else a
        for a, t in zip(outs[1:], dtypes[1:], strict=True)
    ]
    sums = [spread_view(a, axes) for a in parameters]
    mean, invstd = (channel_view(v, x.ndim) for v in (save_mean, save_invstd))
    gains = () if weight is None else (channel_view(weight, x.ndim),)
    factors = [b for b in betas if b]
    scaled = tuple(b != 0 for b in betas)
    if wanted[0] and training:
        old = [a for a, b in zip((found, *sums), betas, strict=True) if b]
        keep = [s if w else False for s, w in zip(sums, wanted[1:], strict=True)]
        operands = grad, x, mean, invstd, *gains, *old, *factors
        _gradients(dtype, bool(gains), scaled).apply(*operands, axis=axes, out=found, keep=keep)
    else:
        if wanted[1] or wanted[2]:
            of_sums = parameter_sums(kind)(grad, x, mean, axis=axes, keepdims=True)
            old = [a for a, b in zip(sums, betas[1:], strict=True) if b]
            operands = *of_sums, invstd, *old, *(b for b in betas[1:] if b)
            _parameters(dtypes[1:], scaled[1:])(*operands, out=tuple(sums))
        if wanted[0]:
            old = [found, betas[0]] if betas[0] else []
            _frozen(dtype, bool(gains), bool(old))(grad, invstd, *gains, *old, out=found)
    places = found, *parameters
    dx, dweight, dbias = (a if w else None for a, w in zip(places, wanted, strict=True))
    return dx, dweight, dbias


@lru_cache(maxsize=64)
def _gradients(dtype: AnyDType, weight: bool, accumulate: tuple[bool, ...]) -> Grouped:
    """From grad, x, mean, 1 / deviation, weight if there; then old values and their factors.

    The first values of a channel are dweight and dbias. Strings are derived from those of a
    normalisation with an origin, weight and bias; what ``out=`` held is added to them.
    """
    names = {"gy0": "x0", "x0": "x1", "group_y0": "x2", "group_y1": "x3"}
    names["x2"] = "x4" if weight else "1"
    strings = _derived(dtype, ("x0", "x2", "x3"), names)
    old = 0
    for added_to, part, result in zip(
        accumulate, ("each", *("finalize",) * 2), ("y0", "group_y0", "group_y1"), strict=True
    ):
        if added_to:
            strings[part] += f"\n{result} += w{old} * x{4 + weight + old};"
            old += 1
    return Grouped(
        **strings,
        result_type=dtype,
        partial_type=statistics_dtype(dtype),
        name="batch_norm_backward",
    )


def _derived(dtype: AnyDType, wrt: tuple[str, ...], names: dict[str, str]) -> dict[str, Any]:
    """The strings of gradients in x (x0), weight (x2) and bias (x3), statistics being at hand."""
    normalizing = standardizing(dtype, 1, True, True, "batch_norm", saved=True)
    gradient = normalizing.gradient(wrt, saves=("group_y0", "group_y1"))
    real = "double" if statistics_dtype(dtype) == np.float64 else "float"
    return gradient.strings(names, ("x1", "x2", "x3"), real)


@lru_cache(maxsize=8)
def parameter_sums(kind: AnyDType) -> Reduction:
    """From grad, x and mean: what dweight and dbias are computed from, as in `_gradients`."""
    strings = _derived(kind, ("x2", "x3"), {"gy0": "x0", "x0": "x1", "group_y0": "x2"})
    texts = {name: strings[name] for name in ("expr", "init", "step")}
    return Reduction(**texts, result_type=kind, name="norm_parameter_sums")


@lru_cache(maxsize=64)
def _parameters(types: tuple[AnyDType, ...], accumulate: tuple[bool, ...]) -> Pointwise:
    """From the sums, 1 / deviation, then old values and their factors: dweight and dbias."""
    expr = _derived(types[1], ("x2", "x3"), {"group_y1": "x2"})["finalize"]
    expr = expr.replace("reduce_y", "x").replace("group_y", "y")
    for n, added_to in enumerate(accumulate):
        old = sum(accumulate[:n])
        expr += f"\ny{n} += w{old} * x{3 + old};" if added_to else ""
    return Pointwise(expr, result_type=types, name="norm_parameters")


@lru_cache(maxsize=64)
def _frozen(dtype: AnyDType, weight: bool, accumulate: bool) -> Pointwise:
    """From grad, 1 / deviation, weight if there: dx, where the statistics are constants."""
    expr = f"y0 = x0 * {'(x1 * x2)' if weight else 'x1'}"
    expr += f" + w0 * x{2 + weight};" if accumulate else ";"
    return Pointwise(expr, result_type=dtype, name="batch_norm_dx")


def _check_outputs(
    what: str, outs: Sequence[Any], dtypes: Sequence[AnyDType], images: Any, given: Sequence[Any]
) -> None:
    """Refuses results of other shapes and dtypes, or that overlap what is read."""
    shape = images[1].shape
    for n, array in enumerate(outs):
        if array is not None:
            check_array(what, f"out= of {_NAMES[n]}", array, current_device())
            check_out(what, n, array, shape[1:2] if n else shape, dtypes[n])
    first, *rest = ([a for a in part if a is not None] for part in (outs[:1], outs[1:]))
    check_aliases(what, [*first, *rest[0]], given, same_allowed=False)
    check_aliases(what, first, images)
    check_aliases(what, rest[0], images, same_allowed=False)


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
            raise ShapeError(
                f"{what}: beta={quoted(b)} needs out= for {name}, whose old value it scales"
            )
    return tuple(outs), tuple(b if wanted else 0.0 for b, wanted in zip(betas, mask, strict=True))
