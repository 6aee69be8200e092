"""Windows along the last dimensions of arrays: settings as users give them, checked, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.shared.checks import fits
from clprim.plan.conv.problem import Axis

#: A number, or one for each dimension.
Numbers = int | Sequence[int]
#: Likewise, or one for each side, or a pair for each dimension, or a word: ``same``, ``valid``.
Padding = int | str | Sequence[int | Sequence[int]]


def numbers(what: str, label: str, value: Any, count: int, least: int) -> tuple[int, ...]:
    """Returns a number, or one for each dimension, as a tuple."""
    forms = "a number" if count == 1 else f"a number or {count} of them"
    given = _whole(what, label, value, least, (1, count), forms)
    return given * (count // len(given))


def in_pairs(padding: Any) -> bool:
    """Whether a padding is a sequence of pairs."""
    return _is_sequence(padding) and any(map(_is_sequence, padding))


def sides(what: str, label: str, padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    """Returns a padding's widths before and behind each dimension."""
    if in_pairs(padding):
        if len(padding) != count or not all(map(_is_sequence, padding)):
            raise ShapeError(f"{what}: {label}={quoted(padding)}: expected {count} pairs")
        given = [n for p in padding for n in numbers(what, label, p, 2, 0)]
    else:
        forms = f"a number, {'' if count == 1 else f'{count} or '}{2 * count} of them, or pairs"
        found = _whole(what, label, padding, 0, (1, count, 2 * count), forms)
        times = 2 * count // len(found)  # one number is that of all sides, one each is that of two
        given = [n for n in found for _ in range(times)]
    return tuple(zip(given[::2], given[1::2], strict=True))


def axes(
    what: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    *,
    up: bool = False,
) -> tuple[Axis, ...]:
    """Returns the windows along each axis; ``up`` is for those that count a window in part."""
    count = len(sizes)
    steps = numbers(what, "stride", stride, count, 1)
    apart = numbers(what, "dilation", dilation, count, 1)
    if min(kernel) < 1:
        least = " × ".join("1" * count)
        raise ShapeError(f"{what}: the kernel has size {tuple(kernel)}, expected at least {least}")
    word = padding if isinstance(padding, str) else None
    if word == "same":
        if max(steps) > 1:
            raise ShapeError(
                f"{what}: padding='same' needs a stride of 1, got stride={quoted(stride)}"
            )
        missing = [d * (k - 1) for d, k in zip(apart, kernel, strict=True)]
        pads = tuple((n // 2, n - n // 2) for n in missing)
    elif word not in (None, "valid"):
        raise ShapeError(
            f"{what}: padding={quoted(padding)}: expected a number, several, or same or valid"
        )
    else:
        pads = sides(what, "padding", padding if word is None else 0, count)
    each = zip(sizes, kernel, steps, apart, pads, strict=True)
    found = tuple(Axis(n, k, s, d, *pad) for n, k, s, d, pad in each)
    for axis, name in zip(found, ("deep", "high", "wide")[-count:], strict=True):
        if axis.reach > axis.padded + (axis.stride - 1) * up:
            raise ShapeError(
                f"{what}: a kernel of {tuple(kernel)} with dilation {apart} is {axis.reach} "
                f"{name}, larger than the padded input, {axis.padded} {name}, and has no window: "
                f"size {tuple(sizes)}, padding {quoted(padding)}"
            )
    return found


def transposed_axes(
    what: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
) -> tuple[Axis, ...]:
    """Returns the windows of the convolution whose result has this size; see `axes`."""
    count = len(sizes)
    pads = sides(what, "padding", padding, count)
    more = numbers(what, "output_padding", output_padding, count, 0)
    # A large enough input lets the numbers be checked before its size is known.
    probe = axes(what, (1 << 24,) * count, kernel, stride, pads, dilation)
    found = []
    for axis, extra, n in zip(probe, more, sizes, strict=True):
        if extra and extra >= max(axis.stride, axis.dilation):
            raise ShapeError(
                f"{what}: output_padding={quoted(output_padding)} must be less than "
                f"stride={quoted(stride)} or dilation={quoted(dilation)}"
            )
        result = (n - 1) * axis.stride - axis.before - axis.after + axis.reach + extra
        if result < 1:
            raise ShapeError(
                f"{what}: x of size {tuple(sizes)} with a kernel of {tuple(kernel)}, "
                f"stride={quoted(stride)} and padding={quoted(padding)} leaves a result of size "
                f"{result}"
            )
        # Of what output_padding adds no window reaches more: there are as many as x has elements.
        found.append(replace(axis, size=result, after=axis.after - extra))
    return tuple(found)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _whole(
    what: str, label: str, value: Any, least: int, lengths: tuple[int, ...], forms: str
) -> tuple[int, ...]:
    given = tuple(value) if _is_sequence(value) else (value,)
    if len(given) not in lengths or not all(map(is_integer, given)) or not fits(given, least):
        raise ShapeError(
            f"{what}: {label}={quoted(value)}: expected {forms}, of at least {least} and below 2^31"
        )
    return tuple(map(int, given))
