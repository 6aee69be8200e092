"""Layer normalisation (Ba and others 2016).

It normalises over the last dimensions. Names and arguments are those of `torch.nn.functional`;
float16 and bfloat16 are normalised in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, new_dense
from clprim.dtypes import AnyDType
from clprim.gradients.grouped import GroupedGradient
from clprim.graph.repeat import repeatable
from clprim.ops.norm.checks import (
    check_gradient,
    check_result,
    check_rows,
    check_statistics,
    row_shape,
)
from clprim.ops.norm.moments import (
    moments,
    origins_of,
    spread_view,
    standardizing,
    statistics_dtype,
)
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_mask, real


@operator(
    autocast="float32",
    torch="native_layer_norm return_stats=True; native_layer_norm_backward -bias",
    onnx="""LayerNormalization(x, weight, bias) epsilon:eps=1e-05 @3 @trailing;
        com.microsoft::SkipLayerNormalization(x, skip, weight, bias, added)
            epsilon:eps=1e-12 @4 @skip @trailing""",
    sample="x, 4",
    wrt="x weight bias",
    saves="return_stats: mean rstd",
)
@repeatable
def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    return_stats: bool = False,
    out: Any = None,
) -> Array:
    """Returns (x - mean) / √(variance + eps) · weight + bias over the last dimensions.

    Args:
        x: (…, *normalized_shape) of floating-point numbers.
        normalized_shape: The last dimensions of ``x``.
        weight: A factor for each element of them, of that shape, or None.
        bias: A summand likewise, or None.
        eps: Added to the biased variance.
        return_stats: Whether to return (y, mean, rstd), for `layer_norm_backward`: of the shape of
            ``x`` with 1 in place of the last dimensions.
        out: Where y goes; may be ``x``.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, 3], [2, 6]]))
        >>> ops.layer_norm(x, 2, bias=cp.full(2, 1.0), eps=0).get()
        array([[0., 2.],
               [0., 2.]], dtype=float32)
    """
    what = "layer_norm"
    dtype, axes = check_rows(what, x, normalized_shape, {"weight": weight, "bias": bias})
    eps = real(what, "eps", eps)
    gains = [a for a in (weight, bias) if a is not None]
    if out is not None:
        check_result(what, out, x.shape, dtype, [x, *gains])
    origins = origins_of(x, axes, statistics_dtype(dtype))
    operator = standardizing(
        dtype, len(origins), weight is not None, bias is not None, "layer_norm"
    )
    keep = [return_stats] * 2
    return operator.apply(x, *origins, *gains, eps, axis=axes, out=out, keep=keep)


@repeatable
def layer_norm_backward(
    grad: Any,
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    mean: Any = None,
    rstd: Any = None,
    *,
    eps: float = 1e-5,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:
    """Returns the gradients (dx, dweight, dbias) of a layer normalisation.

    They are derived from its strings.

    ``mean`` and ``rstd`` are as `layer_norm` returned them, computed anew where one is None; of the
    three gradients those are wanted that ``output_mask`` says. All else is as in the call.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "layer_norm_backward"
    dtype, axes = check_rows(what, x, normalized_shape, {"weight": weight})
    wanted = check_mask(what, output_mask, ("dx", "dweight", "dbias"))
    check_gradient(what, grad, x)
    check_statistics(what, row_shape(x, axes), mean=mean, rstd=rstd)
    if mean is None or rstd is None:
        mean, _, rstd = (spread_view(s, axes) for s in moments(x, axes, real(what, "eps", eps)))
    # Distances are from the mean, which is at hand, whatever the origin was.
    gains = () if weight is None else (weight,)
    saved = {"grad": grad, "axis": axes, "saved": (mean, rstd)}
    dx = dweight = dbias = None
    if wanted[0]:
        dx = _gradient(dtype, weight is not None)(x, mean, *gains, 0.0, **saved)
    if wanted[1] or wanted[2]:
        kind, shape = statistics_dtype(dtype), x.shape[len(x.shape) - len(axes) :]
        # Nothing of them is read but shape and dtype.
        places = [new_dense(shape, kind if n or weight is None else weight.dtype) for n in range(2)]
        dweight, dbias = _parameter_gradients(dtype)(x, mean, *places, 0.0, **saved)
        dweight, dbias = (
            d if w else None for d, w in zip((dweight, dbias), wanted[1:], strict=True)
        )
    return dx, dweight, dbias


_SAVES = ("group_y0", "group_y1")  # mean and 1 / deviation


# --- kernels --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _gradient(dtype: AnyDType, weight: bool) -> GroupedGradient:
    return standardizing(dtype, 1, weight, False, "layer_norm", saved=True).gradient(
        "x0", saves=_SAVES
    )


@lru_cache(maxsize=64)
def _parameter_gradients(dtype: AnyDType) -> GroupedGradient:
    operator = standardizing(dtype, 1, True, True, "layer_norm", saved=True)
    return operator.gradient(("x2", "x3"), saves=_SAVES)
