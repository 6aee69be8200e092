"""Whether numbers are close to each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import adapted
from clprim.ops.reduction.reduce import all as all_of
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, is_array, number, real
from clprim.ops.shared.strings import kernel
from clprim.runtime.device import current_device


@operator()
def isclose(
    a: Any,
    b: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
    *,
    out: Any = None,
) -> Array:
    """Returns whether elements are within ``atol + rtol · |b|`` of each other, as bool.

    Equal infinities are close, other infinities are not.

    Args:
        a: An array.
        b: An array or a number.
        rtol: The difference there may be, as a part of b.
        atol: That there may be besides.
        equal_nan: Whether two NaN are close.
    """
    what = "isclose"
    given = dtype_of(what, "a", a)
    b = b if is_array(b) else adapted(number(what, "b", b), given)
    relative, absolute = real(what, "rtol", rtol), real(what, "atol", atol)
    dtypes = [given, *([b.dtype] if is_array(b) else [])]
    whole = any(d.kind in "iu" and d.itemsize > 2 for d in dtypes)
    paired = any(d.kind == "c" for d in dtypes)
    wide = (
        np.float64 in dtypes or np.complex128 in dtypes or (whole and current_device().traits.fp64)
    )
    c, other = "double" if wide else "float", "x1" if is_array(b) else "w2"
    size = "abs" if paired else "fabs"
    operands_ = f"{c}2" if paired else c
    nan = f" || (x0 != x0 && {other} != {other})" if equal_nan else ""
    # Without a tolerance they are equal or not, which a difference in floats does not tell.
    near = f"d < INFINITY && d <= low + high * {size}(b)" if relative or absolute else "(void)d, 0"
    expr = (
        f"const {operands_} a = x0, b = {other}; "
        f"const {c} low = w0, high = w1, d = {size}(a - b); "
        f"y0 = x0 == {other} || ({near}){nan};"
    )
    numbers = [np.float64(v) if wide else np.float32(v) for v in (absolute, relative)]
    operator = kernel(expr, what, np.dtype(np.bool_))
    operands = (a, b, *numbers) if is_array(b) else (a, *numbers, b)
    return operator(*operands, out=out)


@operator()
def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Returns whether all elements are close to each other, as `isclose` says; of none True."""
    return bool(all_of(isclose(a, b, rtol, atol, equal_nan)).get())
