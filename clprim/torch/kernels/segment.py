"""Reductions of segments, whose lengths or bounds are tensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.functions.creation import arange
from clprim.torch.copying import duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel

# What a segment starts with, how an element is added, and what comes of it.
_STEPS = {
    "sum": ("0", "sum += v;"),
    "mean": ("0", "sum += v;"),
    "prod": ("1", "sum *= v;"),
    "max": ("-INFINITY", "sum = v != v || v > sum ? v : sum;"),
    "min": ("INFINITY", "sum = v != v || v < sum ? v : sum;"),
}


def _bounds(x: Array, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> tuple[Any, Any]:
    """Where segments begin and end, (outer, segments)."""
    given = lengths if offsets is None else offsets
    if given is None:
        raise RuntimeError("segment_reduce: expected lengths or offsets")
    if given.dtype.kind not in "iu" or not given.ndim or given.shape[:-1] != x.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce: expected lengths or offsets of integers for axis={axis} of data "
            f"{x.shape}, got {given.dtype} of shape {given.shape}"
        )
    lines = given.astype("int64").reshape(math.prod(x.shape[:axis]), given.shape[-1])
    if offsets is not None:
        return duplicate(lines[:, :-1], "contiguous"), duplicate(lines[:, 1:], "contiguous")
    if not unsafe and lines.size:
        if int(ops.amin(lines).get()) < 0:
            raise RuntimeError("segment_reduce: lengths contains negative value!")
        if not bool((ops.sum(lines, 1).get() == x.shape[axis]).all()):
            raise RuntimeError(
                f"segment_reduce: expected lengths that add up to {x.shape[axis]}, the size of "
                f"dimension {axis}"
            )
    ends = ops.cumsum(lines, 1) if lines.size else lines
    return apply("{a} - {b}", ends, lines, kind=torch.int64), ends


def _lines(x: Array, axis: int) -> Array:
    """(outer, axis, inner)."""
    shape = (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
    return duplicate(x, "contiguous").reshape(shape)


def _checked(x: Array, reduce: str, axis: int) -> int:
    if reduce not in _STEPS:
        raise RuntimeError(
            f"segment_reduce: reduce={reduce!r}: expected one of {', '.join(_STEPS)}"
        )
    if not kind_of(x.dtype).is_floating_point or not -x.ndim <= axis < x.ndim:
        raise RuntimeError(
            f"segment_reduce: expected floating numbers and one of their axes, got {x.dtype} of "
            f"shape {x.shape} and axis={axis}"
        )
    return axis % x.ndim


@kernel("segment_reduce")
def _segment_reduce(
    x: Array,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    axis = _checked(x, reduce, axis)
    if indices is not None:
        raise RuntimeError("segment_reduce: indices are not supported; give lengths or offsets")
    begins, ends = _bounds(x, lengths, offsets, axis, unsafe)
    lines = _lines(x, axis)
    shape = (lines.shape[0], begins.shape[1], lines.shape[2])
    whole = (*x.shape[:axis], begins.shape[1], *x.shape[axis + 1 :])
    start, step = _STEPS[reduce]
    result = "sum"
    if reduce == "mean":
        empty = "sum" if initial is not None else "NAN"
        result = f"begin < end ? sum / (typeof_y0)(end - begin) : {empty}"
    if initial is not None:
        start = "{d}"
    expr = f"""
        long begin = at_{{b}}(coord(0), coord(1)), end = at_{{c}}(coord(0), coord(1));
        typeof_y0 sum = {start};
        for (long k = begin; k < end; ++k) {{{{
            typeof_y0 v = at_{{a}}(coord(0), k, coord(2));
            {step}
        }}}}
        y0 = {result};"""
    given = (lines, begins, ends, *(() if initial is None else (float(initial),)))
    if not math.prod(shape):
        return full(whole, 0, x.dtype)
    return apply(expr, *given, kind=kind_of(x.dtype), shape=shape).reshape(whole)


@kernel("_segment_reduce_backward")
def _segment_reduce_backward(
    grad: Array,
    output: Array,
    x: Array,
    reduce: str,
    *,
    lengths: Any = None,
    offsets: Any = None,
    axis: int = 0,
    initial: Any = None,
) -> Any:
    axis = _checked(x, reduce, axis)
    begins, ends = _bounds(x, lengths, offsets, axis, True)
    if not grad.size or not x.size:
        return full(x.shape, 0, x.dtype)
    lines = _lines(x, axis)
    places = arange(lines.shape[1], dtype="int64").reshape(1, -1)
    places = apply("{a}", places, kind=torch.int64, shape=lines.shape[:2])
    segment = ops.searchsorted(ends, places, right=True)
    # An equal element may occur more than once: all share the gradient.
    start = "1" if initial is None else repr(float(initial))
    given = [segment, begins, ends, _lines(grad, axis)]
    loop = ""
    slope = {"sum": "g", "mean": "g / (typeof_y0)(end - begin)"}.get(reduce, "")
    if not slope:
        given.append(lines)
        read = "v = at_{e}(coord(0), k, coord(2));"
        if reduce == "prod":
            step, slope = "rest *= k == coord(1) ? 1 : v;", "g * rest"
        else:
            given.append(_lines(output, axis))
            same = "(v != v || v == at_{f}(coord(0), s, coord(2)))"
            step = f"members += {same};"
            slope = f"{same} ? g / (typeof_y0)members : 0"
        loop = f"for (long k = begin; k < end; ++k) {{{{ {read} {step} }}}}"
        loop += "v = at_{e}(coord(0), coord(1), coord(2));"
    expr = f"""
        long s = at_{{a}}(coord(0), coord(1));
        bool inside = s < size_{{b}}(1);
        s = inside ? s : 0;
        long begin = at_{{b}}(coord(0), s), end = at_{{c}}(coord(0), s), members = 0;
        inside = inside && coord(1) >= begin;
        end = inside ? end : begin;
        typeof_y0 g = at_{{d}}(coord(0), s, coord(2)), v = 0, rest = (typeof_y0){start};
        {loop}
        y0 = inside ? ({slope}) : 0;"""
    return apply(expr, *given, kind=kind_of(x.dtype), shape=lines.shape).reshape(x.shape)
