"""Unsigned keys that order as values do, NaN last, and the order of an array along an axis."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.dtypes import AnyDType
from clprim.ops.shared.checks import check_real
from clprim.primitives.order import first_of_keys, order_of_keys
from clprim.primitives.pointwise import Pointwise

_FLOAT = """
    {word} bits = as_{word}(x0 == 0 ? ({real})0 : ({real})x0);  // -0 is 0
    {word} key = x0 != x0 ? ({word})-1 : bits ^ (bits >> {top} ? ({word})-1 : ({word})1 << {top});
    y0 = {keep};
"""


@lru_cache(maxsize=64)
def _keys(dtype: AnyDType, descending: bool) -> tuple[Pointwise, AnyDType, int]:
    """What turns values into keys, their dtype, and how many of their bits count.

    Of floating numbers the sign bit is turned, and all bits of negative ones. What is stored in 16
    bits has zeros at the end of its float32, which are left out.
    """
    name = dtype.name
    bits = {"bool": 1, "bfloat16": 16, "float16": 19}.get(name, 8 * dtype.itemsize)
    word = "ulong" if bits > 32 else "uint"
    if dtype.kind in "bu":
        text = "y0 = x0;"
    elif dtype.kind == "i":
        text = f"y0 = (({word})x0 ^ ({word})1 << {bits - 1}) & ({word})-1 >> {{unused}};"
        text = text.format(unused=(64 if word == "ulong" else 32) - bits)
    else:
        top = 63 if word == "ulong" else 31
        real = "double" if word == "ulong" else "float"
        keep = f"key >> {top + 1 - bits}" if bits < top + 1 else "key"
        text = _FLOAT.format(word=word, real=real, top=top, keep=keep)
    if descending:
        text += f"\ny0 = ~y0 & ({word})-1 >> {(64 if word == 'ulong' else 32) - bits};"
    found = np.dtype(np.uint64 if word == "ulong" else np.uint32)
    return Pointwise(text, name="sort_keys", result_type=found), found, bits


def with_axis(array: Any, axis: int, to: int) -> Array:
    """A view with one axis moved to another place."""
    axes = [d for d in range(array.ndim) if d != axis]
    axes.insert(to % array.ndim, axis)
    return view_of(
        array,
        tuple(array.shape[d] for d in axes),
        tuple(array.strides[d] for d in axes),
        array.offset,
    )


def order_along(what: str, x: Any, axis: int, *, descending: bool) -> Array:
    """Returns which elements come first along an axis, as int32 with that axis last."""
    check_real(what, x)
    keys, bits = _keys_along(x, axis, descending=descending)
    return order_of_keys(what, keys, bits)


def first_along(
    what: str, x: Any, axis: int, count: int, *, descending: bool
) -> tuple[Array, Array | None]:
    """Returns (places, order) of the first ``count`` along an axis; see `first_of_keys`."""
    check_real(what, x)
    keys, bits = _keys_along(x, axis, descending=descending)
    return first_of_keys(what, keys, bits, count)


def _keys_along(x: Any, axis: int, *, descending: bool) -> tuple[Array, int]:
    """Keys with an axis last, and how many of their bits count."""
    moved = with_axis(x, axis, -1)
    kernel, dtype, bits = _keys(x.dtype, descending)
    keys = new_dense(moved.shape, dtype)
    kernel(moved, out=keys)
    return keys, bits
