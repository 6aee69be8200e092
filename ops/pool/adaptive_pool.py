"""Pooling to a size that is given, by the mean or the greatest element: arguments after PyTorch.

Along each dimension of I elements that becomes O, window o begins at ⌊o·I/O⌋ and ends before
⌈(o + 1)·I/O⌉. Where O is 1 or None along every dimension, the mean is a `Reduction`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import empty
from clprim.dtypes import is_integer, value_dtype
from clprim.errors import ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.pool.avg_pool import mean_pool
from clprim.ops.pool.max_pool import greatest, lowest
from clprim.ops.pool.overloads import MAXIMA, AdaptivePool
from clprim.ops.pool.sliding import lead_of
from clprim.ops.reduction.reduce import mean
from clprim.ops.shared.checks import check_floating, check_shape, dtype_of
from clprim.ops.shared.epilogue import stored
from clprim.ops.shared.ranks import Store, of_rank, rank_of
from clprim.ops.shared.strings import kernel, places
from clprim.plan.strides import is_channels_last

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Elements of windows that are all alike, up to which loops of known length are faster.
KNOWN = 36

Size = int | None | Sequence[int | None]


@repeatable
def _avg(
    what: str,
    x: Any,
    output_size: Size,
    **store: Unpack[Store],
) -> Array:
    """Returns means of as many windows as are wanted.

    Args:
        x: (N, C, H, W) or (C, H, W) of floating-point numbers, in any memory format.
        output_size: Height and width of the result: a number, or one for each; None keeps x's.
        epilogue: As in `max_pool2d`.
        epilogue_args: Likewise.
        out: Where the result goes.

    Raises:
        ShapeError: Another number of dimensions, sizes that are none.
        DTypeError: No device array, or one of integers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(12, dtype=np.float32).reshape(1, 3, 4))
        >>> ops.adaptive_avg_pool2d(x, (1, 2)).get()
        array([[[4.5, 6.5]]], dtype=float32)
    """
    ndim = rank_of(what)
    dtype = check_floating(what, "x", x, complexes=True)
    lead, outputs = _sizes(what, x, ndim, output_size)
    shape = (*x.shape[:lead], *outputs)
    if set(outputs) == {1}:
        # In x's memory format, which a reduction would not keep where only channels are left.
        memory_format = None if x.ndim != 4 else _format(x)
        out = store.get("out")
        plain = store.get("epilogue") is None and out is None
        value = dtype if plain else value_dtype(dtype, [dtype])
        means = empty(shape, value, memory_format=memory_format)
        reduced = view_of(means, shape[:lead], means.strides[:lead], means.offset)
        mean(x, axis=tuple(range(lead, x.ndim)), dtype=value, out=reduced)
        if plain:
            return means
        out = empty(shape, dtype, memory_format=memory_format) if out is None else out
        return stored(what, "y0 = x0;", shape, [dtype], ([means], ()), {**store, "out": out})
    if not any(n % o for n, o in zip(x.shape[lead:], outputs, strict=True)):
        size = tuple(n // o for n, o in zip(x.shape[lead:], outputs, strict=True))
        if math.prod(size) <= KNOWN:
            given = (size, None, 0, False, True, None)
            return mean_pool(what, x, *given, **store)
    counts = " * ".join(f"(stop{d} - start{d})" for d in range(ndim))
    element = places(lead + ndim, {lead + d: f"i{d}" for d in range(ndim)})
    body = f"""
        typeof_y0 sum = 0;
        LOOPS
            sum += at_x0({element});
        y0 = sum / (float)({counts});"""
    text = _over("i", "x0", lead, ndim, body)
    return stored(what, text, shape, [dtype], ([x], ()), store)


adaptive_avg_pool1d = of_rank(_avg, "adaptive_avg_pool1d", sample="image(1), 2", wrt="x")
adaptive_avg_pool2d = of_rank(
    _avg,
    "adaptive_avg_pool2d",
    torch="_adaptive_avg_pool2d @adaptive_means @format0; _adaptive_avg_pool2d_backward @format1",
    sample="image(2), 2",
    wrt="x",
)
adaptive_avg_pool3d = of_rank(
    _avg,
    "adaptive_avg_pool3d",
    torch="_adaptive_avg_pool3d @adaptive_means; _adaptive_avg_pool3d_backward",
    sample="image(3), 2",
    wrt="x",
)


@repeatable
def _max(
    what: str,
    x: Any,
    output_size: Size,
    return_indices: bool = False,
    **store: Unpack[Store],
) -> Array | tuple[Array, Array]:
    """Returns the greatest elements of as many windows as are wanted.

    Args:
        x: (N, C, H, W) or (C, H, W), in any memory format and dtype.
        output_size: Height and width of the result: a number, or one for each; None keeps x's.
        return_indices: Whether to return (result, indices), as `max_pool2d` does.
        epilogue: As there.
        epilogue_args: As there.
        out: As there.

    Raises:
        ShapeError: Another number of dimensions, sizes that are none.
        DTypeError: No device array.
    """
    ndim = rank_of(what)
    dtype = dtype_of(what, "x", x)
    lead, outputs = _sizes(what, x, ndim, output_size)
    shape = (*x.shape[:lead], *outputs)
    element = places(lead + ndim, {lead + d: f"i{d}" for d in range(ndim)})
    flat = "i0"
    for d in range(1, ndim):
        flat = f"({flat}) * size_x0({lead + d}) + i{d}"
    if return_indices:
        body = f"{greatest('LOOPS', element, flat, dtype)}\ny1 = chosen;"
    else:
        greater = "v > best" if dtype.kind in "biu" else "v > best || v != v"
        body = f"""
            typeof_y0 best = {lowest(dtype)};
            LOOPS {{
                typeof_y0 v = at_x0({element});
                best = {greater} ? v : best;
            }}
            y0 = best;"""
    dtypes = (dtype, np.dtype(np.int64)) if return_indices else (dtype,)
    text = _over("i", "x0", lead, ndim, body)
    return stored(what, text, shape, dtypes, ([x], ()), store)


adaptive_max_pool1d = cast(
    "AdaptivePool", of_rank(_max, "adaptive_max_pool1d", sample="image(1), 2", **MAXIMA)
)
adaptive_max_pool2d = cast(
    "AdaptivePool",
    of_rank(
        _max,
        "adaptive_max_pool2d",
        torch="adaptive_max_pool2d return_indices=True @format0;"
        "adaptive_max_pool2d_backward @format1",
        sample="image(2), 2",
        **MAXIMA,
    ),
)
adaptive_max_pool3d = cast(
    "AdaptivePool",
    of_rank(
        _max,
        "adaptive_max_pool3d",
        torch="adaptive_max_pool3d return_indices=True; adaptive_max_pool3d_backward",
        sample="image(3), 2",
        **MAXIMA,
    ),
)


def _over(counter: str, array: str, lead: int, ndim: int, body: str) -> str:
    """Loops over the places of an array, ``i0``, …, that share some of what an element is of."""
    lines: list[str] = []
    loops: list[str] = []
    for d in range(ndim):
        at, count, all_ = f"coord({lead + d})", f"size({lead + d})", f"size_{array}({lead + d})"
        lines += [
            f"int start{d} = {at} * {all_} / {count};",
            f"int stop{d} = (({at} + 1) * {all_} + {count} - 1) / {count};",
        ]
        i = f"{counter}{d}"
        loops.append(f"for (int {i} = start{d}; {i} < stop{d}; ++{i})")
    return "\n".join([*lines, body.replace("LOOPS", "\n".join(loops))])


def _sizes(what: str, x: Any, ndim: int, output_size: Size) -> tuple[int, tuple[int, ...]]:
    """Dimensions before the windows, and how many windows there are along the others."""
    lead = lead_of(what, x, ndim)
    given = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,)
    given = given * ndim if len(given) == 1 else given
    sizes = tuple(n if g is None else g for g, n in zip(given[:ndim], x.shape[lead:], strict=False))
    if len(given) != ndim or not all(is_integer(n) and n > 0 for n in sizes):
        forms = "a number" if ndim == 1 else f"a number or {ndim} of them"
        raise ShapeError(
            f"{what}: output_size={quoted(output_size)}: expected {forms}, of at least 1"
        )
    # Of no channels there are no means to take, but no maxima either.
    if not math.prod(x.shape[lead if "avg" in what else 1 :]):
        raise ShapeError(f"{what}: x of shape {x.shape} has no elements to choose from")
    return lead, tuple(int(n) for n in sizes)


def _format(x: Any) -> str:
    return "channels_last" if is_channels_last(x.shape, x.strides) else "contiguous"


# --- gradients ------------------------------------------------------------------------------------


@repeatable
def _avg_backward(what: str, grad: Any, x: Any) -> Array:
    """Returns the gradient of `adaptive_avg_pool2d` in x.

    ``grad`` is that of the result; the gradient has x's memory format, and no element of x matters.

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.
    """
    ndim = rank_of(what)
    check_floating(what, "x", x, complexes=True)
    dtype = check_floating(what, "grad", grad, complexes=True)
    lead, _ = _sizes(what, x, ndim, grad.shape[-ndim:])
    check_shape(what, "grad", grad, (*x.shape[:lead], *grad.shape[-ndim:]))
    window = places(lead + ndim, {lead + d: f"o{d}" for d in range(ndim)})
    counts = []
    for d in range(ndim):
        n, o = f"size({lead + d})", f"size_x1({lead + d})"
        counts.append(f"(int)(((o{d} + 1) * {n} + {o} - 1) / {o} - o{d} * {n} / {o})")
    body = f"""
        typeof_x1 sum = 0;
        LOOPS
            sum += at_x1({window}) / (float)({" * ".join(counts)});
        y0 = sum;"""
    expr = "(void)x0;\n" + _over("o", "x1", lead, ndim, body)
    return kernel(expr, what, dtype)(x, grad)


adaptive_avg_pool1d_backward = of_rank(_avg_backward, "adaptive_avg_pool1d_backward")
adaptive_avg_pool2d_backward = of_rank(_avg_backward, "adaptive_avg_pool2d_backward")
adaptive_avg_pool3d_backward = of_rank(_avg_backward, "adaptive_avg_pool3d_backward")
