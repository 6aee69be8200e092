"""The kinds of kernels that a gradient is made of.

`Pointwise` and `Reduction` make gradients, which are made of both: they are known here by name, so
that neither file needs the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_KINDS: dict[str, Callable[..., Any]] = {}


def register(name: str, kind: Callable[..., Any]) -> None:
    """Makes a kind of kernels known."""
    _KINDS[name] = kind


def make(kind: str, *args: Any, **options: Any) -> Any:
    """Returns a new ``Pointwise`` or ``Reduction``."""
    return _KINDS[kind](*args, **options)
