"""Sums of products by letters: each pair of arrays is one matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import ShapeError, quoted
from clprim.ops.product.matmul import matmul
from clprim.ops.reduction.reduce import sum as reduce_sum
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.strings import kernel

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PRODUCT = "y0 = (typeof_y0)x0 * (typeof_y0)x1;"
_INT32 = np.dtype(np.int32)


@operator(
    autocast="lower",
    onnx="Einsum @equation",
    sample='"ij,jk->ik", x[:, 0, 0], empty((4, 4))',
)
def einsum(equation: str, *operands: Any) -> Array:
    """Returns a sum of products, by Einstein's convention, as `torch.einsum` does.

    Pairs of arrays are contracted one after another, in the order that opt_einsum finds where it is
    installed, else from left to right.

    Args:
        equation: Letters for the dimensions of each array, and behind ``->`` those of the result;
            left out, those that occur once, in order. ``...`` stands for any others, which
            broadcast.
        operands: The arrays.

    Returns:
        An array; it may be a view where nothing is multiplied or added. What lies between products
        is float32 at least; sums of integers of up to 32 bits are int32.

    Raises:
        ShapeError: An equation that does not fit the arrays.
        DTypeError: No device arrays.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> ops.einsum("ij,kj->ik", a, a).get()
        array([[ 5., 14.],
               [14., 50.]], dtype=float32)
    """
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = tuple(operands[0])
    for n, array in enumerate(operands):
        dtype_of("einsum", f"operand {n}", array)
    inputs, output = _letters(equation, operands)
    terms = [_diagonal(equation, t, a) for t, a in zip(inputs, operands, strict=True)]
    sizes: dict[str, int] = {}
    for letters, array in terms:
        for letter, size in zip(letters, array.shape, strict=True):
            if sizes.setdefault(letter, size) != size and 1 not in (size, sizes[letter]):
                raise ShapeError(
                    f"einsum: {quoted(equation)}: {letter!r} is {sizes[letter]} and {size} long"
                )
            sizes[letter] = max(size, sizes[letter]) if size and sizes[letter] else 0
    terms = [(t, _stretch(t, a, sizes)) for t, a in terms]
    dtype = promote([a.dtype for a in operands])
    for pair in _path([t for t, _ in terms], output, sizes):
        chosen = [terms[n] for n in sorted(pair)]
        terms = [term for n, term in enumerate(terms) if n not in pair]
        while len(chosen) > 1:
            kept = {*output}.union(*(t for t, _ in terms), *(t for t, _ in chosen[2:]))
            last = not terms and len(chosen) == 2
            found = _contract(*chosen[0], *chosen[1], kept, sizes, dtype, last)
            chosen[:2] = [found]
        terms.append(chosen[0])
    result: Array
    letters, result = _summed(
        *terms[0], {*output}, dtype if dtype.kind not in "iu" else _wide(dtype)
    )
    axes = [letters.index(letter) for letter in output]
    if axes == list(range(result.ndim)):
        return result
    turned: Array = result.transpose(axes)
    return turned


def _letters(equation: Any, operands: Sequence[Any]) -> tuple[list[str], str]:
    """The letters of each array and of the result, with some in the place of dots."""
    if not isinstance(equation, str):
        raise ShapeError(f"einsum: expected an equation, got {type(equation).__name__}")
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise ShapeError(
            f"einsum: {quoted(equation)} has {len(inputs)} terms for {len(operands)} arrays"
        )
    free = [letter for letter in _LETTERS if letter not in equation]
    dots = 0
    for term, array in zip(inputs, operands, strict=True):
        plain = term.replace("...", "", 1)
        more = array.ndim - len(plain)
        if not all(c in _LETTERS for c in plain) or more < 0 or (more and "..." not in term):
            raise ShapeError(f"einsum: {term!r} does not fit an array of shape {array.shape}")
        dots = max(dots, more)
    hidden = "".join(free[:dots])
    found = []
    for term, array in zip(inputs, operands, strict=True):
        more = array.ndim - len(term.replace("...", "", 1))
        found.append(term.replace("...", hidden[dots - more :], 1))
    if not arrow:
        every = "".join(inputs).replace(".", "")
        right = "..." + "".join(sorted(c for c in {*every} if every.count(c) == 1))
    output = right.replace("...", hidden, 1)
    known = {*"".join(found)}
    if len({*output}) != len(output) or not {*output} <= known:
        raise ShapeError(
            f"einsum: {quoted(equation)}: {right!r} names a letter twice, or an unknown one"
        )
    return found, output


def _diagonal(equation: str, letters: str, array: Any) -> tuple[str, Any]:
    """An array with each letter once: where one occurs twice, its diagonal."""
    once = "".join(dict.fromkeys(letters))
    if once == letters:
        return letters, array
    shape, strides = [], []
    for letter in once:
        places = [d for d, c in enumerate(letters) if c == letter]
        if len({array.shape[d] for d in places}) != 1:
            raise ShapeError(
                f"einsum: {quoted(equation)}: {letter!r} has two lengths in {array.shape}"
            )
        shape.append(array.shape[places[0]])
        strides.append(sum(array.strides[d] for d in places))
    return once, view_of(array, tuple(shape), tuple(strides), array.offset)


def _stretch(letters: str, array: Any, sizes: dict[str, int]) -> Any:
    """The array with dimensions of one element repeated where others are longer."""
    shape = tuple(sizes[letter] for letter in letters)
    if shape == array.shape:
        return array
    strides = tuple(0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True))
    return view_of(array, shape, strides, array.offset)


def _path(terms: list[str], output: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    """Which arrays are contracted when, by their places in the list of those that are left."""
    if len(terms) > 2 and find_spec("opt_einsum") is not None:
        import opt_einsum

        shapes = [tuple(sizes[letter] for letter in t) for t in terms]
        equation = f"{','.join(terms)}->{output}"
        path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True)
        return [tuple(step) for step in path if len(step) > 1]
    # The result of each step goes to the end of the list.
    count = len(terms)
    steps: list[tuple[int, ...]] = [(0, count - n) for n in range(2, count)]
    return [(0, 1), *steps] if count > 1 else []


def _wide(dtype: AnyDType) -> AnyDType:
    """What is between products and sums."""
    if dtype.kind in "iu" and dtype.itemsize < 4:
        return promote([dtype, _INT32])
    return value_dtype(dtype, [dtype])


def _summed(letters: str, array: Any, kept: set[str], dtype: AnyDType) -> tuple[str, Any]:
    """Adds up dimensions whose letters nobody needs."""
    axes = tuple(d for d, letter in enumerate(letters) if letter not in kept)
    if not axes:
        return letters, array
    return "".join(c for c in letters if c in kept), reduce_sum(array, axis=axes, dtype=dtype)


def _contract(
    a: str,
    x: Any,
    b: str,
    y: Any,
    kept: set[str],
    sizes: dict[str, int],
    dtype: AnyDType,
    last: bool,
) -> tuple[str, Any]:
    """Contracts two arrays: letters of both that nobody else needs are added up."""
    wide = _wide(dtype)
    a, x = _summed(a, x, kept | {*b}, wide)
    b, y = _summed(b, y, kept | {*a}, wide)
    batch = [c for c in a if c in b and c in kept]
    inner = [c for c in a if c in b and c not in kept]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    if not inner:
        found = "".join([*batch, *rows, *columns])
        views = [_arranged(t, array, found) for t, array in ((a, x), (b, y))]
        made = promote([x.dtype, y.dtype]) if dtype.kind in "iu" else dtype
        return found, kernel(_PRODUCT, "einsum_product", made if last else wide)(*views)

    def matrix(letters: str, array: Any, *groups: list[str]) -> Any:
        order = [letters.index(c) for group in groups for c in group]
        lead = tuple(sizes[c] for c in groups[0])
        shape = (*lead, *(math.prod(sizes[c] for c in group) for group in groups[1:]))
        return array.transpose(order).reshape(shape)

    left, right = matrix(a, x, batch, rows, inner), matrix(b, y, batch, inner, columns)
    made = dtype if last else wide
    out = None
    if dtype.kind not in "iu" and made != promote([x.dtype, y.dtype]):
        out = new_dense((*left.shape[:-1], right.shape[-1]), made)
    product = matmul(left, right, out=out)
    found = "".join([*batch, *rows, *columns])
    return found, product.reshape(tuple(sizes[c] for c in found))


def _arranged(letters: str, array: Any, wanted: str) -> Any:
    """A view with a dimension for each wanted letter, of one element where there is none."""
    places = [letters.find(c) for c in wanted]
    shape = tuple(1 if at < 0 else array.shape[at] for at in places)
    strides = tuple(0 if at < 0 else array.strides[at] for at in places)
    return view_of(array, shape, strides, array.offset)
