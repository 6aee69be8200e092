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

import math
import numbers as python_numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.arrays.validation import checked
from clprim.dtypes import AnyDType, as_dtype, is_integer, real_dtype
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.primitives.order import order_of_keys
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.scan import Scan
from clprim.runtime.randomness import State, at, get_state, set_state

__all__ = [
    "State",
    "at",
    "bernoulli",
    "exponential",
    "get_state",
    "multinomial",
    "normal",
    "randint",
    "randperm",
    "seed",
    "set_state",
    "uniform",
]

Shape = int | Sequence[int]

# The product, or a store of 16 bits, may round up to the end, which is not among them.
_uniform = Pointwise(
    """
    y0 = fma((typeof_y0)(w1 - w0), (typeof_y0)rand(), (typeof_y0)w0);
    y0 = w0 < w1 && y0 > w2 ? w2 : y0;
    """,
    name="uniform",
)
_normal = Pointwise("y0 = fma((typeof_y0)w1, (typeof_y0)randn(), (typeof_y0)w0);", name="normal")
_exponential = Pointwise("y0 = -log(1 - rand()) / w0;", name="exponential")
_integers = Pointwise("y0 = randint(w0, w1);", name="random_integers")
_coins = Pointwise("y0 = rand() < w0;", name="bernoulli")
_coins_of = Pointwise("y0 = rand() < x0;", name="bernoulli")

_bits = Pointwise(
    "y0 = (ulong)randint(0, 4294967296) << 32 | (ulong)randint(0, 4294967296);", name="random_bits"
)
# A positive float orders as its bits do.
_race = Pointwise(
    "y0 = as_uint(x0 > 0 ? (float)(-log(1 - rand()) / x0) : INFINITY);",
    result_type=np.uint32,
    name="race",
)
_cumulative = Scan("", init="scan_y0 = 0;", step="scan_y0 += x0;", name="cumulative_weights")
_PICK = """
    long low = 0, high = size_x0(-1) - 1;
    typeof_x0 drawn = rand() * at_x0({last});
    while (low < high) {{
        long middle = low + (high - low) / 2;
        if (at_x0({middle}) > drawn) high = middle;
        else low = middle + 1;
    }}
    y0 = low;
"""
_pick = Pointwise(
    _PICK.format(last="high", middle="middle"), result_type=np.int64, name="multinomial"
)
_pick_of_rows = Pointwise(
    _PICK.format(last="coord(0), high", middle="coord(0), middle"),
    result_type=np.int64,
    name="multinomial",
)


def seed(value: Any) -> None:
    """Begins the count anew, with another seed.

    Args:
        value: Any integer; its lowest 64 bits count.

    Raises:
        DTypeError: No integer.
    """
    if not is_integer(value):
        raise DTypeError(f"random.seed: expected an integer, got {type(value).__name__}")
    set_state(State(int(value) & (1 << 64) - 1, 0))


def uniform(shape: Shape, low: float = 0.0, high: float = 1.0, *, dtype: Any = np.float32) -> Array:
    """Returns numbers that are evenly distributed in [low, high).

    Args:
        shape: Of the result.
        low: The least.
        high: What all are less than.
        dtype: A floating one; float64 has 53 random bits, others 24. Of complex numbers both
            parts are such numbers.

    Raises:
        DTypeError: No numbers, or a dtype of integers.
    """
    found = empty(_shape("uniform", shape), _floating("uniform", dtype, pairs=True))
    fill_uniform(_parts(found), low, high)
    return found


def fill_uniform(out: Array, low: float, high: float) -> Array:
    """Fills an array of floating numbers as `uniform` does, and returns it."""
    _require_numbers("uniform", low=low, high=high)
    with np.errstate(over="ignore"):
        below = np.nextafter(*(out.dtype.type(v) for v in (high, low)))
    return _fill("uniform", _uniform, out, low, high, below)


def normal(shape: Shape, mean: float = 0.0, std: float = 1.0, *, dtype: Any = np.float32) -> Array:
    """Returns numbers of a normal distribution.

    They are functions of logarithm and cosine, which devices round differently: the same seed gives
    numbers that agree to rounding.

    Args:
        shape: Of the result.
        mean: Of the distribution.
        std: Its standard deviation.
        dtype: A floating one. Of complex numbers each part has half the variance, and ``mean`` is
            that of real parts.

    Raises:
        DTypeError: No numbers, or a dtype of integers.
    """
    found = empty(_shape("normal", shape), _floating("normal", dtype, pairs=True))
    _require_numbers("normal", mean=mean, std=std)
    if found.dtype.kind != "c":
        return _fill("normal", _normal, found, mean, std)
    _fill("normal", _normal, _parts(found), 0.0, std * math.sqrt(0.5))
    if mean:
        found.real += mean
    return found


def _parts(x: Array) -> Array:
    """Both parts of complex numbers side by side; an array of real ones as it is."""
    if x.dtype.kind != "c":
        return x
    return x.reshape(-1).view(real_dtype(x.dtype))


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
        if not is_integer(bound):
            raise DTypeError(f"random.randint: {label}={quoted(bound)}: expected an integer")
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


def randperm(n: int) -> Array:
    """Returns the numbers from 0 to n − 1 in a random order, as int64.

    They are sorted by 64 random bits each.

    Raises:
        ShapeError: A negative number.
        DTypeError: No integer.
    """
    if not is_integer(n):
        raise DTypeError(f"random.randperm: expected an integer, got {type(n).__name__}")
    if n < 0:
        raise ShapeError(f"random.randperm: n={n} must not be negative")
    if not n:
        return empty((0,), np.int64)
    keys = empty((int(n),), np.uint64)
    _bits(out=keys)
    return order_of_keys("randperm", keys, 64).astype(np.int64)


@checked
def multinomial(weights: Any, num_samples: int, replacement: bool = False) -> Array:
    """Returns positions along the last axis, each as likely as its weight says, as int64.

    Without replacement the sums of an exponential race decide (Efraimidis and Spirakis, 2006): a
    position of weight 0 comes after all others.

    Args:
        weights: A line of numbers that are not negative, or rows of them; not all zero.
        num_samples: How many positions of each row.
        replacement: Whether one position may come several times.

    Raises:
        ShapeError: No line and no rows, or more samples than there are positions.
        DTypeError: No device array of floating numbers, or a number that is no integer.
    """
    what = "random.multinomial"
    if not isinstance(weights, cl_array.Array) or weights.dtype.kind in "biu":
        raise DTypeError(f"{what}: expected a device array of floating numbers for weights")
    if not is_integer(num_samples):
        raise DTypeError(f"{what}: expected an integer, got {type(num_samples).__name__}")
    shape = weights.shape
    if len(shape) not in (1, 2) or not shape[-1] or num_samples < 0:
        raise ShapeError(f"{what}: {num_samples} samples of weights of shape {shape}")
    if not replacement and num_samples > shape[-1]:
        raise ShapeError(f"{what}: {num_samples} samples of {shape[-1]} without replacement")
    chosen = (*shape[:-1], int(num_samples))
    if not replacement:
        keys = empty(shape, np.uint32)
        if keys.size:
            _race(weights, out=keys)
            order = order_of_keys(what, keys, 32)
            return order[..., : int(num_samples)].astype(np.int64)
        return empty(chosen, np.int64)
    sums = _cumulative(weights)
    found: Array = (_pick if len(shape) == 1 else _pick_of_rows)(sums, shape=chosen)
    return found


def _draw(what: str, kernel: Pointwise, shape: Shape, dtype: AnyDType, **given: Any) -> Array:
    _require_numbers(what, **given)
    return _fill(what, kernel, empty(_shape(what, shape), dtype), *given.values())


def _require_numbers(what: str, **given: Any) -> None:
    for label, value in given.items():
        if isinstance(value, bool) or not isinstance(value, python_numbers.Real):
            raise DTypeError(
                f"random.{what}: expected a number for {label}, got {type(value).__name__}"
            )


def _fill(what: str, kernel: Pointwise, out: Array, *given: Any) -> Array:
    kind = np.float64 if out.dtype == np.float64 else np.float32
    try:
        kernel(*map(kind, given), out=out)
    except OverflowError:
        raise DTypeError(f"random.{what}: a number is out of bounds for {out.dtype}") from None
    return out


def _shape(what: str, shape: Shape) -> tuple[int, ...]:
    given = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for size in given:
        if not is_integer(size) or size < 0:
            raise ShapeError(f"random.{what}: shape={quoted(shape)}: expected sizes")
    return tuple(map(int, given))


def _floating(what: str, dtype: Any, *, pairs: bool = False) -> AnyDType:
    found = as_dtype(dtype)
    if found.kind in ("biu" if pairs else "biuc"):
        raise DTypeError(f"random.{what}: dtype {found}: expected a floating one")
    return found
