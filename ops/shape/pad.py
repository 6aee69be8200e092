"""Borders of any width around arrays, and back: `torch.nn.functional.pad` with all its modes.

A constant border is filled, and what is inside copied: on a CPU by one walk along the result, else
each is a plain run through memory. Other borders are computed from coordinates, and so are their
gradients: each element of the input adds up the places that it was copied to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_shape, dtype_of, number
from clprim.ops.shared.dims import empty_like, whole
from clprim.ops.shared.strings import kernel, places
from clprim.primitives import arithmetic
from clprim.primitives.pieces import put_together

_MODES = ("constant", "reflect", "symmetric", "replicate", "circular")


@operator(
    torch="""
        constant_pad_nd @format0;
        reflection_pad1d reflection_pad2d reflection_pad3d mode='reflect' @format0;
        reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward
            mode='reflect' @pad_gradient @format1;
        replication_pad1d replication_pad2d replication_pad3d mode='replicate' @format0;
        replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
            mode='replicate' @pad_gradient @format1
    """,
    sample='x, (1, 1), "reflect"',
    wrt="x",
)
@repeatable
def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """Returns an array with a border.

    Args:
        x: A device array.
        pad: How many elements before and after the last dimension, then the one before it, …:
            ``(left, right, top, bottom)``. Negative numbers take elements away.
        mode: ``"constant"``; ``"reflect"`` mirrors at the first and the last element, without
            repeating these, and ``"symmetric"`` beside them, which are there twice; ``"replicate"``
            repeats them; ``"circular"`` goes on at the other side.
            Borders wider than x mirror again and again, or go around as often as is needed.
        value: Of a constant border; 0 where it is None.

    Returns:
        An array in the memory format of x.

    Raises:
        ShapeError: An odd number of sizes, or more than x has dimensions; a border that takes more
            away than there is, or around no elements.
        DefinitionError: Another mode, or a value beside one that has none.
        DTypeError: No device array, sizes that are no integers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([1, 2, 3]))
        >>> ops.pad(x, (1, 2)).get()
        array([0., 1., 2., 3., 0., 0.], dtype=float32)
        >>> ops.pad(x, (2, 1), mode="reflect").get()
        array([3., 2., 1., 2., 3., 2.], dtype=float32)
    """
    what = "pad"
    dtype = dtype_of(what, "x", x)
    borders = _borders(what, x.shape, pad, mode)
    if mode != "constant":
        if value is not None:
            raise DefinitionError(
                f"{what}: value={quoted(value)} beside mode={quoted(mode)}, which has none"
            )
        if mode == "circular":  # what is cut off does not come back at the other end
            x, borders = _cropped(x, borders), _outside(borders)
        shape = tuple(
            n + before + after for n, (before, after) in zip(x.shape, borders, strict=True)
        )
        return _mirrored(x, shape, borders, mode)
    fill = number(what, "value", 0 if value is None else value)
    x = _cropped(x, borders)
    borders = _outside(borders)
    shape = _padded(x.shape, borders)
    out = empty_like(x, shape, dtype)
    if not x.size:
        return out.fill(fill)
    if put_together(what, out, [(x, [before for before, _ in borders])], fill):
        return out
    inner = out
    for d, (before, after) in enumerate(borders):
        n = x.shape[d]
        for start, size in ((0, before), (before + n, after)):
            if size:
                _part(inner, d, start, size).fill(fill)
        inner = _part(inner, d, before, n)
    arithmetic.copy(x, out=inner)
    return out


@repeatable
def pad_backward(
    grad: Any, input_shape: Sequence[int], pad: Sequence[int], mode: str = "constant"
) -> Array:
    """Returns the gradient of `pad` in x; of a constant border it is a view of grad.

    ``input_shape`` is that of x, all else as in the call.

    Raises:
        ShapeError, DefinitionError, DTypeError: As `pad`, and of a grad of another shape.
    """
    what = "pad_backward"
    dtype_of(what, "grad", grad)
    sizes = tuple(whole(what, "input_shape", n, 0) for n in input_shape)
    borders = _borders(what, sizes, pad, mode)
    shape = _padded(sizes, borders)
    check_shape(what, "grad", grad, shape)
    if mode in ("constant", "circular"):
        if mode == "constant":
            inner = _cropped(grad, [(-max(0, b), -max(0, a)) for b, a in borders])
        else:
            kept = _padded(sizes, [(min(0, b), min(0, a)) for b, a in borders])
            inner = _gathered(grad, kept, _outside(borders), mode)
        if all(b >= 0 and a >= 0 for b, a in borders):
            return inner
        outer = [n for b, a in reversed(borders) for n in (max(0, -b), max(0, -a))]
        return _with_border(inner, outer)
    return _gathered(grad, sizes, borders, mode)


_with_border = pad


def _borders(what: str, shape: Sequence[int], pad: Any, mode: str) -> list[tuple[int, int]]:
    """Elements before and after each dimension."""
    if mode not in _MODES:
        raise DefinitionError(f"{what}: mode={quoted(mode)} is unknown; expected one of {_MODES}")
    if not isinstance(pad, Sequence | np.ndarray):
        raise DTypeError(f"{what}: pad={quoted(pad)}: expected a sequence of integers")
    given = [whole(what, "pad", n) for n in pad]
    if len(given) % 2 or len(given) > 2 * len(shape):
        raise ShapeError(
            f"{what}: pad={quoted(pad)}: expected two numbers for each of at most {len(shape)} "
            "dimensions"
        )
    pairs = [(given[k], given[k + 1]) for k in range(0, len(given), 2)]
    borders = [(0, 0)] * (len(shape) - len(pairs)) + pairs[::-1]
    for n, border in zip(shape, borders, strict=True):
        empty = not n and mode != "constant" and max(border) > 0
        if empty or max(border) > 1 << 40 or min(sum(border), *border) < -n:
            raise ShapeError(
                f"{what}: a border of {border} around a dimension of {n} elements cannot be made "
                f"by mode={quoted(mode)}"
            )
    return borders


def _outside(borders: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The borders without what they cut off."""
    return [(max(0, before), max(0, after)) for before, after in borders]


def _padded(sizes: Sequence[int], borders: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(n + before + after for n, (before, after) in zip(sizes, borders, strict=True))


def _cropped(x: Any, borders: Sequence[tuple[int, int]]) -> Any:
    for d, (before, after) in enumerate(borders):
        start = max(0, -before)
        size = x.shape[d] - start - max(0, -after)
        if size != x.shape[d]:
            x = _part(x, d, start, size)
    return x


def _part(x: Any, d: int, start: int, size: int) -> Array:
    shape = (*x.shape[:d], size, *x.shape[d + 1 :])
    return view_of(x, shape, x.strides, x.offset + (start * x.strides[d] if size else 0))


# Where an element of the result, of coordinate c - before, comes from; n elements are there.
_SOURCES = {
    "reflect": "{c} = {c} < 0 ? -{c} : {c}; {c} = {c} >= {n} ? 2 * ({n} - 1) - {c} : {c};",
    "symmetric": "{c} = {c} < 0 ? -{c} - 1 : {c}; {c} = {c} >= {n} ? 2 * {n} - 1 - {c} : {c};",
    "replicate": "{c} = clamp({c}, (long)0, {n} - 1);",
    "circular": "{c} = {c} < 0 ? {c} + {n} : {c}; {c} = {c} >= {n} ? {c} - {n} : {c};",
}
# Of a border wider than the array, whose pattern has {n}, 2 {n} or 2 ({n} - 1) elements.
_AGAIN = {
    "reflect": "long p{c} = 2 * {n} - 2; {c} = ({c} % p{c} + p{c}) % p{c};"
    " {c} = {c} < {n} ? {c} : p{c} - {c};",
    "symmetric": "long p{c} = 2 * {n}; {c} = ({c} % p{c} + p{c}) % p{c};"
    " {c} = {c} < {n} ? {c} : p{c} - 1 - {c};",
    "circular": "{c} = ({c} % {n} + {n}) % {n};",
}


def _mode(mode: str, n: int) -> str:
    """That of one dimension: a single element has no other to mirror."""
    return "replicate" if mode == "reflect" and n == 1 else mode


def _turns(mode: str, n: int, border: tuple[int, int]) -> int:
    """How often the pattern of a dimension begins anew on the wider side."""
    period = {"circular": n, "symmetric": 2 * n}.get(mode, max(2 * (n - 1), 1))
    reach = max(border) + {"circular": 0, "symmetric": n}.get(mode, n - 1)
    return 1 if mode == "replicate" else max(1, -(-reach // period))


def _mirrored(x: Any, shape: tuple[int, ...], borders: Any, mode: str) -> Array:
    padded = [d for d, border in enumerate(borders) if border != (0, 0)]
    lines = []
    for k, d in enumerate(padded):
        own = _mode(mode, x.shape[d])
        table = _SOURCES if _turns(own, x.shape[d], borders[d]) == 1 else _AGAIN
        lines.append(f"long c{d} = coord({d}) - (long)w{k}, n{d} = size_x0({d});")
        lines.append(table[own].format(c=f"c{d}", n=f"n{d}"))
    element = places(x.ndim, {d: f"c{d}" for d in padded})
    expr = "\n".join([*lines, f"y0 = at_x0({element});"])
    before = [np.int64(borders[d][0]) for d in padded]
    return kernel(expr, "pad", x.dtype)(x, *before, shape=shape)


def _gathered(grad: Any, sizes: tuple[int, ...], borders: Any, mode: str) -> Array:
    """The gradient: every turn of a dimension's pattern holds a copy of an element, or two."""
    padded = [d for d, border in enumerate(borders) if border != (0, 0)]
    lines: list[str] = []
    loops: list[str] = []
    closed = 0
    for k, d in enumerate(padded):
        own = _mode(mode, sizes[d])
        turns = _turns(own, sizes[d], borders[d])
        i, n, out = f"coord({d})", f"size({d})", f"size_x0({d})"
        lines.append(f"long i{d} = {i}, n{d} = {n}, p{d} = w{k}, all{d} = {out};")
        if own == "replicate":
            lines += [
                f"long from{d} = i{d} == 0 ? 0 : max(i{d} + p{d}, (long)0);",
                f"long to{d} = i{d} == n{d} - 1 ? all{d} - 1 : min(i{d} + p{d}, all{d} - 1);",
            ]
            loops.append(f"for (long c{d} = from{d}; c{d} <= to{d}; ++c{d})")
            continue
        closed += 1
        if own == "circular":
            loops += [
                f"for (int t{d} = -{turns}; t{d} <= {turns}; ++t{d}) {{",
                f"long c{d} = p{d} + i{d} + t{d} * n{d};",
                f"if (c{d} < 0 || c{d} >= all{d}) continue;",
            ]
            continue
        # Odd turns run backwards.
        loops += [
            f"for (int t{d} = -{2 * turns}; t{d} <= {2 * turns}; ++t{d}) {{",
            f"bool odd{d} = (t{d} & 1) != 0;",
        ]
        if own == "symmetric":
            loops += [
                f"long c{d} = p{d} + t{d} * n{d} + (odd{d} ? n{d} - 1 - i{d} : i{d});",
                f"if (c{d} < 0 || c{d} >= all{d}) continue;",
            ]
            continue
        # The array's ends belong to even ones alone.
        loops += [
            f"long c{d} = p{d} + (t{d} + odd{d}) * (n{d} - 1) + (odd{d} ? -i{d} : i{d});",
            f"if (c{d} < 0 || c{d} >= all{d} || (odd{d} && (i{d} == 0 || i{d} == n{d} - 1)))"
            " continue;",
        ]
    place = places(grad.ndim, {d: f"c{d}" for d in padded})
    expr = "\n".join(
        [*lines, "typeof_x0 sum = 0;", *loops, f"sum += at_x0({place});", "}" * closed, "y0 = sum;"]
    )
    before = [np.int64(borders[d][0]) for d in padded]
    operator = kernel(expr, "pad_backward", grad.dtype)
    return operator(grad, *before, shape=sizes)
