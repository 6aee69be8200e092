"""Attention over keys and values in a static cache, of which an array says how many are there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.arrays.creation import asarray, zeros
from clprim.arrays.memory import is_dense
from clprim.dtypes import as_dtype
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.attention.fused import attend_static
from clprim.ops.attention.problem import Problem
from clprim.ops.index.gather import check_index
from clprim.ops.index.scatter import index_copy
from clprim.ops.shared.checks import check_dtype, check_shape, dtype_of, is_array, real
from clprim.ops.shared.dims import empty_like, whole
from clprim.ops.shared.strings import kernel
from clprim.primitives.reduction import Reduction

# Bound: a window that hides nothing, which added to a place is still an int.
_ALL = 1 << 30


def stored_as(what: str, dtype: Any) -> str:
    """Returns the name of a dtype of storage."""
    try:
        name = str(as_dtype(dtype))
    except DTypeError:
        name = quoted(dtype)
    if name not in ("float32", "float16", "bfloat16", "int8"):
        raise DTypeError(f"{what}: dtype is {name}, expected float32, float16, bfloat16 or int8")
    return name


class KeyValueCache:
    """Memory for the keys and values of a text's tokens, of every layer, written as it grows.

    Args:
        layers: How many layers there are.
        batch: How many texts.
        heads: Heads of keys, of which several heads of queries may share one.
        length: How many tokens there is room for.
        size: Elements of a head.
        dtype: Of storage: float32; float16 or bfloat16, which take half the memory; or int8, a
            quarter: the codes of each token and head have a scale, four more bytes behind them.

    Attributes:
        keys: (layers, batch, heads, length, size), of int8 size + 4; zeros at first.
        values: Likewise.

    Raises:
        ShapeError: A size below 1.
        DTypeError: Another dtype.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> cache = ops.KeyValueCache(1, 1, 1, 8, 2, dtype="float32")
        >>> k = cp.asarray(np.float32([[[[1, 2], [3, 4]]]]))
        >>> keys, values = cache.write(0, k, k, 0)
        >>> query = cp.zeros((1, 1, 1, 2))
        >>> ops.scaled_dot_product_attention(query, keys, values, length=2).get()
        array([[[[2., 3.]]]], dtype=float32)
    """

    def __init__(
        self,
        layers: int,
        batch: int,
        heads: int,
        length: int,
        size: int,
        dtype: Any = "float16",
    ) -> None:
        what = "KeyValueCache"
        given = {"layers": layers, "batch": batch, "heads": heads, "length": length, "size": size}
        shape = tuple(whole(what, label, n, 1) for label, n in given.items())
        kind = as_dtype(stored_as(what, dtype))
        shape = (*shape[:-1], shape[-1] + _behind(kind))
        self.keys, self.values = zeros(shape, kind), zeros(shape, kind)

    @classmethod
    def over(cls, keys: Array, values: Array) -> KeyValueCache:
        """Returns a cache of memory that is there, as a compiled function gets it as arguments."""
        found = cls.__new__(cls)
        found.keys, found.values = keys, values
        return found

    @property
    def length(self) -> int:
        """How many tokens there is room for."""
        return int(self.keys.shape[-2])

    def __getitem__(self, layer: int) -> tuple[Array, Array]:
        """Returns keys and values of a layer, (batch, heads, length, size) each."""
        return self.keys[layer], self.values[layer]

    def write(self, layer: int, key: Any, value: Any, position: Any) -> tuple[Array, Array]:
        """Writes keys and values of some tokens, and returns all of the layer.

        Args:
            layer: Which one.
            key: (batch, heads, L, size), of a floating dtype.
            value: Likewise.
            position: Of the first token, a number or an array of one integer, or of every token,
                integers (L,), or of every text's (batch, L). What is behind the last place is not
                written.
        """
        what = "KeyValueCache.write"
        keys, values = found = self[layer]
        for label, array in {"key": key, "value": value}.items():
            if dtype_of(what, label, array).kind in "biu":
                raise DTypeError(f"{what}: {label} is {array.dtype}, expected a floating dtype")
            size = keys.shape[-1] - _behind(keys.dtype)
            expected = (*keys.shape[:2], key.shape[-2] if key.ndim else 1, size)
            if array.shape != expected:
                raise ShapeError(f"{what}: {label} has shape {array.shape}, expected {expected}")
        count = key.shape[-2]
        places = _whole_numbers(what, "position", position)
        apart = (keys.shape[0], count)
        if places.shape not in ((1,), (count,), apart):
            raise ShapeError(
                f"{what}: position has shape {places.shape}, expected ({count},) or {apart}"
            )
        if places.shape == (1,):
            places = _places(places, shape=(count,))
        if places.ndim == 1:
            for there, new in ((keys, key), (values, value)):
                index_copy(there, 2, places, _stored(new, there.dtype), out=there)
            return found
        # All texts' memory is one line of rows.
        rows = _rows(places[:, None], self.length, shape=(*keys.shape[:2], count)).reshape((-1,))
        for there, new in ((keys, key), (values, value)):
            if not is_dense(there, range(there.ndim)):
                raise ShapeError(f"{what}: places of every text need a cache without gaps")
            flat = there.reshape((-1, there.shape[-1]))
            lines = _stored(new, there.dtype).reshape((-1, there.shape[-1]))
            index_copy(flat, 0, rows, lines, out=flat)
        return found


def _behind(dtype: Any) -> int:
    """Elements behind a row's: bytes of what its codes are multiplied with."""
    return 4 if dtype == np.int8 else 0


_largest = Reduction(
    "y0 = fabs(x0);", init="reduce_y0 = 0;", step="reduce_y0 = fmax(reduce_y0, y0);",
    name="largest", result_type=np.float32,
)  # fmt: skip
_coded = kernel(
    "long n = coord(3), left = n - size_x0(3); float scale = x1 / 127;"
    " float code = left < 0 && x1 > 0 ? (float)at_x0(coord(0), coord(1), coord(2), n) / scale : 0;"
    " y0 = left < 0 ? (int)rint(code) : as_int(scale) >> (8 * left);",
    "code", np.int8,
)  # fmt: skip
_decoded = kernel(
    "long n = size(3);"
    " uint scale = 0; for (int b = 3; b >= 0; --b)"
    " scale = scale << 8 | (uchar)at_x0(coord(0), coord(1), coord(2), n + b);"
    " y0 = at_x0(coord(0), coord(1), coord(2), coord(3)) * as_float(scale);",
    "decode", np.float32,
)  # fmt: skip


def _stored(array: Any, dtype: Any) -> Any:
    if dtype == np.int8:
        shape = (*array.shape[:-1], array.shape[-1] + _behind(dtype))
        return _coded(array, _largest(array, axis=-1, keepdims=True), shape=shape)
    return array if array.dtype == dtype else kernel("y0 = x0;", "copy", dtype)(array)


_places = kernel("y0 = x0 + index;", "places", np.int32)
_rows = kernel(
    "long head = coord(0) * size(1) + coord(1), room = w0;"
    " y0 = x0 >= 0 && x0 < room ? head * room + x0 : LONG_MAX;",
    "rows", np.int64,
)  # fmt: skip


def _whole_numbers(what: str, label: str, given: Any) -> Any:
    """An array of integers, or a number as one, which a kernel reads where it runs."""
    if not is_array(given):
        return asarray(np.array([whole(what, label, given, 0)], np.int32))
    check_index(what, label, given)
    return given.reshape((1,)) if given.ndim == 0 else given


class Static(NamedTuple):
    """What `scaled_dot_product_attention` is told of a static cache."""

    length: Any
    is_causal: Any
    scale: Any
    enable_gqa: bool
    window: Any
    softcap: Any
    slopes: Any
    sink: Any
    score: Any
    score_args: Any


def attention_of_static(arrays: tuple[Any, Any, Any], told: Static) -> Array:
    """Computes `scaled_dot_product_attention` over the first keys."""
    what = "scaled_dot_product_attention"
    query, key, value = arrays
    seen, cap = _limits(what, told)
    for label, array in {"key": key, "value": value}.items():
        kind = dtype_of(what, label, array)
        if kind.kind in "biu" and not key.dtype == value.dtype == np.int8:
            raise DTypeError(f"{what}: {label} is {kind}, expected a floating dtype or both int8")
    if getattr(query, "ndim", 0) != 4:
        raise ShapeError(f"{what}: length= needs a query of shape (N, heads, L, E)")
    if key.dtype == np.int8:
        key, value = (a[..., : -_behind(a.dtype)] for a in (key, value))
    options = None, 0.0, False, told.scale, told.enable_gqa, True
    p = Problem(what, (query, key, value), *options).scored(what, told.score, told.score_args)
    slopes, sink = told.slopes, told.sink
    lengths = _whole_numbers(what, "length", told.length)
    if lengths.shape not in ((1,), query.shape[:1]):
        raise ShapeError(
            f"{what}: length has shape {lengths.shape}, expected (1,) or {query.shape[:1]}"
        )
    for label, array in {"slopes": slopes, "sink": sink}.items():
        if array is not None:
            check_dtype(what, label, array, np.dtype(np.float32))
            check_shape(what, label, array, p.full[1:2])
    step = (0,) if lengths.size == 1 else lengths.strides
    out = empty_like(query, (*query.shape[:-1], value.shape[-1]), p.dtype)
    if not out.size:
        return out
    if not p.full[-1]:
        out.fill(0)
        return out
    sums = new_dense(query.shape[:-1], p.wide)
    column = view_of(sums, (*sums.shape, 1), (*sums.strides, 0), sums.offset)
    counts = view_of(lengths, query.shape[:1], step, lengths.offset)
    ones, none = (1,) * (p.query.ndim - 1), (0,) * (p.query.ndim - 1)
    each = view_of(counts, (*counts.shape, *ones), (*step, *none), counts.offset)
    numbers = p.scale, seen, cap
    given = [p.query, p.key, p.value, each]
    if slopes is not None or sink is not None:
        bias = _bias(slopes, sink, p.full[1])
        rows = view_of(bias, (*query.shape[:-1], 2), (0, 8, 0, 4), bias.offset)
        given.append(p.split(rows))
    causal, results = bool(told.is_causal), (p.split(out), p.split(column))
    if attend_static(given, causal, numbers, *results, p.score):
        return out
    return _composed(p, arrays, counts, numbers, told)


def _limits(what: str, told: Static) -> tuple[int, float]:
    """Checks how many keys a query sees, and at what scores are capped; returns both."""
    cap, window = real(what, "softcap", told.softcap), told.window
    if not 0 <= cap < float("inf"):
        raise DefinitionError(f"{what}: softcap={told.softcap}: expected a number of at least 0")
    if window is not None and not told.is_causal:
        raise DefinitionError(f"{what}: window={quoted(window)} needs is_causal=True")
    if told.slopes is not None and not told.is_causal:
        raise DefinitionError(f"{what}: slopes= needs is_causal=True")
    if told.score is not None and (cap or told.slopes is not None):
        raise DefinitionError(f"{what}: score= goes without softcap= and slopes=, which it can be")
    return _ALL if window is None else min(_ALL, whole(what, "window", window, 1)), cap


def _bias(slopes: Any, sink: Any, heads: int) -> Any:
    """A slope and a sink of each head, (heads, 2); what is not there changes nothing."""
    given = [a[:, None] for a in (slopes, sink) if a is not None]
    slope = "x0" if slopes is not None else "0"
    last = f"x{len(given) - 1}" if sink is not None else "-INFINITY"
    text = f"y0 = coord(1) ? {last} : {slope};"
    return kernel(text, "bias", np.float32)(*given, shape=(heads, 2))


_distances = kernel("y0 = x0 * (coord(3) - coord(2) - x1 + size(2));", "distances", np.float32)


_from_the_end = kernel("y0 = x0 - w0;", "past", np.int32)


def _composed(
    p: Problem,
    arrays: tuple[Any, Any, Any],
    counts: Any,
    numbers: tuple[float, int, float],
    told: Static,
) -> Array:
    """Likewise with a mask, where a device has no kernel for it."""
    from clprim import ops  # after what this is a part of

    query, key, value = arrays
    if key.dtype == np.int8:
        sizes = (a.shape[-1] - _behind(a.dtype) for a in (key, value))
        key, value = (
            _decoded(a, shape=(*a.shape[:-1], n)) for a, n in zip((key, value), sizes, strict=True)
        )
    key, value = (_stored(a, p.dtype) for a in (key, value))
    scale, seen, cap = numbers
    causal, slopes = bool(told.is_causal), told.slopes
    past = _from_the_end(counts, query.shape[-2])
    window = (seen - 1, -1) if causal and seen < _ALL else (-1, -1)
    mask = None
    if slopes is not None:
        mask = _distances(slopes[:, None, None], counts[:, None, None, None], shape=p.full)
    found = ops.cached_attention(
        query, key, value, mask, scale=scale, softcap=cap, is_causal=causal,
        past=past, lengths=counts, window=window, enable_gqa=told.enable_gqa,
        sink=told.sink, score=told.score, score_args=told.score_args,
    )  # fmt: skip
    assert not isinstance(found, tuple)  # no scores were asked for
    return found
