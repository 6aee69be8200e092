"""Determinants, by elimination with pivots."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import value_dtype
from clprim.errors import ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.reduction.extrema import argmax
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating
from clprim.ops.shared.strings import kernel

# Of a matrix that a work-item keeps to itself.
_OWN = 16


@operator(onnx="Det", sample="x")
@repeatable
def det(x: Any) -> Array:
    """Returns the determinants of square matrices.

    Args:
        x: (…, n, n) of floating numbers.

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
    dtype = check_floating(what, "x", x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{what}: expected square matrices, got shape {x.shape}")
    n, lead = x.shape[-1], x.shape[:-2]
    if n <= _OWN:
        return kernel(_alone(n, len(lead)), what, dtype)(x, shape=lead)
    kind = value_dtype(dtype, [dtype])
    rest, found = x.astype(kind), None
    at, low = len(lead), "".join(f"coord({d}), " for d in range(len(lead)))
    # A step takes the pivot's row and the first column away.
    eliminate = kernel(
        f"""
        long r = coord({at}) + 1, c = coord({at + 1}) + 1, p = at_x1({low}0);
        typeof_x0 pivot = at_x0({low}p, 0);
        r = r == p ? 0 : r;
        y0 = at_x0({low}r, c);
        if (pivot != 0) y0 -= at_x0({low}r, 0) / pivot * at_x0({low}p, c);""",
        what, kind,
    )  # fmt: skip
    grown = "y0 = (x1 != 0 ? -1 : 1) * at_x0({0}x1, 0){1};"
    for size in range(n, 0, -1):
        column = kernel("y0 = fabs(x0);", what, kind)(rest[..., 0])
        pivot = argmax(column, axis=-1)
        before: list[Any] = [] if found is None else [found]
        text = grown.format(low, " * x2" if before else "")
        found = kernel(text, what, kind)(rest, pivot, *before, shape=lead)
        if size > 1:
            shape = (*lead, size - 1, size - 1)
            rest = eliminate(rest, pivot.reshape((*lead, 1)), shape=shape)
    assert found is not None
    return found.astype(dtype)


def _alone(n: int, lead: int) -> str:
    low = "".join(f"coord({d}), " for d in range(lead))
    return f"""
        typeof_y0 a[{max(n * n, 1)}], det = 1;
        for (int i = 0; i < {n}; ++i)
            for (int j = 0; j < {n}; ++j) a[i * {n} + j] = at_x0({low}i, j);
        for (int k = 0; k < {n}; ++k) {{
            int p = k;
            for (int i = k + 1; i < {n}; ++i)
                if (fabs(a[i * {n} + k]) > fabs(a[p * {n} + k])) p = i;
            if (p != k) {{
                det = -det;
                for (int j = 0; j < {n}; ++j) {{
                    typeof_y0 t = a[k * {n} + j];
                    a[k * {n} + j] = a[p * {n} + j];
                    a[p * {n} + j] = t;
                }}
            }}
            det *= a[k * {n} + k];
            if (a[k * {n} + k] != 0) for (int i = k + 1; i < {n}; ++i) {{
                typeof_y0 f = a[i * {n} + k] / a[k * {n} + k];
                for (int j = k; j < {n}; ++j) a[i * {n} + j] -= f * a[k * {n} + j];
            }}
        }}
        y0 = det;"""
