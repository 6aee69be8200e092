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
from clprim.ops.norm.batch_norm import reduced_axes
from clprim.ops.norm.batch_norm_gradient import parameter_sums
from clprim.ops.norm.checks import channel_view
from clprim.ops.norm.moments import flat_view, moments
from clprim.primitives.reduction import Reduction
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import seldom
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of

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


@kernel("batch_norm_gather_stats_with_counts", named=True)
def _gather(a: Any) -> Any:
    return _gathered(a, a.counts.reshape(-1, 1))


@kernel("batch_norm_gather_stats", named=True)
def _gather_of_equal_parts(a: Any) -> Any:
    return _gathered(a, full((a.mean.shape[0], 1), a.count, a.mean.dtype))


def _gathered(a: Any, counts: Array) -> Any:
    found = _merged(a.mean.dtype)(a.mean, a.invstd, counts, a.eps, axis=0)
    for running, batch in ((a.running_mean, found[0]), (a.running_var, found[2])):
        if running is not None:
            expr = "{a} + ({b} - {a}) * {c}"
            apply(expr, running, batch, a.momentum, kind=kind_of(running.dtype), out=running)
    return found[:2]


@kernel("batch_norm_elemt", lies=seldom, named=True)
def _normalize(a: Any) -> Any:
    x, weight, bias = a.input, a.weight, a.bias
    vectors = [channel_view(v, x.ndim) for v in (a.mean, a.invstd)]
    # Rounded as in a batch norm that computes its statistics.
    expr = "({a} - {b}) * {c}" if weight is None else "({a} - {b}) * ({c} * {d})"
    for vector in (weight, bias):
        if vector is not None:
            if vector is bias:
                expr = f"{expr} + {{{'abcde'[len(vectors) + 1]}}}"
            vectors.append(channel_view(vector, x.ndim))
    return apply(expr, x, *vectors, kind=kind_of(x.dtype))


@kernel("batch_norm_backward_reduce", named=True)
def _sums_of_gradients(a: Any) -> Any:
    x, mean = a.input, a.mean
    axes = reduced_axes(x.ndim)
    center = channel_view(mean, x.ndim)
    found = parameter_sums(mean.dtype)(a.grad_out, x, center, axis=axes, keepdims=True)
    of_grad, of_products = (flat_view(array, axes) for array in found)
    kind = kind_of((mean if a.weight is None else a.weight).dtype)
    return (
        of_grad if a.input_g else None,
        of_products if a.input_g else None,
        apply("{a} * {b}", of_products, a.invstd, kind=kind) if a.weight_g else None,
        cast(of_grad, kind) if a.bias_g else None,
    )


@kernel("batch_norm_backward_elemt", named=True)
def _gradient(a: Any) -> Any:
    kind, invstd, x = kind_of(a.mean.dtype), a.invstd, a.input
    total = ops.sum(cast(a.count, kind))
    slope = apply("{a} * {b} * {b} / {c}", a.sum_dy_xmu, invstd, total, kind=kind)
    level = apply("{a} / {b}", a.sum_dy, total, kind=kind)
    scale = invstd if a.weight is None else apply("{a} * {b}", invstd, a.weight, kind=kind)
    vectors = [channel_view(v, x.ndim) for v in (level, a.mean, slope, scale)]
    expr = "({a} - {c} - ({b} - {d}) * {e}) * {f}"
    return apply(expr, a.grad_out, x, *vectors, kind=kind_of(x.dtype))
