"""Arrays of random numbers, by counting: one seed gives one result on every device.

Every call that draws, here or in a snippet with `rand()`, `randn()` or `randint(a, b)`, takes the
next number of a count. An element's draws follow from the seed, that number and the element's
position in C order: not from the memory format, nor from how a device cuts the work.

Example:
    >>> import clprim as cp
    >>> cp.random.seed(7)
    >>> x = cp.random.uniform((2, 3))
    >>> cp.random.seed(7)
    >>> bool((cp.random.uniform((2, 3)).get() == x.get()).all())
    True
"""

from __future__ import annotations

import numbers as python_numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.dtypes import AnyDType, as_dtype
from clprim.errors import DTypeError, ShapeError
from clprim.pointwise import Pointwise
from clprim.runtime.randomness import State, at, get_state, set_state

__all__ = [
    "State",
    "at",
    "bernoulli",
    "exponential",
    "get_state",
    "normal",
    "randint",
    "seed",
    "set_state",
    "uniform",
]

Shape = int | Sequence[int]

_uniform = Pointwise("y0 = w0 + (w1 - w0) * rand();", name="uniform")
_normal = Pointwise("y0 = w0 + w1 * randn();", name="normal")
_exponential = Pointwise("y0 = -log(1 - rand()) / w0;", name="exponential")
_integers = Pointwise("y0 = randint(w0, w1);", name="random_integers")
_coins = Pointwise("y0 = rand() < w0;", name="bernoulli")
_coins_of = Pointwise("y0 = rand() < x0;", name="bernoulli")


def seed(value: Any) -> None:
    """Begins the count anew, with another seed.

    Args:
        value: Any integer; its lowest 64 bits count.

    Raises:
        DTypeError: No integer.
    """
    if not isinstance(value, python_numbers.Integral):
        raise DTypeError(f"random.seed: expected an integer, got {type(value).__name__}")
    set_state(State(int(value) & (1 << 64) - 1, 0))


def uniform(shape: Shape, low: float = 0.0, high: float = 1.0, *, dtype: Any = np.float32) -> Array:
    """Returns numbers that are evenly distributed in [low, high).

    Args:
        shape: Of the result.
        low: The least.
        high: What all are less than, but for rounding.
        dtype: A floating one; float64 has 53 random bits, others 24.

    Raises:
        DTypeError: No numbers, or a dtype of integers.
    """
    return _draw("uniform", _uniform, shape, _floating("uniform", dtype), low=low, high=high)


def normal(shape: Shape, mean: float = 0.0, std: float = 1.0, *, dtype: Any = np.float32) -> Array:
    """Returns numbers of a normal distribution.

    They are functions of logarithm and cosine, which devices round differently: the same seed gives
    numbers that agree to rounding.

    Args:
        shape: Of the result.
        mean: Of the distribution.
        std: Its standard deviation.
        dtype: A floating one.

    Raises:
        DTypeError: No numbers, or a dtype of integers.
    """
    return _draw("normal", _normal, shape, _floating("normal", dtype), mean=mean, std=std)


def exponential(shape: Shape, rate: float = 1.0, *, dtype: Any = np.float32) -> Array:
    """Returns numbers of an exponential distribution, whose mean is ``1 / rate``.

    Raises:
        DTypeError: No numbers, or a dtype of integers.
    """
    dtype = _floating("exponential", dtype)
    return _draw("exponential", _exponential, shape, dtype, rate=rate)


def randint(low: int, high: int, shape: Shape, *, dtype: Any = np.int64) -> Array:
    """Returns integers that are evenly distributed in [low, high).

    Raises:
        ShapeError: There is no integer between the bounds.
        DTypeError: No integers, or bounds that the dtype cannot hold.
    """
    found = as_dtype(dtype)
    if found.kind not in "iu":
        raise DTypeError(f"random.randint: dtype {found}: expected one of integers")
    for label, bound in {"low": low, "high": high}.items():
        if not isinstance(bound, int | np.integer):
            raise DTypeError(f"random.randint: {label}={bound!r}: expected an integer")
    if low >= high:
        raise ShapeError(f"random.randint: there is no integer in [{low}, {high})")
    limits = np.iinfo(found)
    if low < limits.min or high - 1 > min(limits.max, np.iinfo(np.int64).max):
        raise DTypeError(f"random.randint: [{low}, {high}) is out of bounds for {found}")
    out = empty(_shape("randint", shape), found)
    _integers(np.int64(low), np.int64(min(high, np.iinfo(np.int64).max)), out=out)
    return out


def bernoulli(p: Any, shape: Shape | None = None, *, dtype: Any = np.float32) -> Array:
    """Returns ones with the probability ``p``, and zeros otherwise.

    Args:
        p: A number with ``shape``, or an array of a probability for each element.
        shape: Of the result, where ``p`` is a number.
        dtype: Of the result; bool serves as well.

    Raises:
        ShapeError: A shape beside an array, or none beside a number.
        DTypeError: A probability that is no number, or no floating one.
    """
    found = as_dtype(dtype)
    if isinstance(p, cl_array.Array):
        if shape is not None:
            raise ShapeError("random.bernoulli: an array of probabilities has a shape already")
        _floating("bernoulli", p.dtype)
        out = empty(p.shape, found)
        _coins_of(p, out=out)
        return out
    if shape is None:
        raise ShapeError("random.bernoulli: a number for p needs shape=")
    return _draw("bernoulli", _coins, shape, found, p=p)


def _draw(what: str, kernel: Pointwise, shape: Shape, dtype: AnyDType, **given: Any) -> Array:
    for label, value in given.items():
        if isinstance(value, bool) or not isinstance(value, python_numbers.Real):
            raise DTypeError(
                f"random.{what}: expected a number for {label}, got {type(value).__name__}"
            )
    out = empty(_shape(what, shape), dtype)
    kind = np.float64 if dtype == np.float64 else np.float32
    kernel(*map(kind, given.values()), out=out)
    return out


def _shape(what: str, shape: Shape) -> tuple[int, ...]:
    given = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for size in given:
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
            raise ShapeError(f"random.{what}: shape={shape!r}: expected sizes")
    return tuple(map(int, given))


def _floating(what: str, dtype: Any) -> AnyDType:
    found = as_dtype(dtype)
    if found.kind in "biu":
        raise DTypeError(f"random.{what}: dtype {found}: expected a floating one")
    return found
