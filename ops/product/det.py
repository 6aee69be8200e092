"""Determinants."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import value_dtype
from clprim.errors import ShapeError
from clprim.ops.linalg.solving import determinant
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating


@operator(onnx="Det", sample="x")
def det(x: Any) -> Array:
    """Returns the determinants of square matrices.

    Args:
        x: (…, n, n) of floating or complex numbers.

    Returns:
        (…), in the dtype of x.

    Raises:
        ShapeError: Matrices that are not square.
        DTypeError: No device array of floating numbers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> float(ops.det(cp.asarray(np.float32([[2, 1], [0, 3]]))).get())
        6.0
    """
    what = "det"
    dtype = check_floating(what, "x", x, complexes=True)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{what}: expected square matrices, got shape {x.shape}")
    wide = value_dtype(dtype, [dtype])
    found = determinant(x if dtype == wide else x.astype(wide))
    return found if dtype == wide else found.astype(dtype)
