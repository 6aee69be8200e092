"""Similarities of vectors by their angle, and the loss of them, as in `torch.nn.functional`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.gradients.vjp import vjp
from clprim.ops.loss.reduced import Loss, above_0, check_reduction
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape, dtype_of, real
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.sums import added
from clprim.plan.strides import broadcast_shapes
from clprim.primitives.reduction import Reduction

# Of two vectors: their product, and their squares.
_PRODUCTS = "y0 = x0 * x1; y1 = x0 * x0; y2 = x1 * x1;"
# Lengths a and b, no shorter than eps; a vector shorter than that has no slope of its length.
_COSINE = """
    {0} a = sqrt(reduce_y1);
    {0} b = sqrt(reduce_y2);
    a = a < w0 ? w0 : a;
    b = b < w0 ? w0 : b;
"""
# As in PyTorch's loss: eps is added to the squares.
_EMBEDDED = """
    {0} a = sqrt(reduce_y1 + w0);
    {0} b = sqrt(reduce_y2 + w0);
"""
_EMBEDDING_EPS = 1e-12


@operator(autocast="float32")
@repeatable
def cosine_similarity(
    x1: Any,
    x2: Any,
    dim: int | None = None,
    eps: float = 1e-8,
    *,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns x1 · x2 / (max(|x1|, eps) · max(|x2|, eps)) along an axis.

    Args:
        x1: Of floating-point numbers.
        x2: Likewise; the two broadcast.
        dim: The axis, 1 by default.
        eps: The least length.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a, b = (cp.asarray(np.float32([v])) for v in ([3, 4], [4, 3]))
        >>> ops.cosine_similarity(a, b).get()
        array([0.96], dtype=float32)
    """
    dtype, axis = _vectors("cosine_similarity", x1, x2, dim, axis)
    operator = _cosine(dtype, _COSINE)
    return operator(x1, x2, real("cosine_similarity", "eps", eps), axis=axis, out=out)


cosine_similarity_backward = vjp(cosine_similarity, "x1 x2")


@operator(autocast="float32")
@repeatable
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Array:
    """Returns 1 - cos where target is 1, max(0, cos - margin) where it is -1.

    Args:
        input1: (N, D) or (D,), of floating-point numbers.
        input2: Likewise.
        target: 1 or -1 for every pair, (N,) or ().
        margin: Of the pairs that are to differ.
    """
    what = "cosine_embedding_loss"
    cosine, margin = _embedded(what, input1, input2, target, margin, reduction)
    return _embedding(reduction, (cosine, target), (margin,), out=out)


cosine_embedding_loss_backward = vjp(cosine_embedding_loss, "input1 input2")


_embedding = Loss(
    "cosine_embedding_loss",
    f"typeof_y0 m = x0 - w0; y0 = (x1 == 1 ? 1 - x0 : 0) + (x1 == -1 ? {above_0('m')} : 0);",
)


def _embedded(
    what: str, input1: Any, input2: Any, target: Any, margin: Any, reduction: Any
) -> tuple[Array, float]:
    """Returns the cosine of every pair, and the margin."""
    check_reduction(what, reduction)
    check_floating(what, "input1", input1)
    check_floating(what, "input2", input2)
    dtype_of(what, "target", target)
    if input1.shape != input2.shape or len(input1.shape) not in (1, 2):
        raise ShapeError(
            f"{what}: inputs have shapes {input1.shape} and {input2.shape}, expected (N, D) or "
            "(D,) of both"
        )
    check_shape(what, "target", target, input1.shape[:-1])
    dtype = promote([input1.dtype, input2.dtype])
    operator = _cosine(value_dtype(dtype, [dtype]), _EMBEDDED)
    cosine: Array = operator(input1, input2, _EMBEDDING_EPS, axis=-1)
    return cosine, real(what, "margin", margin)


def _vectors(what: str, x1: Any, x2: Any, dim: Any, axis: Any) -> tuple[AnyDType, int]:
    """Returns the dtype and the axis of two arrays of vectors."""
    dtype = promote([check_floating(what, "x1", x1), check_floating(what, "x2", x2)])
    shape = broadcast_shapes(what, [x1.shape, x2.shape])
    like = x1 if len(x1.shape) == len(shape) else x2
    return dtype, one_axis(what, like, dim, axis, default=1)


@lru_cache(maxsize=64)
def _cosine(dtype: AnyDType, lengths: str) -> Reduction:
    return Reduction(
        _PRODUCTS,
        **added(3),
        finalize=lengths.format("typeof_reduce_y0") + "y0 = reduce_y0 / (a * b);",
        result_type=dtype,
        partial_type=value_dtype(dtype, [dtype]),
        name="cosine_similarity",
    )
