"""Batch normalisation of a batch that is spread over processes, for `torch.nn.SyncBatchNorm`.

Each process has statistics of its part, (C,), which are merged; so are the sums of the gradient.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.dtypes import AnyDType
from clprim.ops.norm.arguments import channel_view
from clprim.ops.norm.batch_norm import reduced_axes
from clprim.ops.norm.batch_norm_gradient import parameter_sums
from clprim.ops.norm.moments import flat_view, moments
from clprim.primitives.reduction import Reduction
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel

# Count, mean and sum of squares about it, merged as in Chan, Golub and LeVeque (1979).
_MERGE = """
    typeof_reduce_y0 total = reduce_y0 + {count};
    typeof_reduce_y0 share = total > 0 ? {count} / total : 0;
    typeof_reduce_y0 distance = {mean} - reduce_y1;
    reduce_y1 += distance * share;
    reduce_y2 += {squares} + distance * distance * share * reduce_y0;
    reduce_y0 = total;
"""


@lru_cache(maxsize=8)
def _merged(kind: AnyDType) -> Reduction:
    """From mean, 1 / deviation and count of parts: mean, 1 / deviation and unbiased variance."""
    return Reduction(
        "",
        init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
        # A variance of 0 is not always what is left of eps.
        step="typeof_reduce_y0 variance = 1 / (x1 * x1) - w0; if (variance < 0) variance = 0;"
        + _MERGE.format(count="x2", mean="x0", squares="x2 * variance"),
        combine=_MERGE.format(count="other_y0", mean="other_y1", squares="other_y2"),
        finalize="""
            y0 = reduce_y1;
            y1 = 1 / sqrt(reduce_y2 / reduce_y0 + w0);
            y2 = reduce_y2 / (reduce_y0 - 1);
        """,
        result_type=kind,
        name="batch_norm_merge",
    )


@kernel("batch_norm_stats")
def _statistics(x: Array, eps: float) -> Any:
    mean, _, invstd = moments(x, reduced_axes(x.ndim), eps)
    return mean, invstd


@kernel("batch_norm_gather_stats_with_counts")
def _gather(
    x: Array,
    mean: Array,
    invstd: Array,
    running_mean: Array | None,
    running_var: Array | None,
    momentum: float,
    eps: float,
    counts: Array,
) -> Any:
    found = _merged(mean.dtype)(mean, invstd, counts.reshape(-1, 1), eps, axis=0)
    for running, batch in ((running_mean, found[0]), (running_var, found[2])):
        if running is not None:
            expr = "{a} + ({b} - {a}) * {c}"
            apply(expr, running, batch, momentum, kind=kind_of(running.dtype), out=running)
    return found[:2]


@kernel("batch_norm_gather_stats")
def _gather_of_equal_parts(x: Array, mean: Array, invstd: Array, *running: Any) -> Any:
    *rest, count = running
    return _gather(x, mean, invstd, *rest, full((mean.shape[0],), count, mean.dtype))


@kernel("batch_norm_elemt", out=True)
def _normalize(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    invstd: Array,
    eps: float,
    *,
    out: Array | None = None,
) -> Any:
    vectors = [channel_view(v, x.ndim) for v in (mean, invstd)]
    # Rounded as in a batch norm that computes its statistics.
    expr = "({a} - {b}) * {c}" if weight is None else "({a} - {b}) * ({c} * {d})"
    for vector in (weight, bias):
        if vector is not None:
            if vector is bias:
                expr = f"{expr} + {{{'abcde'[len(vectors) + 1]}}}"
            vectors.append(channel_view(vector, x.ndim))
    return apply(expr, x, *vectors, kind=kind_of(x.dtype), out=out)


@kernel("batch_norm_backward_reduce")
def _sums_of_gradients(
    grad: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Array | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> Any:
    axes = reduced_axes(x.ndim)
    center = channel_view(mean, x.ndim)
    found = parameter_sums(mean.dtype)(grad, x, center, axis=axes, keepdims=True)
    of_grad, of_products = (flat_view(array, axes) for array in found)
    kind = kind_of((mean if weight is None else weight).dtype)
    return (
        of_grad if input_g else None,
        of_products if input_g else None,
        apply("{a} * {b}", of_products, invstd, kind=kind) if weight_g else None,
        cast(of_grad, kind) if bias_g else None,
    )


@kernel("batch_norm_backward_elemt")
def _gradient(
    grad: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Array | None,
    sum_dy: Array,
    sum_dy_xmu: Array,
    count: Array,
) -> Any:
    kind = kind_of(mean.dtype)
    total = ops.sum(cast(count, kind))
    slope = apply("{a} * {b} * {b} / {c}", sum_dy_xmu, invstd, total, kind=kind)
    level = apply("{a} / {b}", sum_dy, total, kind=kind)
    scale = invstd if weight is None else apply("{a} * {b}", invstd, weight, kind=kind)
    vectors = [channel_view(v, x.ndim) for v in (level, mean, slope, scale)]
    expr = "({a} - {c} - ({b} - {d}) * {e}) * {f}"
    return apply(expr, grad, x, *vectors, kind=kind_of(x.dtype))
