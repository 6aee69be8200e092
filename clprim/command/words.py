"""Reads the words of a command line: shapes, axes, numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def join_axes(argv: Sequence[str]) -> list[str]:
    """Makes ``--axis -1,-2`` one word; argparse would take its second word for an option."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] == "--axis":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _integers(text: str) -> tuple[int, ...]:
    words = text.strip().strip("()").replace("×", ",").replace("x", ",").split(",")
    return tuple(int(word) for word in words if word.strip())


def read_shape(text: str) -> tuple[int, ...]:
    """Reads sizes, as in ``32,64,112,112`` or ``32x64``."""
    try:
        shape = _integers(text)
    except ValueError:
        shape = (-1,)
    if any(size < 0 for size in shape):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape; expected sizes as in 32,64,112,112"
        )
    return shape


def read_axes(text: str) -> tuple[int, ...]:
    """Reads axes, as in ``0,2,3``."""
    try:
        return _integers(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected axes as in 0,2,3") from None


def read_number(text: str) -> int | float:
    """Reads a number, whole where it is written so."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    return int(text) if text.strip().lstrip("+-").isdecimal() else number


def read_positive(text: str) -> int:
    """Reads a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a positive whole number")
    return int(text)
