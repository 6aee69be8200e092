"""Distances of every row of a matrix to every row of another one, or of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, zeros, zeros_like
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import DefinitionError, ShapeError
from clprim.gradients.request import as_tuple
from clprim.graph.repeat import repeatable
from clprim.ops.loss.distance import distance, distance_gradient, norm_order
from clprim.ops.product.matmul import matmul
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape
from clprim.ops.shared.strings import kernel, lower_bound
from clprim.ops.shared.sums import added
from clprim.primitives.reduction import Reduction

_APART = "donot_use_mm_for_euclid_dist"
_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    _APART: False,
}
# Rows of either matrix from which on PyTorch multiplies matrices.
_MANY = 25


@lru_cache(maxsize=16)
def _squares(dtype: AnyDType) -> Reduction:
    return Reduction("y0 = x0 * x0;", **added(1), result_type=dtype, name="cdist_squares")


@lru_cache(maxsize=16)
def _differing(dtype: AnyDType) -> Reduction:
    text = "typeof_x0 d = x0 - x1; y0 = d != d ? d : d != 0 ? 1 : 0;"
    return Reduction(
        text, **added(1), result_type=dtype, partial_type=value_dtype(dtype, [dtype]), name="cdist"
    )


@operator(autocast="float32", torch="_cdist_forward", wrt="x1 x2")
def cdist(
    x1: Any,
    x2: Any,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    *,
    out: Any = None,
) -> Array:
    """Returns the p-norms of the differences of every row of x1 and every row of x2.

    Args:
        x1: (…, P, M), of floating-point numbers.
        x2: (…, R, M); the leading dimensions broadcast.
        p: The norm: ∞, more than 0, or 0, which counts the elements that differ.
        compute_mode: Whether p = 2 is computed as |a|² + |b|² − 2ab by a product of matrices, which
            is fast, and coarse where rows are near each other: as PyTorch, with more than 25 rows,
            or with its words ``"use_mm_for_euclid_dist"`` and ``"donot_use_mm_for_euclid_dist"``.

    Returns:
        (…, P, R).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a = cp.asarray(np.float32([[0, 0], [3, 4]]))
        >>> ops.cdist(a, a[1:]).get()
        array([[5.],
               [0.]], dtype=float32)
    """
    what = "cdist"
    dtype, p = _checked(what, x1, x2, p)
    if compute_mode not in _MODES:
        raise DefinitionError(
            f"{what}: compute_mode={compute_mode!r}: expected one of {', '.join(map(repr, _MODES))}"
        )
    x1, x2 = asarray(x1), asarray(x2)  # PyOpenCL's own have no such views
    rows, others = x1[..., :, None, :], x2[..., None, :, :]
    if not x1.shape[-1]:
        shape = np.broadcast_shapes(rows.shape, others.shape)[:-1]
        if out is None:
            return zeros(shape, dtype)
        out.fill(0)
        return out
    many = _MODES[compute_mode]
    if many is None:
        many = max(x1.shape[-2], x2.shape[-2]) > _MANY
    if p == 2 and many:
        wide = value_dtype(dtype, [dtype])
        squares = _squares(wide)(x1, axis=-1), _squares(wide)(x2, axis=-1)
        return matmul(
            x1,
            x2,
            transpose_b=True,
            epilogue="typeof_y0 s = x0 + x1 - 2 * y0; y0 = s < 0 ? 0 : sqrt(s);",
            epilogue_args=(squares[0][..., :, None], squares[1][..., None, :]),
            out=out,
        )
    if p == 0:
        return _differing(dtype)(rows, others, axis=-1, out=out)
    return distance(dtype, p)(rows, others, 0.0, axis=-1, out=out)


def cdist_backward(
    grad: Any,
    x1: Any,
    x2: Any,
    p: float = 2.0,
    *,
    output_mask: Sequence[bool] = (True, True),
) -> tuple[Array | None, Array | None]:
    """Returns the gradients of `cdist` in x1 and x2; of equal rows they are 0.

    Args:
        output_mask: Which of the two are wanted; the others are None.
    """
    what = "cdist_backward"
    dtype, p = _checked(what, x1, x2, p)
    x1, x2 = asarray(x1), asarray(x2)
    rows, others = x1[..., :, None, :], x2[..., None, :, :]
    shape = np.broadcast_shapes(rows.shape, others.shape)[:-1]
    check_shape(what, "grad", grad, shape)
    masked = list(zip((x1, x2), output_mask, strict=True))
    wrt = tuple(f"x{n}" for n, (_, wanted) in enumerate(masked) if wanted)
    if p == 0 or not grad.size or not x1.shape[-1] or not wrt:
        first, second = (zeros_like(a) if wanted else None for a, wanted in masked)
        return first, second
    made = iter(as_tuple(distance_gradient(dtype, p, wrt)(rows, others, 0.0, grad=grad, axis=-1)))
    first, second = (next(made).reshape(a.shape) if wanted else None for a, wanted in masked)
    return first, second


def _checked(what: str, x1: Any, x2: Any, p: Any) -> tuple[AnyDType, float]:
    dtype = promote([check_floating(what, "x1", x1), check_floating(what, "x2", x2)])
    fit = x1.ndim >= 2 and x2.ndim >= 2 and x1.shape[-1] == x2.shape[-1]
    if fit:
        try:
            np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        except ValueError:
            fit = False
    if not fit:
        raise ShapeError(
            f"{what}: x1 has shape {x1.shape}, x2 {x2.shape}; expected (…, P, M) and (…, R, M)"
        )
    return dtype, norm_order(what, p, zero=True)


# --- of one matrix -------------------------------------------------------------------------------


@operator(
    autocast="float32",
    torch="_pdist_forward; _pdist_backward -pdist @none",
    sample="x[:, :, 0, 0]",
    wrt="x",
)
@repeatable
def pdist(x: Any, p: float = 2.0) -> Array:
    """Returns the p-norms of the differences of every two rows, as `torch.nn.functional.pdist`.

    Args:
        x: (N, D), of floating-point numbers.
        p: The norm: ∞, more than 0, or 0, which counts the elements that differ.

    Returns:
        (N (N - 1) / 2,): of rows 0 and 1, 0 and 2, …, 1 and 2, ….

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.pdist(cp.asarray(np.float32([[0, 0], [3, 4], [0, 1]]))).get().round(4)
        array([5.    , 1.    , 4.2426], dtype=float32)
    """
    shape = _of_one("pdist", x, p)
    start = "middle * (2 * size_x0(0) - middle - 1) / 2"  # of the pairs of a row with later ones
    text = f"""
        {lower_bound("size_x0(0)", f"({start})", "coord(0)", after=True)}
        long i = low - 1, j = coord(0) - i * (2 * size_x0(0) - i - 1) / 2 + i + 1;
        y0 = at_x0(i, j);
    """
    return kernel(text, "pdist", x.dtype)(cdist(x, x, p, _APART), shape=shape)


@repeatable
def pdist_backward(grad: Any, x: Any, p: float = 2.0) -> Array:
    """Returns the gradient of `pdist`; of equal rows it is 0."""
    what = "pdist_backward"
    check_shape(what, "grad", grad, _of_one(what, x, p))
    if not grad.size:
        return zeros_like(x)
    text = """
        long i = coord(0), j = coord(1), a = min(i, j), b = max(i, j);
        long pair = i == j ? 0 : a * (2 * size(0) - a - 1) / 2 + b - a - 1;
        y0 = i == j ? 0 : at_x0(pair);
    """
    both = kernel(text, what, grad.dtype)(grad, shape=(x.shape[0],) * 2)
    found, _ = cdist_backward(both, x, x, p, output_mask=(True, False))
    assert found is not None  # it is in the mask
    return found


def _of_one(what: str, x: Any, p: Any) -> tuple[int]:
    """Checks a matrix, and returns the shape of its distances."""
    check_floating(what, "x", x)
    norm_order(what, p, zero=True)
    if x.ndim != 2:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected (N, D)")
    return (x.shape[0] * max(0, x.shape[0] - 1) // 2,)
