"""Spectral decompositions, by Jacobi's rotations.

Matrices of up to 64 rows are decomposed by kernels, of tall ones the triangle; others of up to 1024
by blocks, where that beats NumPy on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.dtypes import real_dtype
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.elementwise.choices import where
from clprim.ops.linalg.blocks import singular, spectrum
from clprim.ops.linalg.orthogonal import qr
from clprim.ops.linalg.shared import (
    adjoint,
    alike,
    by_blocks,
    checked,
    eye,
    fitting,
    matrices,
    on_diagonal,
    on_host,
    repeated,
    with_gradient,
    zero_info,
)
from clprim.ops.product.matmul import matmul
from clprim.ops.shape.join import cat
from clprim.ops.shape.turn import tril, triu
from clprim.ops.shared.sums import SUM
from clprim.primitives.decomposition import Options, decompose

# --- symmetric and Hermitian matrices ------------------------------------------------------------


def _skew(x: Any) -> Any:
    return x - adjoint(x)


def _turned(c: Any) -> Any:
    w, v, _ = c.made
    dw, dv = c.grads[:2]
    gaps = w[..., None, :] - w[..., :, None]
    gaps = where(on_diagonal(gaps), 1, gaps)
    inner = where(on_diagonal(gaps), zeros((), v.dtype), _skew(matmul(adjoint(v), dv)) / (2 * gaps))
    inner = inner + where(on_diagonal(gaps), dw[..., None, :].astype(v.dtype), zeros((), v.dtype))
    return matmul(matmul(v, inner), adjoint(v))


@with_gradient("A", _turned, 2)
def eigh_ex(A: Any, UPLO: str = "L") -> tuple[Array, Array, Array]:
    """Returns what `eigh` does, and whether there is no such: of what is not finite."""
    return _rotated(A, UPLO, ("w", "v", "info"))


def _rotated(A: Any, UPLO: str, names: tuple[str, ...]) -> tuple[Any, ...]:
    what = "linalg.eigh"
    dtype = matrices(what, "A", A, square=True)
    if not isinstance(UPLO, str) or UPLO not in ("L", "U", "l", "u"):
        raise DefinitionError(f"{what}: UPLO={quoted(UPLO)}: expected 'L' or 'U'")
    upper = UPLO in "Uu"
    vectors = "v" in names
    if not A.size:
        w = zeros(A.shape[:-1], real_dtype(dtype))
        return (w, A.copy(), zero_info(A)) if vectors else (w, zero_info(A))
    if fitting("eigh", A):
        w, *rest = decompose(Options("eigh", names), A.mT if upper else A)
        if vectors and upper and dtype.kind == "c":
            rest[0] = rest[0].conj()
        return w, *rest
    if by_blocks(A):
        half = triu(A, 1) if upper else tril(A, -1)
        real = where(on_diagonal(A), A.real if dtype.kind == "c" else A, 0).astype(dtype)
        w, v, info = spectrum(half + adjoint(half) + real)
        return (w, v, info) if vectors else (w, info)
    side: Any = UPLO.upper()
    if vectors:
        found = on_host(what, lambda a: tuple(np.linalg.eigh(a, side)), A)
        return *found, zero_info(A)
    return on_host(what, lambda a: np.linalg.eigvalsh(a, side), A), zero_info(A)


def eigh(A: Any, UPLO: str = "L") -> tuple[Array, Array]:
    """Returns the eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        A: (…, n, n), of which one triangle is read.
        UPLO: Which: ``"L"``, the lower, or ``"U"``.

    Returns:
        (…, n), real, and (…, n, n), whose columns are the vectors.

    Raises:
        SingularError: A matrix is not finite; in a trace, which cannot look, there are NaN.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.linalg.eigh(cp.asarray(np.float32([[3, 0], [0, 1]])))[0].get()
        array([1., 3.], dtype=float32)
    """
    w, v, info = eigh_ex(A, UPLO)
    checked("linalg.eigh", info, "eigenvalues of a matrix did not converge")
    return w, v


def eigvalsh(A: Any, UPLO: str = "L") -> Array:
    """Returns the eigenvalues alone; see `eigh`."""
    w, info = eigvalsh_ex(A, UPLO)
    checked("linalg.eigvalsh", info, "eigenvalues of a matrix did not converge")
    return w


def _of_values(c: Any) -> Any:
    v = eigh_ex(c.A, c.UPLO)[1]
    return matmul(v * c.grad[..., None, :].astype(v.dtype), adjoint(v))


@with_gradient("A", _of_values)
def eigvalsh_ex(A: Any, UPLO: str) -> tuple[Array, Array]:
    """Returns what `eigvalsh` does, and whether there is no such."""
    return _rotated(A, UPLO, ("w", "info"))


# --- other square matrices ------------------------------------------------------------------------


def eig(A: Any) -> tuple[Array, Array]:
    """Returns the eigenvalues and eigenvectors of square matrices, which NumPy computes.

    Args:
        A: (…, n, n).

    Returns:
        (…, n) and (…, n, n), whose columns are the vectors; both complex.

    Raises:
        SingularError: A matrix is not finite.

    Example:
        >>> import warnings, numpy as np, clprim as cp
        >>> from clprim import ops
        >>> with warnings.catch_warnings():  # that it is the host, which is said once
        ...     warnings.simplefilter("ignore")
        ...     values, vectors = ops.linalg.eig(cp.asarray(np.float32([[1, 0], [0, 2]])))
        >>> values.get()
        array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    return _unlike("linalg.eig", A, np.linalg.eig)


def eigvals(A: Any) -> Array:
    """Returns the eigenvalues of square matrices alone; see `eig`."""
    return _unlike("linalg.eigvals", A, lambda a: (np.linalg.eigvals(a),))[0]


def _unlike(what: str, a: Any, compute: Any) -> Any:
    dtype = matrices(what, "A", a, square=True)
    kind = np.result_type(dtype, np.complex64)
    why = "no kernel takes matrices that are not Hermitian"
    return on_host(what, lambda a: tuple(x.astype(kind) for x in compute(a)), a, why=why)


# --- singular values -----------------------------------------------------------------------------


def _singular(c: Any) -> Any:
    (u, s, vh, _), (du, ds, dvh) = c.made, c.grads[:3]
    if c.full_matrices and c.A.shape[-1] != c.A.shape[-2]:
        raise DefinitionError("linalg.svd: no gradient with full_matrices=True: expected False")
    kind, k = u.dtype, s.shape[-1]
    squares = s * s
    gaps = squares[..., None, :] - squares[..., :, None]
    gaps = where(on_diagonal(gaps), 1, gaps)
    column, row = s[..., None, :].astype(kind), s[..., :, None].astype(kind)
    of_u, of_v = matmul(adjoint(u), du), matmul(vh, adjoint(dvh))
    inner = _skew(of_u) / gaps * column + row * (_skew(of_v) / gaps)
    inner = inner + where(on_diagonal(gaps), ds[..., None, :].astype(kind), zeros((), kind))
    if kind.kind == "c":
        halved = _skew(of_u) / (2 * column)
        inner = inner + where(on_diagonal(gaps), halved, zeros((), kind))
    found = matmul(matmul(u, inner), vh)
    if c.A.shape[-2] > k:
        rest = (du - matmul(u, of_u)) / column
        found = found + matmul(rest, vh)
    if c.A.shape[-1] > k:
        rest = (dvh - matmul(adjoint(of_v), vh)) / row
        found = found + matmul(u, rest)
    return found


@with_gradient("A", _singular, 3)
def svd_ex(A: Any, full_matrices: bool = True) -> tuple[Array, Array, Array, Array]:
    """Returns what `svd` does, and whether there is no such: of what is not finite."""
    what = "linalg.svd"
    dtype = matrices(what, "A", A)
    lead, (m, n) = A.shape[:-2], A.shape[-2:]
    if m < n:
        v, s, u, info = svd_ex(A.mT, full_matrices)
        return u.mT, s, v.mT, info
    if not A.size:
        k = m if full_matrices else n
        u, vh = (repeated(eye(size, dtype), lead) for size in ((m, k), (n, n)))
        return u.copy(), zeros((*lead, n), real_dtype(dtype)), vh.copy(), zero_info(A)
    if fitting("svd", A) and not (full_matrices and m > n):
        names = ("u", "s", "v", "info")
        return decompose(Options("svd", names), A)  # type: ignore[return-value]
    if fitting("qr", A, m if full_matrices else n):
        q, r = qr(A, "complete" if full_matrices else "reduced")
        u, s, vh, info = svd_ex(r[..., :n, :], full_matrices=False)
        u = matmul(q[..., :n], u)
        return cat([u, q[..., n:]], -1) if m > n and full_matrices else u, s, vh, info
    if by_blocks(A):
        return singular(A, full_matrices)
    found = on_host(what, lambda a: tuple(np.linalg.svd(a, full_matrices)), A)
    return *found, zero_info(A)


def svd(A: Any, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Returns U, S, Vᴴ with A = U S Vᴴ, and singular values in descending order.

    Args:
        A: (…, m, n).
        full_matrices: Whether U and V are square, or have min(m, n) columns.

    Raises:
        SingularError: A matrix is not finite; in a trace, which cannot look, there are NaN.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.linalg.svd(cp.asarray(np.float32([[0, 2], [3, 0]])))[1].get()
        array([3., 2.], dtype=float32)
    """
    *found, info = svd_ex(A, full_matrices)
    checked("linalg.svd", info, "singular values of a matrix did not converge")
    return tuple(found)


def svdvals(A: Any) -> Array:
    """Returns the singular values alone; see `svd`."""
    s, info = svdvals_ex(A)
    checked("linalg.svdvals", info, "singular values of a matrix did not converge")
    return s


def _of_singular_values(c: Any) -> Any:
    u, _, vh, _ = svd_ex(c.A, full_matrices=False)
    return matmul(u * c.grad[..., None, :].astype(u.dtype), vh)


@with_gradient("A", _of_singular_values)
def svdvals_ex(A: Any) -> tuple[Array, Array]:
    """Returns what `svdvals` does, and whether there is no such."""
    dtype = matrices("linalg.svdvals", "A", A)
    m, n = A.shape[-2:]
    if not A.size:
        return zeros((*A.shape[:-2], min(m, n)), real_dtype(dtype)), zero_info(A)
    a = A if m >= n else A.mT
    if fitting("svd", a):
        return decompose(Options("svd", ("s", "info")), a)  # type: ignore[return-value]
    if by_blocks(a):
        return singular(a, full=False)[1::2]
    found = on_host("linalg.svdvals", lambda a: np.linalg.svd(a, compute_uv=False), A)
    return found, zero_info(A)


# --- least squares -------------------------------------------------------------------------------


def lstsq(A: Any, B: Any, rcond: Any = None) -> tuple[Array, Array, Array, Array]:
    """Returns the shortest X for which the squares of A X - B are least, by singular values.

    Args:
        A: (…, m, n).
        B: (…, m, k).
        rcond: Which share of the largest singular value others exceed that count; by default the
            dtype's epsilon times the larger of m and n.

    Returns:
        X, (…, n, k); the sums of squares that are left, (…, k); how many singular values count,
        (…), int64; and these, (…, min(m, n)).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a, b = cp.asarray(np.float32([[2], [0]])), cp.asarray(np.float32([[4], [3]]))
        >>> x, left, rank, _ = ops.linalg.lstsq(a, b)
        >>> x.get(), left.get()
        (array([[2.]], dtype=float32), array([9.], dtype=float32))
    """
    what = "linalg.lstsq"
    dtype = matrices(what, "A", A)
    matrices(what, "B", B)
    if A.shape[-2] != B.shape[-2]:
        raise ShapeError(f"{what}: A has shape {A.shape} and B {B.shape}, expected as many rows")
    a, b = alike(what, A, B)
    u, s, vh = svd(a, full_matrices=False)
    if rcond is None:
        rcond = max(a.shape[-2:]) * float(np.finfo(real_dtype(dtype)).eps)
    large = s > (s.max(axis=-1, keepdims=True) * rcond if s.size else s)
    inverse = where(large, 1 / where(large, s, 1), 0)
    x = matmul(adjoint(vh), inverse[..., None].astype(a.dtype) * matmul(adjoint(u), b))
    return x, SUM(abs(b - matmul(a, x)) ** 2, axis=-2), large.astype(np.int64).sum(axis=-1), s
