"""Elementwise operators of the same numbers in other places: in order, in views, alone.

A value must not depend on where its element lies: in a vector, behind the last one, among others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import clprim as cp
from bench.torture.draw import Draw, Host
from clprim import ops

# By the arrays that they take; of those that have a gradient, it is drawn as well.
_OF_ONE = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh entr erf erfc erfinv exp exp2 expm1 floor "
    "frac lgamma log log10 log1p log2 logit nan_to_num reciprocal round rsqrt sign sin sinc sinh "
    "sqrt square tan tanh trunc celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu "
    "logsigmoid mish relu relu6 selu sigmoid silu softplus softshrink softsign tanhshrink"
).split()
_OF_TWO = (
    "add atan2 copysign div floor_divide fmax fmin fmod heaviside hypot logaddexp logaddexp2 "
    "maximum minimum mul nextafter pow remainder sub xlog1py xlogy"
).split()
_OF_THREE = "addcdiv addcmul lerp where".split()
_DTYPES = (np.float32, np.float32, np.float32, np.float16, ml_dtypes.bfloat16, np.float64)
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-40, 3e38, -3e38, 20, -90, 1e5)
_ELEMENTS = 1024
_LONGEST = 40  # of what is alone: some vectors and what they leave


def place(draw: Draw) -> tuple[str, Callable[[], tuple[Host, ...]], tuple[Host, ...]]:
    """Returns a case's text, what runs it, and the bits that its results have in order."""
    name = draw.one([*_OF_ONE, *_OF_TWO, *_OF_THREE])
    arrays = 1 + (name in _OF_TWO) + 2 * (name in _OF_THREE)
    operator = getattr(ops, name)
    if draw.chance(0.5) and hasattr(ops, f"{name}_backward"):
        name, arrays = f"{name}_backward", arrays + 1
        operator = getattr(ops, name)
    dtype = np.dtype(draw.one(_DTYPES))
    if dtype == np.float64 and not cp.current_device().traits.fp64:
        dtype = np.dtype(np.float32)
    hosts = [_numbers(draw, dtype) for _ in range(arrays)]
    order = draw.random.permutation(_ELEMENTS)
    step = int(draw.one((2, 3, -1, -2)))
    lengths = [int(n) for n in draw.random.integers(1, _LONGEST + 1, 4)]
    starts = [int(draw.random.integers(0, _ELEMENTS - n)) for n in lengths]
    at = int(draw.random.integers(_ELEMENTS))
    parts = [np.arange(start, start + n) for start, n in zip(starts, lengths, strict=True)]

    def computed(given: Callable[[Host], Any]) -> list[Host]:
        found = operator(*(given(h) for h in hosts))
        return [_bits(y.get()) for y in (found if isinstance(found, tuple | list) else [found])]

    def turned(h: Host) -> Any:
        return cp.asarray(h.reshape(32, -1)).T

    def run() -> tuple[Host, ...]:
        found = computed(lambda h: cp.asarray(h[order])) + computed(turned)
        found += computed(lambda h: cp.asarray(h)[::step])
        for part in parts:
            found += computed(lambda h, part=part: cp.asarray(h[part]))
        for n in lengths:
            found += computed(lambda h, n=n: cp.full(n, h[at], h.dtype))
        return tuple(found)

    whole = computed(cp.asarray)
    places = [order, np.arange(_ELEMENTS).reshape(32, -1).T.ravel(), np.arange(_ELEMENTS)[::step]]
    places += [*parts, *(np.full(n, at) for n in lengths)]
    expected = tuple(bits[place] for place in places for bits in whole)
    return f"{name} of {dtype}, by {step}, {lengths} from {starts}, {at}", run, expected


def _numbers(draw: Draw, dtype: np.dtype[Any]) -> Host:
    random, n = draw.random, _ELEMENTS // 4
    found = [random.uniform(-1, 1, 2 * n), 4 * random.standard_normal(n)]
    found.append(np.exp(random.uniform(-12, 12, n)) * random.choice([-1, 1], n))
    numbers = random.permutation(np.concatenate(found))
    where = random.choice(_ELEMENTS, 2 * len(_SPECIAL), replace=False)
    numbers[where] = _SPECIAL * 2
    with np.errstate(over="ignore"):
        return numbers.astype(dtype)


def _bits(array: Host) -> Host:
    """Elements by their bits, each NaN the same."""
    flat = np.ascontiguousarray(array).ravel()
    halves = max(1, flat.dtype.itemsize // 4)
    bits = flat.view(np.uint16 if flat.dtype.itemsize == 2 else np.uint32).reshape(-1, halves)
    return np.where(np.isnan(flat)[:, None], 7, bits)
