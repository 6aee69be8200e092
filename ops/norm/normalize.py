"""Vectors of length 1, as in `torch.nn.functional`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, DTypeError
from clprim.ops.gradients.vjp import vjp
from clprim.ops.registry import operator
from clprim.ops.shared.checks import real
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.sums import added
from clprim.primitives.grouped import Grouped


@operator()
def normalize(
    x: Any,
    p: float = 2.0,
    dim: int | None = None,
    eps: float = 1e-12,
    *,
    axis: int | None = None,
    out: Any = None,
) -> Array:
    """Returns x / max(|x|, eps) along an axis, |x| the p-norm.

    Args:
        x: Of floating-point numbers, any shape and memory format.
        p: The norm: more than 0.
        dim: The axis; 1 by default.
        eps: The least length.
        axis: Another name of ``dim``.
        out: Where the result goes; may be ``x``.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.normalize(cp.asarray(np.float32([[3, 4], [0, 0]]))).get()
        array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """
    found, numbers = _arguments("normalize", x, p, dim, axis, eps)
    result: Array = _forward(x.dtype, numbers[0])(x, *numbers, axis=found, out=out)
    return result


normalize_backward = vjp(normalize, "x", "; where the length is below ``eps``, grad / eps")


def _arguments(
    what: str, x: Any, p: Any, dim: Any, axis: Any, eps: Any
) -> tuple[int, tuple[float, float]]:
    found = one_axis(what, x, dim, axis, default=1)
    if x.dtype.kind in "biu":
        raise DTypeError(f"{what}: x is {x.dtype}, expected floating-point numbers")
    norm = real(what, "p", p)
    if not 0 < norm < math.inf:
        raise DefinitionError(f"{what}: p={p}: expected a finite number above 0")
    return found, (norm, real(what, "eps", eps))


def _parts(p: float) -> tuple[str, str]:
    """Of a norm: what is summed up, and the length."""
    if p == 2:
        return "x0 * x0", "sqrt(reduce_y0)"
    if p == 1:
        return "fabs(x0)", "reduce_y0"
    return "pow(fabs(x0), w0)", "pow(reduce_y0, 1 / w0)"


@lru_cache(maxsize=32)
def _forward(dtype: AnyDType, p: float) -> Grouped:
    term, length = _parts(p)
    # w0 is the norm, w1 the least length.
    return Grouped(
        f"y0 = {term} + 0 * w0;",
        **added(1),
        finalize=f"typeof_reduce_y0 n = {length}; group_y0 = n < w1 ? w1 : n;",
        each="y0 = x0 / group_y0;",
        result_type=dtype,
        name="normalize_of",
    )
