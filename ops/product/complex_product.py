"""Products of matrices of complex numbers, made of real ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.call.packed import matrix_of
from clprim.dtypes import AnyDType, complex_dtype, promote, real_dtype, stored_type
from clprim.errors import DTypeError
from clprim.language.complex_numbers import lowered
from clprim.language.epilogue_snippet import define_epilogue
from clprim.ops.product.arguments import check_bias, check_result
from clprim.ops.shared.checks import dtype_of, is_array, number
from clprim.ops.shared.epilogue import append, check_epilogue, split_arguments
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import current_device


def is_complex(x: Any) -> bool:
    """Whether an operand is an array of complex numbers."""
    dtype = getattr(x, "dtype", None)
    return getattr(dtype, "kind", "") == "c"


def complex_product(
    product: Callable[..., Array],
    a: Any,
    b: Any,
    bias: Any,
    epilogue: str | None,
    epilogue_args: Any,
    out: Any,
    beta: Any,
) -> Array:
    """Returns the product of matrices of which one at least is complex.

    The kernel that joins both parts adds the bias and runs the epilogue.

    Args:
        product: That of real matrices, which takes ``out=`` and ``beta=``.
        a: As of `matmul`.
        b: As of `matmul`.
        bias: As of `matmul`.
        epilogue: As of `matmul`.
        epilogue_args: As of `matmul`.
        out: As of `matmul`.
        beta: As of `matmul`.
    """
    what = "matmul"
    b = matrix_of(b)
    given = [dtype_of(what, label, x) for label, x in (("a", a), ("b", b))]
    beta = number(what, "beta", beta)
    found = complex_dtype(promote(given))
    if is_array(out) and np.dtype(out.dtype) != found:
        raise DTypeError(f"{what}: out is {out.dtype}, expected {found}")
    part = real_dtype(found)
    (ar, ai), (br, bi) = _parts(a, part), _parts(b, part)
    if ai is None:
        re, im = product(ar, br), product(ar, bi)
    elif bi is None:
        re, im = product(ar, br), product(ai, br)
    else:
        re = product(ar, br, out=product(ai, bi), beta=-1)
        im = product(ai, br, out=product(ar, bi), beta=1)
    device = current_device()
    extras, numbers = split_arguments(epilogue_args)
    biases = () if bias is None else (bias,)
    if biases:
        check_bias(what, device, bias, found, re.shape[-1] if b.ndim > 1 else 1)
    check_epilogue(what, device, epilogue, epilogue_args, re.shape, found)
    read = (*extras, *biases)
    check_result(what, out, device, re.shape, found, inputs=(), extras=read, beta=beta)
    kinds = (
        tuple(x.dtype for x in extras),
        tuple(found if np.iscomplexobj(n) else part for n in numbers),
    )
    joined = _joined(what, found, bool(biases), epilogue, kinds, bool(beta))
    old, scale = ((out,), (beta,)) if beta else ((), ())
    return joined(re, im, *biases, *extras, *old, *numbers, *scale, shape=re.shape, out=out)


@lru_cache(maxsize=256)
def _joined(
    what: str,
    dtype: AnyDType,
    bias: bool,
    epilogue: str | None,
    kinds: tuple[tuple[AnyDType, ...], tuple[AnyDType, ...]],
    old: bool,
) -> Pointwise:
    """Both parts, the bias, an epilogue of arrays and numbers of some dtypes, the old result."""
    arrays, numbers = kinds
    if epilogue is not None:
        types = {f"x{n}": d for n, d in enumerate(arrays)} | {"y0": dtype}
        types |= {f"w{n}": d for n, d in enumerate(numbers)}
        # Refuses what has no meaning of complex numbers, in the text that the user wrote.
        known = tuple((name, stored_type(d).value) for name, d in types.items())
        lowered(define_epilogue(what, epilogue), known)
    text = append(what, "y0 = complex(x0, x1)" + " + x2" * bias + ";", epilogue, 2 + bias, 0)
    text += f"\ny0 += w{len(numbers)} * x{2 + bias + len(arrays)};" * old
    return kernel(text, what, dtype)


def _parts(x: Any, dtype: AnyDType) -> tuple[Array, Array | None]:
    """Both parts without gaps, or a real matrix and None."""
    if x.dtype.kind != "c":
        return x if x.dtype == dtype else x.astype(dtype), None
    re, im = (p.copy() if p.dtype == dtype else p.astype(dtype) for p in (x.real, x.imag))
    return re, im
