"""Draws what a case is made of: dtypes, data, views, and expressions that are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import clprim as cp

#: Each dtype with the largest number up to which it and sums of it hold every whole number.
EXACT = {
    np.dtype(np.float32): 2**24,
    np.dtype(np.int32): 2**31 - 1,
    np.dtype(np.int16): 2**15 - 1,
    np.dtype(np.float16): 2**11,
    np.dtype(ml_dtypes.bfloat16): 2**8,
}
_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 65, 100, 257)
_MOST = 60_000  # elements of an array: NumPy in float64 is what takes time
_LARGEST = 3  # of the data

Host = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Expression:
    """A term as OpenCL C and as NumPy, and how large its value gets at most."""

    text: str
    value: Callable[[Sequence[Host]], Host]
    bound: int


class Draw:
    """A source of random choices, each following from the seed and the number of the case."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = np.random.default_rng([seed, number])

    def one(self, values: Sequence[Any]) -> Any:
        return values[int(self.random.integers(len(values)))]

    def chance(self, part: float) -> bool:
        return bool(self.random.random() < part)

    def dtype(self) -> np.dtype[Any]:
        """One of the dtypes in which small whole numbers are exact."""
        return self.one(list(EXACT))

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """Sizes of up to four dimensions, not too many elements in all."""
        ndim = int(self.random.integers(least, most + 1))
        while True:
            shape = tuple(int(self.one(_SIZES)) for _ in range(ndim))
            if np.prod(shape, dtype=np.int64) <= _MOST:
                return shape

    def data(self, shape: tuple[int, ...], dtype: Any, largest: int = _LARGEST) -> Host:
        """Whole numbers from -largest to largest."""
        return self.random.integers(-largest, largest + 1, shape).astype(dtype)

    def edges(self, shape: tuple[int, ...], dtype: Any) -> Host:
        """Integers among which are 0, 1, -1 and the least and the greatest of a dtype."""
        info = np.iinfo(dtype)
        known = [0, 0, 1, info.max, info.min, info.min + 1, 7, info.max // 3]
        known += [-1, -1, -2] if info.min else [2, 2, 3]
        return self.random.choice(np.array(known, dtype), shape)

    def arrays(self, shape: tuple[int, ...], dtype: Any) -> tuple[Host, Any]:
        """An array of a shape, on host and device: a view of a larger one, in any order."""
        order = self.random.permutation(len(shape)) if self.chance(0.4) else np.arange(len(shape))
        index, base = [], []
        for axis in order:
            size, step = shape[axis], int(self.one((1, 1, 1, 2, -1, -3)))
            before, after = (int(self.one((0, 0, 1, 2))) for _ in range(2))
            length = max(size - 1, 0) * abs(step) + 1 if size else 0
            base.append(before + length + after)
            end = before + length
            if step > 0:
                index.append(slice(before, end, step))
            else:
                index.append(slice(end - 1, before - 1 if before else None, step))
        host = self.data(tuple(base), dtype)
        back = np.argsort(order)
        view, device = (a[tuple(index)].transpose(*back) for a in (host, cp.asarray(host)))
        assert view.shape == shape
        return view, device

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        kept = tuple(1 if self.chance(0.3) else size for size in shape)
        return kept[int(self.random.integers(len(shape) + 1)) :] if self.chance(0.3) else kept

    def expression(self, arrays: int, limit: int, depth: int = 4) -> Expression:
        """A term of x0, x1, … that stays exact up to a limit."""
        while True:
            found = self._term(arrays, depth)
            if found.bound <= limit:
                return found

    def _term(self, arrays: int, depth: int) -> Expression:
        if depth == 0 or self.chance(0.2):
            n = int(self.random.integers(arrays + 1))
            if n < arrays:
                return Expression(f"x{n}", lambda x: x[n], _LARGEST)
            number = int(self.random.integers(-_LARGEST, _LARGEST + 1))
            return Expression(f"({number})", lambda x: np.asarray(number), abs(number))
        a, b = self._term(arrays, depth - 1), self._term(arrays, depth - 1)
        kind = self.one("+ + - - * ? min".split())
        if kind == "*":
            return Expression(
                f"({a.text} * {b.text})", lambda x: a.value(x) * b.value(x), a.bound * b.bound
            )
        if kind == "?":
            return Expression(
                f"({a.text} < {b.text} ? {a.text} : {b.text} + 1)",
                lambda x: np.where(a.value(x) < b.value(x), a.value(x), b.value(x) + 1),
                max(a.bound, b.bound + 1),
            )
        if kind == "min":
            # Both of one type, as a literal alone is an int.
            return Expression(
                f"min((typeof_y0)({a.text}), (typeof_y0)({b.text}))",
                lambda x: np.minimum(a.value(x), b.value(x)),
                max(a.bound, b.bound),
            )
        sign = 1 if kind == "+" else -1
        return Expression(
            f"({a.text} {kind} {b.text})",
            lambda x: a.value(x) + sign * b.value(x),
            a.bound + b.bound,
        )
