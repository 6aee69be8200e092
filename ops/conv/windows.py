"""The windows of a convolution: stride, padding and dilation as users give them, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.errors import ShapeError, quoted
from clprim.ops.shared.arguments import fits

__all__ = ["Axis", "Pair", "Windows", "is_channels_last", "key", "whole_numbers", "windows"]

Pair = int | Sequence[int]


@dataclass(frozen=True)
class Axis:
    """Windows along one axis.

    Attributes:
        size: Of the input.
        kernel: Taps of a window.
        stride: From one window to the next.
        dilation: From one tap to the next.
        before, after: Padding.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def padded(self) -> int:
        """Size of the input with its padding."""
        return self.size + self.before + self.after

    @property
    def reach(self) -> int:
        """Elements from a window's first tap to its last."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def windows(self) -> int:
        """How many windows there are: the size of the output."""
        return (self.padded - self.reach) // self.stride + 1

    @property
    def leaves(self) -> bool:
        """Whether a window reaches into the padding."""
        last = (self.windows - 1) * self.stride - self.before + self.reach
        return self.before > 0 or last > self.size


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


def is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides say that channels lie side by side, by PyTorch's rule for ambiguous ones."""
    if strides[1] == 0:
        return False
    least = 0
    for d in (1, 3, 2, 0):
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(1, shape[d])
    return True


def key(value: Any) -> Any:
    """Returns a setting as a part of a call's signature: equal only where it means the same.

    Whatever is no whole number or sequence of them equals nothing, and is looked at every time.
    """
    if type(value) is int or value is None or type(value) is str:
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, tuple | list) and all(type(n) is int for n in value):
        return tuple(value)
    return object()
