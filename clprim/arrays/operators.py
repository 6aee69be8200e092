"""NumPy's operators on arrays: every one is a string in `clprim.primitives.arithmetic`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # the class below is its base
    from clprim.arrays.array import Array

# An operator's method: an array and another operand in, an array out.
_Method = Callable[[Any, Any], "Array"]


@dataclass(frozen=True)
class Arithmetic:
    """What arrays need of kernels: the functions of `clprim.primitives.arithmetic`.

    Kernels take arrays, so they are defined later; `Operators.arithmetic` then holds them.
    """

    binary: Callable[..., Array]
    unary: Callable[..., Array]
    copy: Callable[..., Array]
    astype: Callable[..., Array]
    fill: Callable[..., None]


def _binary(name: str) -> _Method:
    def method(self: Any, other: Any) -> Array:
        found: Array = self.arithmetic.binary(name, self, other)
        return found

    return method


def _swapped(name: str) -> _Method:
    def method(self: Any, other: Any) -> Array:
        found: Array = self.arithmetic.binary(name, self, other, swapped=True)
        return found

    return method


def _in_place(name: str) -> _Method:
    def method(self: Any, other: Any) -> Array:
        found: Array = self.arithmetic.binary(name, self, other, out=self)
        return found

    return method


def _unary(name: str) -> Callable[[Any], Array]:
    def method(self: Any) -> Array:
        found: Array = self.arithmetic.unary(name, self)
        return found

    return method


class Operators:
    """What Python's operators do on an array: elementwise, with NumPy's broadcasting and dtypes.

    An array that is changed in place keeps its dtype, as in NumPy; a result of another kind is
    refused.
    """

    arithmetic: ClassVar[Arithmetic]

    __add__, __radd__, __iadd__ = _binary("add"), _swapped("add"), _in_place("add")
    __sub__, __rsub__ = _binary("subtract"), _swapped("subtract")
    __isub__ = _in_place("subtract")
    __mul__, __rmul__ = _binary("multiply"), _swapped("multiply")
    __imul__ = _in_place("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _swapped("divide")
    __itruediv__ = _in_place("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _swapped("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = (
        _binary("remainder"),
        _swapped("remainder"),
        _in_place("remainder"),
    )
    __pow__, __rpow__, __ipow__ = _binary("power"), _swapped("power"), _in_place("power")
    __and__, __rand__ = _binary("bitwise_and"), _swapped("bitwise_and")
    __iand__ = _in_place("bitwise_and")
    __or__, __ror__, __ior__ = (
        _binary("bitwise_or"),
        _swapped("bitwise_or"),
        _in_place("bitwise_or"),
    )
    __xor__, __rxor__ = _binary("bitwise_xor"), _swapped("bitwise_xor")
    __ixor__ = _in_place("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _swapped("left_shift")
    __ilshift__ = _in_place("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _swapped("right_shift")
    __irshift__ = _in_place("right_shift")

    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment] # == is elementwise, so arrays are no keys

    __neg__, __abs__, __invert__ = _unary("negative"), _unary("absolute"), _unary("invert")
    __pos__ = _unary("positive")
