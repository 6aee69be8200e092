"""Orthogonal decompositions, by Householder's reflections.

Matrices that fit are reflected by one kernel, others of up to 1024 rows and columns in panels: the
product of a panel's reflections is I - V T Vᴴ, of which the rest is a product of matrices.
(Schreiber and Van Loan, A storage-efficient WY representation for products of Householder
transformations, 1989.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.elementwise.choices import where
from clprim.ops.linalg.shared import (
    MOST,
    adjoint,
    blocks,
    eye,
    fitting,
    matrices,
    on_diagonal,
    on_host,
    panel,
    repeated,
    with_gradient,
)
from clprim.ops.linalg.solving import identity, solve_triangular, substituted
from clprim.ops.product.matmul import matmul
from clprim.ops.shape.turn import tril, triu
from clprim.ops.shared.checks import dtype_of
from clprim.primitives.decomposition import Options, decompose

_MODES = ("reduced", "complete", "r")
_REFLECTIONS = Options("qr", ("h", "tau"))
_WIDTH = 32  # columns of a panel


@repeatable
def reflections(a: Any) -> tuple[Array, Array]:
    """Returns R with the vectors of reflections below it, as LAPACK's geqrf, and their factors."""
    m, n = a.shape[-2:]
    if fitting("qr", a, 0):
        return decompose(_REFLECTIONS, a)  # type: ignore[return-value]
    a, rank, width = a.copy(), min(m, n), blocks("qr", a, _WIDTH)
    taus = zeros((*a.shape[:-2], rank), a.dtype)
    for k in range(0, rank, width):
        stop = min(k + width, rank)
        h, tau = decompose(_REFLECTIONS, panel(a, k, stop))
        h = h[..., : m - k, :]
        a[..., k:, k:stop] = h
        taus[..., k:stop] = tau
        if stop < n:
            v, t = _compact(h, tau)
            rest = a[..., k:, stop:]
            rest[...] = rest - matmul(v, matmul(adjoint(t), matmul(adjoint(v), rest)))
    return a, taus


def _compact(h: Any, tau: Any) -> tuple[Any, Any]:
    """Returns V, and T by T⁻¹ = 1/τ + U, with the upper triangle U of Vᴴ V; τ may be 0."""
    v = tril(h, -1) + eye(h.shape[-2:], h.dtype)
    inner = triu(matmul(adjoint(v), v), 1) * tau[..., None, :]
    inverse = substituted(inner, identity(inner), upper=True, unit=True)
    return v, tau[..., :, None] * inverse


@repeatable
def reflected(h: Any, tau: Any, k: int) -> Array:
    """Returns the first k columns of the product of reflections, as LAPACK's orgqr."""
    m, count = h.shape[-2], tau.shape[-1]
    q: Array = repeated(eye((m, k), h.dtype), h.shape[:-2]).copy()
    for at in reversed(range(0, count, _WIDTH)):
        stop = min(at + _WIDTH, count)
        v, t = _compact(h[..., at:, at:stop], tau[..., at:stop])
        part = q[..., at:, at:]
        part[...] = part - matmul(v, matmul(t, matmul(adjoint(v), part)))
    return q


# --- QR ------------------------------------------------------------------------------------------


def _differentiated(c: Any) -> Any:
    (q, r), (dq, dr) = c.made, c.grads
    if c.mode != "reduced" or r.shape[-2] != r.shape[-1]:
        raise DefinitionError(
            f"linalg.qr: no gradient of mode={quoted(c.mode)} of shape {c.A.shape}: expected "
            "'reduced' of matrices that are not wide"
        )
    inner = matmul(r, adjoint(dr)) - matmul(adjoint(dq), q)
    low = tril(inner, -1)
    mirrored = low + adjoint(low) + _diagonal_part(inner)
    left = dq + matmul(q, mirrored)
    return solve_triangular(adjoint(r), left, upper=False, left=False)


def _diagonal_part(x: Any) -> Any:
    """Returns the real part of a diagonal, with zeros elsewhere."""
    real = x.real if x.dtype.kind == "c" else x
    return where(on_diagonal(x), real.astype(x.dtype), zeros((), x.dtype))


@with_gradient("A", _differentiated, 2)
def qr(A: Any, mode: str = "reduced") -> tuple[Array, Array]:
    """Returns Q, R with A = Q R, Q unitary and R an upper triangle, with LAPACK's signs.

    Args:
        A: (…, m, n).
        mode: ``"reduced"``: min(m, n) columns of Q; ``"complete"``: m; ``"r"``: Q is empty.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> q, r = ops.linalg.qr(cp.asarray(np.float32([[0, 1], [2, 3]])))
        >>> r.get()
        array([[-2., -3.],
               [ 0., -1.]], dtype=float32)
    """
    what = "linalg.qr"
    dtype = matrices(what, "A", A)
    if mode not in _MODES:
        raise DefinitionError(f"{what}: mode={quoted(mode)}: expected one of {', '.join(_MODES)}")
    lead, (m, n) = A.shape[:-2], A.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    none = zeros((0,), dtype)
    if not A.size:
        same = repeated(eye((m, k), dtype), lead)
        return none if mode == "r" else same.copy(), zeros((*lead, k, n), dtype)
    if fitting("qr", A, k):
        names = ("r",) if mode == "r" else ("q", "r")
        found = decompose(Options("qr", names, k), A)
        return (none, *found) if mode == "r" else found  # type: ignore[return-value]
    if max(m, n) > MOST:
        if mode == "r":
            return none, on_host(what, lambda a: np.linalg.qr(a, "r"), A)
        kind: Any = mode
        return on_host(what, lambda a: tuple(np.linalg.qr(a, kind)), A)
    h, tau = reflections(A)
    r = triu(h[..., :k, :])
    return (none if mode == "r" else reflected(h, tau, k)), r


def householder_product(A: Any, tau: Any) -> Array:
    """Returns the first columns of the product of reflections, as many as A has.

    Args:
        A: (…, m, n), m no less than n, whose columns below the diagonal are vectors v.
        tau: (…, k), k no more than n: factors of reflections 1 - tau v vᴴ.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> v, tau = cp.asarray(np.float32([[9], [1]])), cp.asarray(np.float32([1]))
        >>> ops.linalg.householder_product(v, tau).get()
        array([[ 0.],
               [-1.]], dtype=float32)
    """
    what = "linalg.householder_product"
    matrices(what, "A", A)
    dtype_of(what, "tau", tau)
    m, n = A.shape[-2:]
    if n > m or tau.shape[:-1] != A.shape[:-2] or not tau.ndim or tau.shape[-1] > n:
        raise ShapeError(
            f"{what}: A has shape {A.shape} and tau {tau.shape}, expected (…, m, n) that is not "
            "wide and (…, k) of no more columns"
        )
    return reflected(A, tau, n)
