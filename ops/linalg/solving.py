"""Systems of equations, inverses and determinants, by elimination with pivots.

Matrices of up to 64 rows are eliminated by one kernel, larger ones by blocks of columns, whose
updates are products of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, ones, zeros
from clprim.dtypes import real_dtype
from clprim.errors import ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.elementwise.choices import where
from clprim.ops.index.gather import take_along_dim
from clprim.ops.index.index import index
from clprim.ops.linalg.shared import (
    MOST,
    adjoint,
    alike,
    blocks,
    checked,
    eye,
    fitting,
    matrices,
    on_host,
    panel,
    repeated,
    summed,
    with_gradient,
    zero_info,
)
from clprim.ops.product.matmul import matmul
from clprim.ops.shape.join import cat
from clprim.ops.shape.turn import diagonal, tril, triu
from clprim.ops.shared.strings import kernel
from clprim.plan.decomposition.problem import LARGEST
from clprim.primitives.decomposition import Options, decompose

# Columns that a work-item solves for; more are shared among others.
_COLUMNS = 16


def identity(a: Any) -> Array:
    """Returns matrices of zeros and ones as large as square ones."""
    found: Array = repeated(eye(a.shape[-2:], a.dtype), a.shape[:-2])
    return found


def _first(info: Any, later: Any, k: int) -> Any:
    """Returns where the first thing was wrong, of a block that begins at k."""
    return kernel("y0 = x0 == 0 && x1 > 0 ? x1 + w0 : x0;", "first", np.int32)(info, later, k)


def _subtract(block: Any, left: Any, right: Any) -> None:
    """Subtracts a product from a block, where it lies."""
    block[...] = block - matmul(left, right)


# --- LU ------------------------------------------------------------------------------------------


_PARTS = Options("lu", ("lu", "pivots", "info"))


def lu_parts(a: Any) -> tuple[Array, Array, Array]:
    """Returns (lu, pivots, info): both triangles, and with which row each one was swapped.

    Rows count from 1, as LAPACK has it. ``info`` is the number of the first pivot that is 0, or 0.
    """
    if not a.size:
        return a.copy(), zeros((*a.shape[:-2], min(a.shape[-2:])), np.int32), zero_info(a)
    if fitting("lu", a):
        return decompose(_PARTS, a)  # type: ignore[return-value]
    return _blocked_lu(a)


@repeatable
def _blocked_lu(a: Any) -> tuple[Array, Array, Array]:
    m, n = a.shape[-2:]
    a, width = a.copy(), blocks("lu", a, 32)
    pivots, info = [], zero_info(a)
    rank = min(m, n)
    for k in range(0, rank, width):
        stop = min(k + width, rank)
        lu, swaps, wrong = decompose(_PARTS, panel(a, k, stop))
        pivots.append(swaps + k)
        info = _first(info, wrong, k)
        order = rows_of(swaps, m - k)
        a[..., k:, :] = take_along_dim(a[..., k:, :], order[..., None], -2)
        a[..., k:, k:stop] = lu[..., : m - k, :]
        if stop < n:
            top = a[..., k:stop, stop:]
            top[...] = substituted(a[..., k:stop, k:stop], top, upper=False, unit=True)
            if stop < m:
                _subtract(a[..., stop:, stop:], a[..., stop:, k:stop], top)
    return a, cat(pivots, -1), info


def rows_of(pivots: Any, m: int, *, back: bool = False) -> Any:
    """Returns which row of a matrix comes where by swaps, or with ``back`` where each one comes."""
    low = "".join(f"coord({d}), " for d in range(pivots.ndim - 1))
    steps = "k = 0; k < n; ++k" if back else "k = n - 1; k >= 0; --k"
    text = f"""
long row = coord({pivots.ndim - 1}), n = size_x0({pivots.ndim - 1});
for (long {steps}) {{
    long other = at_x0({low}k) - 1;
    row = row == k ? other : row == other ? k : row;
}}
y0 = row;"""
    return kernel(text, "rows", np.int32)(pivots, shape=(*pivots.shape[:-1], m))


# --- triangles -----------------------------------------------------------------------------------


def substituted(a: Any, b: Any, *, upper: bool, unit: bool) -> Any:
    """Returns what a triangle times which is b; leading dimensions are alike."""
    n, k = b.shape[-2:]
    if not b.size:
        return b
    if n > LARGEST:
        return _by_blocks(a, b, upper=upper, unit=unit)
    options = Options("triangular", ("x",), unit=unit, upper=upper)
    if k <= 2 * _COLUMNS and fitting("triangular", a, k):
        return decompose(options, a, b)[0]
    each = next(c for c in range(_COLUMNS, 0, -1) if k % c == 0)
    apart = b.reshape((*b.shape[:-1], k // each, each)).swapaxes(-3, -2)
    same = repeated(a[..., None, :, :], apart.shape[:-2])
    return decompose(options, same, apart)[0].swapaxes(-3, -2).reshape(b.shape)


def _by_blocks(a: Any, b: Any, *, upper: bool, unit: bool) -> Any:
    n, made = b.shape[-2], b.copy()
    starts = range(0, n, LARGEST)
    for k in reversed(starts) if upper else starts:
        stop = min(k + LARGEST, n)
        rows = made[..., k:stop, :]
        known = slice(stop, n) if upper else slice(0, k)
        if known.start < known.stop:
            _subtract(rows, a[..., k:stop, known], made[..., known, :])
        rows[...] = substituted(a[..., k:stop, k:stop], rows, upper=upper, unit=unit)
    return made


def _triangular_gradient(c: Any) -> Any:
    upper, left, unit = c.upper, c.left, c.unitriangular
    db = solve_triangular(adjoint(c.A), c.grad, upper=not upper, left=left, unitriangular=unit)
    da = matmul(db, adjoint(c.output)) if left else matmul(adjoint(c.output), db)
    da = (triu if upper else tril)(-da, (1 if upper else -1) if unit else 0)
    return summed(da, c.A.shape), summed(db, c.B.shape)


@with_gradient("A B", _triangular_gradient)
def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:  # fmt: skip
    """Returns X of A X = B, or X A = B where not ``left``, for triangles A.

    Args:
        A: (…, n, n), of which the other triangle is not read.
        B: (…, n, k), or (…, k, n).
        upper: Whether A is an upper triangle.
        left: Whether A stands left.
        unitriangular: Whether A's diagonal is taken for ones.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a, b = cp.asarray(np.float32([[2, 0], [1, 1]])), cp.asarray(np.float32([[4], [3]]))
        >>> ops.linalg.solve_triangular(a, b, upper=False).get()
        array([[2.],
               [1.]], dtype=float32)
    """
    what = "linalg.solve_triangular"
    matrices(what, "A", A, square=True)
    matrices(what, "B", B)
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise ShapeError(f"{what}: A has shape {A.shape} and B {B.shape}, expected as many rows")
    if not left:
        return solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
    a, b = alike(what, A, B)
    found: Array = substituted(a, b, upper=bool(upper), unit=bool(unitriangular))
    return found


# --- systems of equations ------------------------------------------------------------------------


def _solved(c: Any) -> Any:
    db = solve_ex(adjoint(c.A), c.grad)[0]
    da = -matmul(db, adjoint(c.output))
    return summed(da, c.A.shape), summed(db, c.B.shape)


@with_gradient("A B", _solved)
def solve_ex(A: Any, B: Any) -> tuple[Array, Array]:
    """Returns X of A X = B as `solve` does, and the number of the first pivot that is 0, or 0."""
    what = "linalg.solve"
    matrices(what, "A", A, square=True)
    matrices(what, "B", B)
    if A.shape[-1] != B.shape[-2]:
        raise ShapeError(f"{what}: A has shape {A.shape} and B {B.shape}, expected as many rows")
    a, b = alike(what, A, B)
    if not b.size:
        return b.copy(), zero_info(a)
    if fitting("solve", a, b.shape[-1]):
        return decompose(Options("solve", ("x", "info")), a, b)  # type: ignore[return-value]
    if a.shape[-1] > MOST:
        return on_host(what, np.linalg.solve, a, b), zero_info(a)
    lu, pivots, info = lu_parts(a)
    moved = take_along_dim(b, rows_of(pivots, a.shape[-1])[..., None], -2)
    half = substituted(lu, moved, upper=False, unit=True)
    return substituted(lu, half, upper=True, unit=False), info


def solve(A: Any, B: Any, *, left: bool = True) -> Array:
    """Returns X of A X = B, or X A = B where not ``left``.

    Args:
        A: (…, n, n).
        B: (…, n, k), or (n,), or (…, n) where A has as many dimensions and one more of the same
            sizes, as PyTorch has it.
        left: Whether A stands left.

    Raises:
        SingularError: A matrix is singular; in a trace, which cannot look, X is not finite.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a, b = cp.asarray(np.float32([[2, 1], [1, 3]])), cp.asarray(np.float32([3, 4]))
        >>> ops.linalg.solve(a, b).get()
        array([1., 1.], dtype=float32)
    """
    what = "linalg.solve"
    matrices(what, "A", A, square=True)
    alone = getattr(B, "ndim", 0) == 1 or getattr(B, "shape", None) == A.shape[:-1]
    b = B[..., None] if alone else B
    if not left and not alone:
        return solve(A.mT, b.mT).mT
    found, info = solve_ex(A if left else A.mT, b)
    checked(what, info, "a matrix is singular")
    return found[..., 0] if alone else found


def _inverted(c: Any) -> Any:
    back = adjoint(c.output)
    return -matmul(matmul(back, c.grad), back)


@with_gradient("A", _inverted)
def inv_ex(A: Any) -> tuple[Array, Array]:
    """Returns inverses as `inv` does, and the number of the first pivot that is 0, or 0."""
    matrices("linalg.inv", "A", A, square=True)
    if A.size and fitting("inv", A, A.shape[-1]):
        return decompose(Options("inv", ("x", "info")), A)  # type: ignore[return-value]
    return solve_ex(A, identity(A))


def inv(A: Any) -> Array:
    """Returns the inverses of matrices.

    Args:
        A: (…, n, n).

    Raises:
        SingularError: A matrix is singular; in a trace, which cannot look, its inverse is not
            finite.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.linalg.inv(cp.asarray(np.float32([[2, 0], [0, 4]]))).get()
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    found, info = inv_ex(A)
    checked("linalg.inv", info, "a matrix is singular")
    return found


def _logarithms(c: Any) -> Any:
    sign, _ = c.made
    weight = c.grads[1]
    if c.A.dtype.kind == "c":
        turn = kernel("y0 = complex(x1, imag(x0 * conj(x2)));", "slogdet", c.A.dtype)
        weight = turn(c.grads[0], weight, sign)
    return weight[..., None, None] * adjoint(inv_ex(c.A)[0])


@with_gradient("A", _logarithms, 2)
def slogdet(A: Any) -> tuple[Array, Array]:
    """Returns the signs of determinants, and logarithms of what they are without.

    Args:
        A: (…, n, n).

    Returns:
        Both (…); of a singular matrix 0 and -inf.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> sign, logarithm = ops.linalg.slogdet(cp.asarray(np.float32([[0, 1], [1, 0]])))
        >>> float(sign.get()), float(logarithm.get())
        (-1.0, 0.0)
    """
    dtype, lead = matrices("linalg.slogdet", "A", A, square=True), A.shape[:-2]
    if not A.shape[-1]:
        return ones(lead, dtype), zeros(lead, real_dtype(dtype))
    if not A.size or fitting("det", A):
        return decompose(Options("det", ("det", "logabs")), A)  # type: ignore[return-value]
    if A.shape[-1] > MOST:
        return on_host("linalg.slogdet", lambda a: tuple(np.linalg.slogdet(a)), A)
    values, parity = _diagonal(A)
    size = abs(values)
    turned = where(size == 0, size, values / size)
    return turned.prod(-1) * parity, kernel("y0 = log(x0);", "logarithm", size.dtype)(size).sum(-1)


def _cofactors(c: Any) -> Any:
    """What is left of each element's row and column, with a sign; of singular matrices as well."""
    n = c.a.shape[-1]
    if n < 2:
        return c.grad.reshape(c.a.shape)
    if n > LARGEST:
        scaled = c.output.conj() if c.output.dtype.kind == "c" else c.output
        return (c.grad * scaled)[..., None, None] * adjoint(inv_ex(c.a)[0])
    rest = np.array([[k for k in range(n) if k != i] for i in range(n)])
    rows, columns = (asarray(rest.reshape(s)) for s in ((n, 1, n - 1, 1), (1, n, 1, n - 1)))
    less = index(c.a, [*[None] * (c.a.ndim - 2), rows, columns])
    signs = asarray(1 - 2.0 * (np.add.outer(np.arange(n), np.arange(n)) % 2)).astype(c.a.dtype)
    found = determinant(less) * signs
    return (found.conj() if found.dtype.kind == "c" else found) * c.grad[..., None, None]


@with_gradient("a", _cofactors)
def determinant(a: Any) -> Array:
    """Returns determinants of square matrices."""
    lead = a.shape[:-2]
    if not a.shape[-1]:
        return ones(lead, a.dtype)
    if not a.size or fitting("det", a):
        return decompose(Options("det", ("det",)), a)[0]
    if a.shape[-1] > MOST:
        return on_host("linalg.det", np.linalg.det, a)
    values, parity = _diagonal(a)
    found: Array = values.prod(-1) * parity
    return found


def _diagonal(a: Any) -> tuple[Any, Any]:
    """Returns U's diagonal, and 1 or -1 by how many rows were swapped."""
    lu, pivots, _ = lu_parts(a)
    place = asarray(np.arange(1, 1 + a.shape[-1], dtype=np.int32))
    swapped = kernel("y0 = x0 == x1 ? 1 : -1;", "parity", real_dtype(a.dtype))(pivots, place)
    return diagonal(lu, 0, -2, -1), swapped.prod(-1)


# --- Cholesky ------------------------------------------------------------------------------------


def _factored(c: Any) -> Any:
    lower = adjoint(c.output) if c.upper else c.output
    grad = adjoint(c.grad) if c.upper else c.grad
    inner = tril(matmul(adjoint(lower), grad))
    halved = kernel("y0 = coord(0) == coord(1) ? x0 * w0 : x0;", "halved", inner.dtype)
    shape = inner.shape
    inner = halved(inner.reshape((-1, *shape[-2:])).transpose(1, 2, 0), 0.5)
    inner = inner.transpose(2, 0, 1).reshape(shape)
    left = solve_triangular(adjoint(lower), inner, upper=True)
    found = solve_triangular(lower, left, upper=False, left=False)
    return (found + adjoint(found)) * 0.5


@with_gradient("A", _factored)
def cholesky_ex(A: Any, *, upper: bool = False) -> tuple[Array, Array]:
    """Returns factors as `cholesky` does, and the first row that is not positive definite, or 0."""
    what = "linalg.cholesky"
    matrices(what, "A", A, square=True)
    if not A.size:
        return A.copy(), zero_info(A)
    a = A.mT if upper else A
    if fitting("cholesky", a):
        lower, info = decompose(Options("cholesky", ("l", "info")), a)
    elif a.shape[-1] > MOST:
        lower, info = on_host(what, np.linalg.cholesky, a), zero_info(a)
    else:
        lower, info = _blocked_cholesky(a)
    # Of conjugated matrices it is conjugated, so that this is the factor of what was given.
    return lower.mT if upper else lower, info


@repeatable
def _blocked_cholesky(a: Any) -> tuple[Array, Array]:
    n, a = a.shape[-1], tril(a)
    info = zero_info(a)
    width = blocks("cholesky", a[..., :LARGEST, :LARGEST], LARGEST)
    for k in range(0, n, width):
        stop = min(k + width, n)
        lower, wrong = decompose(Options("cholesky", ("l", "info")), a[..., k:stop, k:stop])
        a[..., k:stop, k:stop] = lower
        info = _first(info, wrong, k)
        if stop < n:
            below = a[..., stop:, k:stop]
            below[...] = adjoint(substituted(lower, adjoint(below), upper=False, unit=False))
            _subtract(a[..., stop:, stop:], below, adjoint(below))
    return tril(a), info


def cholesky(A: Any, *, upper: bool = False) -> Array:
    """Returns lower triangles L with A = L Lᴴ, or where ``upper`` the upper ones, of A = Uᴴ U.

    Args:
        A: (…, n, n), symmetric or Hermitian, and positive definite; one triangle is read.
        upper: Which triangle is read and returned.

    Raises:
        SingularError: A matrix is not positive definite; in a trace, which cannot look, there are
            NaN.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.linalg.cholesky(cp.asarray(np.float32([[4, 2], [2, 10]]))).get()
        array([[2., 0.],
               [1., 3.]], dtype=float32)
    """
    found, info = cholesky_ex(A, upper=upper)
    checked("linalg.cholesky", info, "a matrix is not positive definite")
    return found


# --- what PyTorch calls them ----------------------------------------------------------------------


def lu_factor_ex(A: Any) -> tuple[Array, Array, Array]:
    """Returns (LU, pivots, info): both triangles in one, and LAPACK's pivots, from 1 on."""
    matrices("linalg.lu_factor", "A", A)
    return lu_parts(A)


def lu(A: Any) -> tuple[Array, Array, Array]:
    """Returns P, L, U with A = P L U, by pivots that are the largest of their columns.

    Args:
        A: (…, m, n).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> p, l, u = ops.linalg.lu(cp.asarray(np.float32([[1, 2], [2, 2]])))
        >>> u.get()
        array([[2., 2.],
               [0., 1.]], dtype=float32)
    """
    matrices("linalg.lu", "A", A)
    both, pivots, _ = lu_parts(A)
    return unpacked(both, pivots)


def unpacked(both: Any, pivots: Any) -> tuple[Any, Any, Any]:
    """Returns P, L, U of what `lu_factor_ex` returns."""
    m, n = both.shape[-2:]
    rank = min(m, n)
    low, high = both[..., :, :rank], both[..., :rank, :]
    unit = eye((m, rank), both.dtype)
    place = asarray(np.arange(m, dtype=np.int32)[:, None])
    rows = (place == rows_of(pivots, m)[..., None, :]).astype(both.dtype)
    return rows, tril(low, -1) + unit, triu(high)
