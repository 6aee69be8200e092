"""Distances of every row of one matrix to every row of another, as `torch.cdist`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, zeros, zeros_like
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import DefinitionError, ShapeError
from clprim.ops.loss.distance import distance, distance_gradient, norm_order
from clprim.ops.product.matmul import matmul
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import check_floating, check_shape, dtype_of
from clprim.ops.shared.sums import added
from clprim.primitives.reduction import Reduction

_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
}
# Rows of either matrix from which on PyTorch multiplies matrices.
_MANY = 25


@lru_cache(maxsize=16)
def _squares(dtype: AnyDType) -> Reduction:
    return Reduction("y0 = x0 * x0;", **added(1), result_type=dtype, name="cdist_squares")


@lru_cache(maxsize=16)
def _differing(dtype: AnyDType) -> Reduction:
    return Reduction("y0 = x0 != x1;", **added(1), result_type=dtype, name="cdist")


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
        found: Array = _differing(dtype)(rows, others, axis=-1, out=out)
    else:
        found = distance(dtype, p)(rows, others, 0.0, axis=-1, out=out)
    return found


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
    dtype_of(what, "grad", grad)
    x1, x2 = asarray(x1), asarray(x2)
    rows, others = x1[..., :, None, :], x2[..., None, :, :]
    shape = np.broadcast_shapes(rows.shape, others.shape)[:-1]
    check_shape(what, "grad", grad, shape)
    arrays = x1, x2
    wrt = tuple(f"x{n}" for n, wanted in enumerate(output_mask) if wanted)
    found: list[Array | None] = [None, None]
    if p == 0 or not grad.size or not x1.shape[-1]:
        found = [
            zeros_like(a) if wanted else None for a, wanted in zip(arrays, output_mask, strict=True)
        ]
    elif wrt:
        given = distance_gradient(dtype, p, wrt)(rows, others, 0.0, grad=grad, axis=-1)
        for name, g in zip(wrt, given if len(wrt) > 1 else (given,), strict=True):
            n = int(name[1])
            found[n] = g.reshape(arrays[n].shape)
    return found[0], found[1]


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
