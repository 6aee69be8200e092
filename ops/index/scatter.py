"""Writing at indices: each place of the result gathers what goes there, in order.

Indices are sorted, and what belongs to one place is then neighbours. So nothing is added
atomically, and results repeat bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.arrays.memory import is_dense
from clprim.call.lines import take_lines
from clprim.call.order import order_of_keys
from clprim.errors import DTypeError, ShapeError
from clprim.ops.index.gather import check_index
from clprim.ops.shared.arguments import dtype_of, is_array, number
from clprim.ops.shared.dims import empty_like, one_axis, whole
from clprim.ops.shared.strings import kernel, lower_bound, places
from clprim.ops.sort.keys import with_axis
from clprim.plan.strides import dense_strides

__all__ = [
    "embedding_backward",
    "gather_backward",
    "index_add",
    "index_copy",
    "index_put",
    "index_select_backward",
    "runs",
    "scatter",
    "scatter_add",
    "scatter_reduce",
]

_UINT32 = np.dtype(np.uint32)
_INT32 = np.dtype(np.int32)


def runs(what: str, index: Any, at: int, places_there: int) -> tuple[Array, Array]:
    """Returns (order, starts) of indices along an axis.

    ``order`` says which index comes first when they are sorted, and ``starts`` where those begin
    that name each place, and at the end where those begin that name none. Negative indices count
    from the end.
    """
    moved = with_axis(index, at, -1)
    keys = new_dense(moved.shape, _UINT32)
    text = "long i = x0; i = i < 0 ? i + w0 : i; y0 = i >= 0 && i < w0 ? (uint)i : (uint)w0;"
    operator = kernel(text, f"{what}_keys", _UINT32)
    operator(moved, np.int64(places_there), out=keys)
    kept = keys.copy()
    order = order_of_keys(what, keys, places_there.bit_length())
    last = index.ndim - 1
    ordered = kernel(f"y0 = at_x1({places(index.ndim, {last: 'x0'})});", what, _UINT32)(order, kept)
    element = f"at_x0({places(index.ndim, {last: 'middle'})})"
    text = lower_bound(f"size_x0({last})", element, f"coord({last})") + "y0 = low;"
    shape = (*moved.shape[:-1], places_there + 1)
    starts = kernel(text, what, _INT32)(ordered, shape=shape)
    return with_axis(order, last, at), with_axis(starts, last, at)


# How several elements become one: the start, a step, the end. A sum begins anew every 64 elements.
_ADD = "block += v; if (++taken % 64 == 0) {{ sum += block; block = 0; }}"
_BEST = "best = !any || v {beats} best || v != v ? v : best; any = true; ++taken;"
_TAKE = {
    "sum": ("typeof_y0 block = 0, sum = {own};", _ADD, "y0 = sum + block;"),
    "mean": (
        "typeof_y0 block = 0, sum = {own};",
        _ADD,
        "y0 = (sum + block) / (taken + {self} == 0 ? 1 : taken + {self});",
    ),
    "prod": ("typeof_y0 product = {own};", "product *= v; ++taken;", "y0 = product;"),
    "amax": ("typeof_y0 best = {own}; bool any = {self};", _BEST, "y0 = best;"),
    "amin": ("typeof_y0 best = {own}; bool any = {self};", _BEST, "y0 = best;"),
    "last": ("typeof_y0 best = {own};", "best = v; ++taken;", "y0 = best;"),
}
_NEUTRAL = {"sum": "0", "mean": "0", "prod": "1", "amax": "0", "amin": "0", "last": "0"}


def _take(
    what: str,
    x: Any,
    at: int,
    index: Any,
    source: Any,
    how: str,
    *,
    include_self: bool = True,
    alpha: float = 1,
    out: Any = None,
) -> Array:
    """Takes elements of ``source`` into those of ``x`` that an index names along an axis.

    ``index`` has as many dimensions as ``x`` and ``source``, or one.
    """
    if out is None:
        out = empty_like(x, x.shape, x.dtype)
    if not x.size:
        return out
    if not index.size:
        kernel("y0 = x0;", "copy", x.dtype)(x, out=out)
        return out
    ndim = x.ndim
    line = index.ndim == 1
    # Another result is refused below, by the operator's name.
    fits = is_array(out) and out.shape == x.shape and out.dtype == x.dtype
    if fits and include_self and alpha == 1 and how != "mean":

        def copy() -> None:
            if out is not x:
                kernel("y0 = x0;", "copy", x.dtype)(x, out=out)

        spread, own = _spread(index, at, source.shape), None if out is x else x
        if take_lines(what, out, spread, source, at, how, copy, own):
            return out
    order, starts = runs(what, index, 0 if line else at, x.shape[at])
    own = f"coord({at})"

    def element(array: str, place: str) -> str:
        return f"at_{array}({place if line else places(ndim, {at: place})})"

    begin, step, end = _TAKE[how]
    self_ = "1" if include_self else "0"
    begin = begin.format(own="x0" if include_self else _NEUTRAL[how], self=self_)
    inside = " && ".join(
        ["true", *(f"coord({d}) < size_x1({d})" for d in range(ndim) if d != at and not line)]
    )
    scale = "v *= w0;" if alpha != 1 else ""
    text = f"""
        {begin}
        long taken = 0;
        if ({inside}) {{
            long first = {element("x2", own)}, last = {element("x2", f"{own} + 1")};
            for (long j = first; j < last; ++j) {{
                long from = {element("x1", "j")};
                typeof_y0 v = at_x3({places(ndim, {at: "from"})});
                {scale}
                {step.format(beats=">" if how == "amax" else "<")}
            }}
        }}
        {end.format(self=self_)}
        {"" if include_self else "y0 = taken == 0 ? x0 : y0;"}
    """
    numbers = (alpha,) if alpha != 1 else ()
    return kernel(text, what, x.dtype)(x, order, starts, source, *numbers, out=out)


def _spread(index: Any, at: int, shape: tuple[int, ...]) -> Any:
    """An index of as many dimensions as the source: a line of indices holds for all lines."""
    if index.ndim == len(shape):
        return index
    strides = tuple(index.strides[0] if d == at else 0 for d in range(len(shape)))
    return view_of(index, shape, strides, index.offset)


def _along(what: str, x: Any, dim: Any, axis: Any, index: Any, src: Any) -> int:
    """Checks the arguments of the scattering operators and returns the axis."""
    dtype_of(what, "x", x)
    check_index(what, "index", index)
    at = one_axis(what, x, dim, axis)
    if is_array(src) and src.dtype != x.dtype:
        raise DTypeError(f"{what}: src is {src.dtype}, x {x.dtype}: expected the same dtype")
    short = [m > n for d, (m, n) in enumerate(zip(index.shape, x.shape, strict=False)) if d != at]
    shapes = [index.shape, x.shape] + ([src.shape] if is_array(src) else [])
    longer = is_array(src) and any(m > n for m, n in zip(index.shape, src.shape, strict=False))
    if len({len(s) for s in shapes}) != 1 or any(short) or longer or not x.ndim:
        raise ShapeError(
            f"{what}: index of shape {index.shape} does not fit x of shape {x.shape}"
            + (f" and src of shape {src.shape}" if is_array(src) else "")
        )
    return at


def scatter(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    src: Any = None,
    *,
    value: Any = None,
    axis: int | None = None,
    reduce: str | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with elements replaced: ``y[index[i, j], j] = src[i, j]`` for the axis 0.

    As `torch.scatter`. Of several that go to one place the last one counts. Negative indices count
    from the end; those that are out of bounds write nothing.

    Args:
        x: An array.
        dim: The axis.
        index: Of integers, with as many dimensions as ``x``.
        src: What is written, at least as long as the index, or a number.
        value: A number instead of ``src``.
        axis: The same as ``dim``, by NumPy's name.
        reduce: "add" or "multiply", to combine with what is there.
        out: Where the result goes; it may be ``x``.

    Raises:
        ShapeError: Shapes that do not fit, an axis that is not there.
        DTypeError: No such arrays.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> index = cp.asarray(np.array([2, 0]))
        >>> ops.scatter(cp.zeros((3,)), 0, index, cp.asarray(np.array([5, 7], np.float32))).get()
        array([7., 0., 5.], dtype=float32)
    """
    how = {None: "last", "add": "sum", "multiply": "prod"}.get(reduce)
    if how is None:
        raise ShapeError(f"scatter: reduce={reduce!r}: expected 'add' or 'multiply'")
    given = value if src is None else src
    at = _along("scatter", x, dim, axis, index, given)
    if not is_array(given):
        given = _filled(index, number("scatter", "value", given), x.dtype)
    return _take("scatter", x, at, index, given, how, out=out)


def _filled(index: Any, value: Any, dtype: Any) -> Array:
    """A number in the shape of an array, without memory of that size."""
    one = new_dense((1,), dtype)
    one.fill(value)
    return view_of(one, index.shape, (0,) * index.ndim, 0)


def scatter_add(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    src: Any = None,
    *,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with elements added: ``y[index[i, j], j] += src[i, j]`` for the axis 0.

    Those that go to one place are added in order, so results repeat bit for bit; see `scatter`.
    """
    at = _along("scatter_add", x, dim, axis, index, src)
    dtype_of("scatter_add", "src", src)
    return _take("scatter_add", x, at, index, src, "sum", out=out)


def scatter_reduce(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    src: Any = None,
    reduce: str = "sum",
    *,
    include_self: bool = True,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with elements taken in by sum, prod, mean, amax or amin; see `scatter`.

    Args:
        x: An array.
        dim: The axis.
        index: Of integers, with as many dimensions as ``x``.
        src: What is taken in, at least as long as the index.
        reduce: How.
        include_self: Whether what is there takes part; where nothing goes, it stays in any case.
        axis: The same as ``dim``, by NumPy's name.
        out: Where the result goes; it may be ``x``.

    Raises:
        ShapeError: Another word for ``reduce``, shapes that do not fit, an axis that is not there.
        DTypeError: No such arrays.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise ShapeError(f"scatter_reduce: reduce={reduce!r}: sum, prod, mean, amax or amin")
    at = _along("scatter_reduce", x, dim, axis, index, src)
    dtype_of("scatter_reduce", "src", src)
    return _take(
        "scatter_reduce", x, at, index, src, reduce, include_self=bool(include_self), out=out
    )


def gather_backward(grad: Any, sizes: Sequence[int], dim: int, index: Any) -> Array:
    """Returns the gradient of `gather` or `take_along_dim` in the array that was read.

    Args:
        grad: Gradient in the result.
        sizes: Shape of the array.
        dim: Along which axis.
        index: As it was then.
    """
    zeros = _zeros(sizes, grad)
    return scatter_add(zeros, dim, index, grad, out=zeros)


def _zeros(sizes: Sequence[int], like: Any) -> Array:
    out = empty_like(like, tuple(sizes), like.dtype)
    out.fill(0)
    return out


# --- whole slices --------------------------------------------------------------------------------


def _slices(what: str, x: Any, dim: Any, axis: Any, index: Any, source: Any) -> int:
    dtype_of(what, "x", x)
    check_index(what, "index", index)
    at = one_axis(what, x, dim, axis)
    dtype = dtype_of(what, "source", source)
    if dtype != x.dtype:
        raise DTypeError(f"{what}: source is {dtype}, x {x.dtype}: expected the same dtype")
    expected = (*x.shape[:at], index.size, *x.shape[at + 1 :])
    if index.ndim != 1 or source.shape != expected:
        raise ShapeError(
            f"{what}: index of shape {index.shape} and source of shape {source.shape} do not fit x "
            f"of shape {x.shape}: expected a line of indices and {expected}"
        )
    return at


def index_add(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    source: Any = None,
    *,
    alpha: float = 1,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with slices added: ``y[index[i]] += alpha * source[i]`` for the axis 0.

    As `torch.index_add`; those that go to one place are added in order.

    Args:
        x: An array.
        dim: The axis.
        index: A line of integers; negative ones count from the end, others out of bounds add
            nothing.
        source: A slice for each index.
        alpha: Times each slice.
        axis: The same as ``dim``, by NumPy's name.
        out: Where the result goes; it may be ``x``.

    Raises:
        ShapeError: Shapes that do not fit, an axis that is not there.
        DTypeError: No such arrays.
    """
    at = _slices("index_add", x, dim, axis, index, source)
    alpha = number("index_add", "alpha", alpha)
    return _take("index_add", x, at, index, source, "sum", alpha=alpha, out=out)


def index_copy(
    x: Any,
    dim: int | None = None,
    index: Any = None,
    source: Any = None,
    *,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns ``x`` with slices replaced, of several for one place by the last; see `index_add`."""
    at = _slices("index_copy", x, dim, axis, index, source)
    return _take("index_copy", x, at, index, source, "last", out=out)


def index_select_backward(grad: Any, sizes: Sequence[int], dim: int, index: Any) -> Array:
    """Returns the gradient of `index_select` in the array that was read; see `gather_backward`."""
    zeros = _zeros(sizes, grad)
    return index_add(zeros, dim, index, grad, out=zeros)


def index_put(
    x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, *, out: Any = None
) -> Array:
    """Returns ``x`` with ``y[indices] = values``, or ``+=`` where ``accumulate`` is set.

    Args:
        x: An array.
        indices: Arrays of integers for its first dimensions, which broadcast together.
        values: What is written, of their shape and that of a slice, or what broadcasts to it.
        accumulate: Whether values are added, those that go to one place in order.
        out: Where the result goes; it may be ``x``.

    Raises:
        ShapeError: More indices than dimensions, shapes that do not fit.
        DTypeError: No such arrays.
    """
    what = "index_put"
    dtype = dtype_of(what, "x", x)
    if not isinstance(indices, tuple | list) or not 0 < len(indices) <= x.ndim:
        raise ShapeError(f"{what}: expected arrays of indices for some of {x.ndim} dimensions")
    for n, index in enumerate(indices):
        check_index(what, f"indices[{n}]", index)
    if dtype_of(what, "values", values) != dtype:
        raise DTypeError(f"{what}: values are {values.dtype}, x {dtype}: expected the same dtype")
    try:
        shape = np.broadcast_shapes(*(index.shape for index in indices))
        whole_shape = (*shape, *x.shape[len(indices) :])
        if np.broadcast_shapes(values.shape, whole_shape) != whole_shape:
            raise ValueError
    except ValueError:
        given = ", ".join(str(index.shape) for index in indices)
        raise ShapeError(
            f"{what}: indices of {given} and values of {values.shape} do not fit x of {x.shape}"
        ) from None
    lines = ["long place = 0, inside = 1;"]
    for n in range(len(indices)):
        lines.append(f"long i{n} = x{n}; i{n} = i{n} < 0 ? i{n} + w{n} : i{n};")
        lines.append(f"inside = inside && i{n} >= 0 && i{n} < w{n}; place = place * w{n} + i{n};")
    count = len(indices)
    sizes = [np.int64(n) for n in x.shape[:count]]
    total = int(np.prod(x.shape[:count], dtype=np.int64))
    text = "\n".join([*lines, f"y0 = inside ? place : w{count};"])
    flat = new_dense(shape, np.dtype(np.int64))
    kernel(text, what, flat.dtype)(*indices, *sizes, np.int64(total), out=flat)
    spread = new_dense(whole_shape, dtype)
    kernel("y0 = x0;", "copy", dtype)(values, out=spread)
    rest = x.shape[count:]
    dense = new_dense(x.shape, dtype)
    kernel("y0 = x0;", "copy", dtype)(x, out=dense)
    found = _take(
        what,
        dense.reshape((total, *rest)),
        0,
        flat.reshape(-1),
        spread.reshape((flat.size, *rest)),
        "sum" if accumulate else "last",
    ).reshape(x.shape)
    if out is None:
        return found
    kernel("y0 = x0;", "copy", dtype)(found, out=out)
    return out


def embedding_backward(
    grad: Any,
    indices: Any,
    num_weights: int,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
) -> Array:
    """Returns the gradient of `embedding` in its table, (num_weights, …).

    Args:
        grad: Gradient in the result.
        indices: As they were then.
        num_weights: Rows of the table.
        padding_idx: A row whose gradient is zero; -1 for none.
        scale_grad_by_freq: Whether a row's gradient is divided by how often it was read.

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: No such arrays.
    """
    what = "embedding_backward"
    dtype = dtype_of(what, "grad", grad)
    check_index(what, "indices", indices)
    rows = whole(what, "num_weights", num_weights, 1)
    if grad.shape[: indices.ndim] != indices.shape:
        raise ShapeError(f"{what}: grad {grad.shape} does not fit indices {indices.shape}")
    row = grad.shape[indices.ndim :]
    flat = new_dense(indices.shape, np.dtype(np.int64))
    padding = whole(what, "padding_idx", padding_idx)
    text = "long i = x0; i = i < 0 ? i + w0 : i; y0 = i == w1 ? w0 : i;"
    kernel(text, what, flat.dtype)(indices, np.int64(rows), np.int64(padding), out=flat)
    dense = grad
    if not is_dense(grad, range(grad.ndim)):
        dense = new_dense(grad.shape, dtype)
        kernel("y0 = x0;", "copy", dtype)(grad, out=dense)
    shape = (flat.size, *row)
    lines = view_of(
        dense, shape, dense_strides(shape, dtype.itemsize, range(len(shape))), dense.offset
    )
    zeros = new_dense((rows, *row), dtype)
    zeros.fill(0)
    how = "mean" if scale_grad_by_freq else "sum"
    return _take(
        what,
        zeros,
        0,
        flat.reshape(-1),
        lines,
        how,
        include_self=not scale_grad_by_freq,
        out=zeros,
    )
