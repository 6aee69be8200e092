"""Arithmetic of two operands by PyTorch's names, with the arguments that operators lack.

Shapes broadcast, and dtypes promote as in NumPy. One operand may be a number, on either side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.arithmetic import binary
from clprim.arrays.array import Array
from clprim.dtypes import adapted, promote, scalar_dtype
from clprim.errors import DefinitionError, DTypeError, quoted
from clprim.ops.shared.arguments import dtype_of, is_array, number
from clprim.ops.shared.strings import kernel

__all__ = ["add", "div", "floor_divide", "fmod", "mul", "pow", "remainder", "sub"]


def _apply(what: str, name: str, a: Any, b: Any, out: Any, dtype: Any = None) -> Array:
    """Applies an operator of `clprim.arrays.arithmetic`; ``dtype`` is that of the result."""
    if not is_array(a) and not is_array(b):
        dtype_of(what, "at least one operand", a)
    if is_array(a):
        b = b if is_array(b) else number(what, "an operand", b)
        return binary(name, a, b, out=out, dtype=dtype)
    return binary(name, b, number(what, "an operand", a), swapped=True, out=out, dtype=dtype)


def common_dtype(a: Any, b: Any) -> Any:
    """Returns the dtype that two operands promote to, of which one is an array."""
    arrays = [v.dtype for v in (a, b) if is_array(v)]
    numbers = [scalar_dtype(v, arrays[0]) for v in (a, b) if not is_array(v)]
    return promote([*arrays, *numbers])


def _add(what: str, sign: str, a: Any, b: Any, alpha: Any, out: Any) -> Array:
    alpha = number(what, "alpha", alpha)
    if alpha == 1 or not (is_array(a) or is_array(b)):
        return _apply(what, {"+": "add", "-": "subtract"}[sign], a, b, out)
    a, b = (v if is_array(v) else number(what, "an operand", v) for v in (a, b))
    common = common_dtype(a, b)
    if common.kind == "b":
        raise DTypeError(f"{what}: alpha={quoted(alpha)} beside bool; use astype()")
    if common.kind in "iu" and not isinstance(alpha, int):
        raise DTypeError(f"{what}: alpha={quoted(alpha)} beside {common}: expected an integer")
    a, b, alpha = (v if is_array(v) else adapted(v, common) for v in (a, b, alpha))
    names, numbers = iter(("x0", "x1")), iter(("w0", "w1", "w2"))
    left, right = (next(names if is_array(v) else numbers) for v in (a, b))
    factor = next(numbers)
    expr = f"y0 = (typeof_y0){left} {sign} (typeof_y0){factor} * (typeof_y0){right};"
    scaled = [*(v for v in (a, b) if is_array(v)), *(v for v in (a, b) if not is_array(v)), alpha]
    found: Array = kernel(expr, what, common)(*scaled, out=out)
    return found


def add(a: Any, b: Any, *, alpha: float = 1, out: Any = None) -> Array:
    """Returns a + alpha · b.

    Args:
        a: An array or a number.
        b: Likewise; one of the two is an array.
        alpha: A number; an integer where the operands are.
        out: Where the result goes; it may be an operand.

    Raises:
        DTypeError: No array, or an ``alpha`` that the operands' dtype does not know.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.add(cp.asarray(np.float32([1, 2])), 10, alpha=0.5).get()
        array([6., 7.], dtype=float32)
    """
    return _add("add", "+", a, b, alpha, out)


def sub(a: Any, b: Any, *, alpha: float = 1, out: Any = None) -> Array:
    """Returns a - alpha · b; see `add`. Two bool arrays have no difference."""
    return _add("sub", "-", a, b, alpha, out)


def mul(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns a · b, of two arrays or an array and a number."""
    return _apply("mul", "multiply", a, b, out)


def div(a: Any, b: Any, *, rounding_mode: str | None = None, out: Any = None) -> Array:
    """Returns a / b.

    Args:
        a: An array or a number.
        b: Likewise; one of the two is an array.
        rounding_mode: None for the quotient itself, which of integers is float32; ``"trunc"`` and
            ``"floor"`` round it towards 0 or down, and keep integers, whose quotient by 0 is 0.
        out: Where the result goes; it may be an operand.

    Raises:
        DefinitionError: Another ``rounding_mode``.
        DTypeError: No array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.int32([7, -7]))
        >>> ops.div(x, 2).get(), ops.div(x, 2, rounding_mode="trunc").get()
        (array([ 3.5, -3.5], dtype=float32), array([ 3, -3], dtype=int32))
    """
    names = {None: "divide", "trunc": "trunc_divide", "floor": "floor_divide"}
    if rounding_mode not in names:
        raise DefinitionError(
            f"div: rounding_mode={quoted(rounding_mode)}: expected None, 'trunc' or 'floor'"
        )
    dtype = None
    if rounding_mode is None and (is_array(a) or is_array(b)):
        a, b = (v if is_array(v) else number("div", "an operand", v) for v in (a, b))
        whole = all(v.dtype.kind in "biu" if is_array(v) else isinstance(v, int) for v in (a, b))
        dtype = np.dtype(np.float32) if whole else None
    return _apply("div", names[rounding_mode], a, b, out, dtype)


def floor_divide(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns the quotient rounded down, as ``a // b`` does; of integers by 0 it is 0."""
    return _apply("floor_divide", "floor_divide", a, b, out)


def remainder(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns a less b times the quotient rounded down, as ``a % b`` does: it has b's sign."""
    return _apply("remainder", "remainder", a, b, out)


def fmod(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns a less b times the quotient rounded towards 0: it has a's sign."""
    return _apply("fmod", "fmod", a, b, out)


def pow(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns a to the power b.

    Integers stay integers. A negative power of one is, as in PyTorch, what is whole of it: 1 or -1
    for those two and 0 for all others (NumPy refuses it).

    Args:
        a: An array or a number.
        b: Likewise; one of the two is an array.
        out: Where the result goes; it may be an operand.

    Raises:
        DTypeError: No array, or a negative number as the power of integers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.pow(cp.asarray(np.int32([2, -1])), cp.asarray(np.int32([-1, -3]))).get()
        array([ 0, -1], dtype=int32)
    """
    return _apply("pow", "power", a, b, out)
