"""Products of matrices of complex numbers, made of real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.call.packed import matrix_of
from clprim.dtypes import AnyDType, complex_dtype, promote, real_dtype
from clprim.errors import DTypeError
from clprim.ops.shared.checks import dtype_of, is_array, number
from clprim.primitives.pointwise import Pointwise

_PAIR = {
    (bias, old): Pointwise(
        "y0 = complex(x0, x1)" + " + x2" * bias + f" + w0 * x{2 + bias}" * old + ";",
        name="complex_product",
    )
    for bias in (False, True)
    for old in (False, True)
}


def is_complex(x: Any) -> bool:
    """Whether an operand is an array of complex numbers."""
    dtype = getattr(x, "dtype", None)
    return getattr(dtype, "kind", "") == "c"


def complex_product(
    product: Callable[..., Array], a: Any, b: Any, bias: Any, out: Any, beta: Any
) -> Array:
    """Returns the product of matrices of which one at least is complex.

    Args:
        product: That of real matrices, which takes ``out=`` and ``beta=``.
        a: As of `matmul`.
        b: As of `matmul`.
        bias: As of `matmul`.
        out: As of `matmul`.
        beta: As of `matmul`.
    """
    b = matrix_of(b)
    given = [dtype_of("matmul", label, x) for label, x in (("a", a), ("b", b))]
    beta = number("matmul", "beta", beta)
    if beta and out is None:
        raise DTypeError(f"matmul: beta={beta} needs out=, whose old value it scales")
    found = complex_dtype(promote(given))
    if is_array(out) and np.dtype(out.dtype) != found:
        raise DTypeError(f"matmul: out is {out.dtype}, expected {found}")
    part = real_dtype(found)
    (ar, ai), (br, bi) = _parts(a, part), _parts(b, part)
    if ai is None:
        re, im = product(ar, br), product(ar, bi)
    elif bi is None:
        re, im = product(ar, br), product(ai, br)
    else:
        re = product(ar, br, out=product(ai, bi), beta=-1)
        im = product(ai, br, out=product(ar, bi), beta=1)
    arrays = [re, im, *([] if bias is None else [bias]), *([out] if beta else [])]
    operator = _PAIR[bias is not None, bool(beta)]
    return operator(*arrays, *([beta] if beta else []), out=out)


def _parts(x: Any, dtype: AnyDType) -> tuple[Array, Array | None]:
    """Both parts without gaps, or a real matrix and None."""
    if x.dtype.kind != "c":
        return x if x.dtype == dtype else x.astype(dtype), None
    re, im = (p.copy() if p.dtype == dtype else p.astype(dtype) for p in (x.real, x.imag))
    return re, im
