"""The windows of a convolution: stride, padding and dilation as users give them, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.errors import ShapeError, quoted
from clprim.ops.shared.arguments import fits
from clprim.plan.conv.problem import Axis

__all__ = ["Pair", "Windows", "key", "whole_numbers", "windows"]

Pair = int | Sequence[int]


@dataclass(frozen=True)
class Windows:
    """Windows along height and width."""

    y: Axis
    x: Axis


def windows(
    what: str,
    size: tuple[int, int],
    kernel: tuple[int, int],
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    padding_name: str = "padding",
) -> Windows:
    """Checks what a user gave.

    Args:
        what: The operator, for messages.
        size: Height and width of the input.
        kernel: Height and width of the kernel.
        stride: A number, or one for height and one for width.
        dilation: Likewise.
        padding: Likewise, or ``(top, bottom, left, right)``.
        padding_name: What the user calls it.

    Raises:
        ShapeError: Not such numbers, or a kernel that is larger than the padded input.
    """
    strides = _pair(what, "stride", stride, least=1)
    dilations = _pair(what, "dilation", dilation, least=1)
    given = whole_numbers(what, padding_name, padding, 0, (1, 2, 4))
    times = 4 // len(given)  # one number is that of four sides, of two each is that of two
    top, bottom, left, right = (p for p in given for _ in range(times))
    if min(kernel) < 1:
        raise ShapeError(f"{what}: the kernel has size {kernel}, expected at least 1 × 1")
    axes = [
        Axis(size[a], kernel[a], strides[a], dilations[a], before, after)
        for a, (before, after) in enumerate(((top, bottom), (left, right)))
    ]
    for axis, name in zip(axes, ("high", "wide"), strict=True):
        if axis.reach > axis.padded:
            raise ShapeError(
                f"{what}: a kernel of {kernel} with dilation {dilations} is {axis.reach} {name}, "
                f"larger than the padded input, {axis.padded} {name}: size {size}, padding "
                f"{padding}"
            )
    return Windows(*axes)


def _pair(what: str, label: str, value: Pair, least: int) -> tuple[int, int]:
    given = whole_numbers(what, label, value, least, (1, 2))
    return (given[0], given[-1])


def whole_numbers(
    what: str, label: str, value: Any, least: int, lengths: tuple[int, ...]
) -> tuple[int, ...]:
    """Returns a number, or a sequence of one of these lengths, as a tuple.

    Raises:
        ShapeError: Something else, or a number below ``least`` or too large.
    """
    numbers = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    if not isinstance(numbers, tuple):
        numbers = (numbers,)
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers)
    if not whole or len(numbers) not in lengths or not fits(numbers, least):
        forms = {1: "a number", 2: "a pair", 4: "(top, bottom, left, right)"}
        expected = ", ".join(forms[n] for n in lengths)
        raise ShapeError(
            f"{what}: {label}={quoted(value)}: expected {expected}, of at least {least} and "
            "below 2^31"
        )
    return tuple(int(n) for n in numbers)


def key(value: Any) -> Any:
    """Returns a setting as a part of a call's signature: equal only where it means the same.

    Any value that is not an integer, or a sequence of them, yields a key that never compares equal,
    so that the call is checked (and refused) each time.
    """
    if type(value) is int or value is None or type(value) is str:
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, tuple | list) and all(type(n) is int for n in value):
        return tuple(value)
    return object()
