"""The windows of a convolution: stride, padding and dilation as users give them, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.shared.arguments import fits
from clprim.plan.conv.problem import Axis

Pair = int | Sequence[int]
Padding = Pair | str

_SEVERAL, _PLAIN = (tuple, list), frozenset((int,))
_KNOWN = frozenset((int, str, type(None)))


@dataclass(frozen=True)
class Windows:
    """Windows along height and width."""

    y: Axis
    x: Axis


def windows(
    what: str,
    size: Sequence[int],
    kernel: Sequence[int],
    *,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    padding_name: str = "padding",
) -> Windows:
    """Returns the windows of images; see `axes`."""
    found = axes(what, size, kernel, stride, padding, dilation, padding_name)
    return Windows(*found)


def axes(
    what: str,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    padding_name: str = "padding",
) -> tuple[Axis, ...]:
    """Checks what a user gave, and returns the windows along each axis."""
    count = len(size)
    strides = _each(what, "stride", stride, count)
    dilations = _each(what, "dilation", dilation, count)
    if min(kernel) < 1:
        least = " × ".join("1" * count)
        raise ShapeError(f"{what}: the kernel has size {tuple(kernel)}, expected at least {least}")
    word = padding if isinstance(padding, str) else None
    if word == "same":
        if max(strides) > 1:
            raise ShapeError(
                f"{what}: padding='same' needs a stride of 1, got stride={quoted(stride)}"
            )
        missing = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        sides = tuple(side for n in missing for side in (n // 2, n - n // 2))
    elif word == "valid":
        sides = (0,) * 2 * count
    else:
        given = whole_numbers(what, padding_name, padding, 0, (1, count, 2 * count), words=True)
        times = 2 * count // len(given)  # one number is that of all sides, one each is that of two
        sides = tuple(p for p in given for _ in range(times))
    found = tuple(
        Axis(size[a], kernel[a], strides[a], dilations[a], *sides[2 * a : 2 * a + 2])
        for a in range(count)
    )
    for axis, name in zip(found, ("deep", "high", "wide")[-count:], strict=True):
        if axis.reach > axis.padded:
            raise ShapeError(
                f"{what}: a kernel of {tuple(kernel)} with dilation {dilations} is {axis.reach} "
                f"{name}, larger than the padded input, {axis.padded} {name}: size {tuple(size)}, "
                f"padding {padding}"
            )
    return found


def transposed_axes(
    what: str,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Pair,
    padding: Pair,
    output_padding: Pair,
    dilation: Pair,
) -> tuple[Axis, ...]:
    """Returns the windows of the convolution whose result has this size; see `axes`."""
    count = len(size)
    whole_numbers(what, "padding", padding, 0, (1, count, 2 * count))
    # A large enough input lets the numbers be checked before its size is known.
    large, ones = (1 << 24,) * count, (1,) * count
    probe = axes(what, large, kernel, stride, padding, dilation)
    extra = axes(what, large, ones, 1, output_padding, 1, "output_padding")
    found = []
    for axis, more, n in zip(probe, (e.after for e in extra), size, strict=True):
        if more and more >= max(axis.stride, axis.dilation):
            raise ShapeError(
                f"{what}: output_padding={quoted(output_padding)} must be less than "
                f"stride={quoted(stride)} "
                f"or dilation={quoted(dilation)}"
            )
        result = (n - 1) * axis.stride - axis.before - axis.after + axis.reach + more
        if result < 1:
            raise ShapeError(
                f"{what}: x of size {tuple(size)} with a kernel of {tuple(kernel)}, "
                f"stride={quoted(stride)} and padding={quoted(padding)} leaves a result of size "
                f"{result}"
            )
        # Of what output_padding adds no window reaches more: there are as many as x has elements.
        found.append(replace(axis, size=result, after=axis.after - more))
    return tuple(found)


def _each(what: str, label: str, value: Pair, count: int) -> tuple[int, ...]:
    given = whole_numbers(what, label, value, 1, (1, count))
    return given * (count // len(given))


def whole_numbers(
    what: str, label: str, value: Any, least: int, lengths: tuple[int, ...], *, words: bool = False
) -> tuple[int, ...]:
    """Returns a number, or a sequence of one of these lengths, as a tuple."""
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    numbers = tuple(value) if several else value
    if not isinstance(numbers, tuple):
        numbers = (numbers,)
    whole = all(map(is_integer, numbers))
    if not whole or len(numbers) not in lengths or not fits(numbers, least):
        forms = {1: "a number", 2: "a pair", 4: "(top, bottom, left, right)"}
        expected = ", ".join(forms.get(n, f"{n} numbers") for n in dict.fromkeys(lengths))
        raise ShapeError(
            f"{what}: {label}={quoted(value)}: expected {expected}, of at least {least} and "
            f"below 2^31{', or a word, same or valid' if words else ''}"
        )
    return tuple(int(n) for n in numbers)


def keys(*settings: Any) -> tuple[Any, ...]:
    """Returns settings as parts of a call's signature: equal only where they mean the same.

    Any value that is not an integer, or a sequence of them, yields a key that never compares equal,
    so that the call is checked (and refused) each time.
    """
    if _KNOWN.issuperset(map(type, settings)):  # before all else: this is asked on every call
        return settings
    return tuple([s if s.__class__ in _KNOWN else _key(s) for s in settings])


def _key(value: Any) -> Any:
    if isinstance(value, _SEVERAL) and _PLAIN.issuperset(map(type, value)):
        return tuple(value)
    return int(value) if is_integer(value) else object()
