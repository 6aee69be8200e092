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


def _binary(name: str, **options: Any) -> _Method:
    def method(self: Any, other: Any) -> Array:
        found: Array = self.arithmetic.binary(name, self, other, **options)
        return found

    return method


def _three(name: str) -> tuple[_Method, _Method, _Method]:
    """An operator, that of an array on its right, and the one that changes its array."""

    def in_place(self: Any, other: Any) -> Array:
        found: Array = self.arithmetic.binary(name, self, other, out=self)
        return found

    return _binary(name), _binary(name, swapped=True), in_place


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

    __add__, __radd__, __iadd__ = _three("add")
    __sub__, __rsub__, __isub__ = _three("subtract")
    __mul__, __rmul__, __imul__ = _three("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _three("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _three("floor_divide")
    __mod__, __rmod__, __imod__ = _three("remainder")
    __pow__, __rpow__, __ipow__ = _three("power")
    __and__, __rand__, __iand__ = _three("bitwise_and")
    __or__, __ror__, __ior__ = _three("bitwise_or")
    __xor__, __rxor__, __ixor__ = _three("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _three("left_shift")
    __rshift__, __rrshift__, __irshift__ = _three("right_shift")

    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment] # == is elementwise, so arrays are no keys

    __neg__, __abs__, __invert__ = _unary("negative"), _unary("absolute"), _unary("invert")
    __pos__ = _unary("positive")
