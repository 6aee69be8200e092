"""Arithmetic of two operands by PyTorch's names, with the arguments that operators lack.

Shapes broadcast, and dtypes promote as in NumPy. One operand may be a number, on either side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import adapted
from clprim.errors import DefinitionError, DTypeError, quoted
from clprim.ops.elementwise.calls import arithmetic, common_dtype
from clprim.ops.registry import operator
from clprim.ops.shared.checks import is_array, number, operand
from clprim.ops.shared.strings import kernel


def _add(what: str, sign: str, a: Any, b: Any, alpha: Any, out: Any) -> Array:
    alpha = number(what, "alpha", alpha)
    if alpha == 1 or not (is_array(a) or is_array(b)):
        return arithmetic(what, {"+": "add", "-": "subtract"}[sign], a, b, out)
    a, b = operand(what, a), operand(what, b)
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
    return kernel(expr, what, common)(*scaled, out=out)


@operator(onnx="Add; Sum(*); com.microsoft::QLinearAdd(a, sa, za, b, sb, zb, sy, zy) @steps")
def add(a: Any, b: Any, *, alpha: float = 1, out: Any = None) -> Array:
    """Returns a + alpha · b.

    Args:
        a: An array or a number.
        b: Likewise; one of the two is an array.
        alpha: A number; an integer where the operands are.
        out: Where the result goes; it may be an operand.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.add(cp.asarray(np.float32([1, 2])), 10, alpha=0.5).get()
        array([6., 7.], dtype=float32)
    """
    return _add("add", "+", a, b, alpha, out)


@operator(onnx="Sub")
def sub(a: Any, b: Any, *, alpha: float = 1, out: Any = None) -> Array:
    """Returns a - alpha · b; see `add`. Two bool arrays have no difference."""
    return _add("sub", "-", a, b, alpha, out)


@operator(onnx="Div @truncated")
def div(a: Any, b: Any, *, rounding_mode: str | None = None, out: Any = None) -> Array:
    """Returns a / b.

    Args:
        a: An array or a number.
        b: Likewise; one of the two is an array.
        rounding_mode: None for the quotient itself, which of integers is float32; ``"trunc"`` and
            ``"floor"`` round it towards 0 or down, and keep integers, whose quotient by 0 is 0.
        out: Where the result goes; it may be an operand.

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
        a, b = operand("div", a), operand("div", b)
        whole = all(v.dtype.kind in "biu" if is_array(v) else isinstance(v, int) for v in (a, b))
        dtype = np.dtype(np.float32) if whole else None
    return arithmetic("div", names[rounding_mode], a, b, out, dtype)
