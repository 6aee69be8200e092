"""What a convolution, in whichever direction, is told beside arrays and numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from clprim.dtypes import is_integer

_SEVERAL, _PLAIN = (tuple, list), frozenset((int,))
_KNOWN = frozenset((int, str, type(None)))


class Settings(NamedTuple):
    """Settings as users give them; they are checked where the convolution is planned."""

    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: Any = 1
    output_padding: Any = 0
    shape: Any = None
    depth_to_space: Any = None
    mode: Any = "CRD"
    algorithm: Any = "auto"
    epilogue: Any = None
    bias: bool = False
    axes: tuple[int, ...] = (0, 1, 2, 3)
    prologue: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Parts of a call's signature: equal only where settings mean the same."""
        *told, bias, axes, prologue = self
        return (*keys(*told), bias, axes, prologue)


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
