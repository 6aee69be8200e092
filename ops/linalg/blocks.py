"""Eigenvectors and singular vectors of matrices of up to 1024 rows, by products of matrices.

Eigenvectors come of Jacobi's rotations of pairs of blocks, as many at once as there are pairs; a
kernel diagonalises what stands where the blocks meet. Singular ones come of those of the Hermitian
factor of the polar decomposition.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, zeros
from clprim.graph.repeat import repeatable
from clprim.ops.elementwise.choices import where
from clprim.ops.index.gather import take_along_dim
from clprim.ops.index.index import index
from clprim.ops.linalg.orthogonal import reflected, reflections
from clprim.ops.linalg.shared import adjoint, eye, on_diagonal
from clprim.ops.linalg.solving import cholesky_ex, identity, substituted
from clprim.ops.product.matmul import matmul
from clprim.ops.shape.join import cat
from clprim.ops.shape.turn import diagonal, triu
from clprim.ops.shared.sums import SUM
from clprim.ops.sort.sort import argsort
from clprim.plan.decomposition.problem import LARGEST, fits
from clprim.primitives.decomposition import Options, decompose
from clprim.runtime.device import current_device
from clprim.runtime.tracing import active

_PIVOTS = Options("eigh", ("w", "v", "info"))
_SWEEPS = 30


# --- eigenvectors --------------------------------------------------------------------------------


@lru_cache
def _orders(count: int, width: int) -> np.ndarray:
    """Which row of the round before comes where, in each round in which others of blocks meet.

    Of a pair the block stands first that stood first when all began: eigenvalues are sorted within
    a pair, and must not be sorted back.
    """
    ring, rounds = list(range(count)), []
    for _ in range(count - 1):
        pairs = (sorted((ring[k], ring[-1 - k])) for k in range(count // 2))
        rounds.append([block for pair in pairs for block in pair])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    befores = [rounds[-1], *rounds[:-1]]
    orders = [[b.index(x) for x in r] for b, r in zip(befores, rounds, strict=True)]
    rows = np.array(orders, np.int32)[:, :, None] * width + np.arange(width, dtype=np.int32)
    return rows.reshape(count - 1, -1)


@repeatable
def _sweep(a: Any, vh: Any, orders: Any) -> tuple[Array, Array, Array]:
    """Rotates all pairs of blocks; returns also the squares of what is off the diagonal then."""
    many, size = a.shape[0], a.shape[-1]
    pairs = (orders.shape[0] + 1) // 2
    halves = (many, pairs, size // pairs, size)
    for r in range(orders.shape[0]):
        rows = orders[r]
        a = index(a, [None, rows[:, None], rows[None, :]])
        square = a.reshape(many, pairs, size // pairs, pairs, size // pairs)
        _, v, _ = decompose(_PIVOTS, diagonal(square, 0, 1, 3).transpose(0, 3, 1, 2))
        vh = matmul(adjoint(v), index(vh, [None, rows]).reshape(halves)).reshape(a.shape)
        a = matmul(adjoint(v), a.reshape(halves)).reshape(a.shape)
        # Columns, as rows of the transposed matrix.
        a = matmul(v.mT, a.mT.reshape(halves)).reshape(a.shape).mT
    off = where(on_diagonal(a), 0, abs(a) ** 2)
    return a, vh, SUM(off, axis=(-2, -1))


def spectrum(a: Any) -> tuple[Array, Array, Array]:
    """Returns eigenvalues and eigenvectors of whole Hermitian matrices, and where there are none.

    (Drmač, A global convergence proof for cyclic Jacobi methods with block rotations, 2009.)
    """
    shape, n, dtype = a.shape, a.shape[-1], a.dtype
    traits, width = current_device().traits, LARGEST // 2
    while width > 4 and not fits("eigh", 2 * width, 2 * width, 0, dtype.itemsize, traits):
        width //= 2
    count = -(-n // width)
    count += count % 2
    width = -(-n // count)
    size = count * width
    a = a.reshape(-1, n, n)
    a, top, length = _scaled(a)
    padded, vh = zeros((a.shape[0], size, size), dtype), zeros((a.shape[0], size, size), dtype)
    padded[:, :n, :n] = a
    # Rows that are none have eigenvalues beyond all others.
    diagonal(padded[:, n:, n:], 0, -2, -1)[...] = (length[:, None] * 1.5 + 1).astype(dtype)
    vh[...] = eye((size, size), dtype)
    orders = asarray(_orders(count, width))
    limit = length * (math.sqrt(n) * float(np.finfo(dtype).eps))
    sweeps = _SWEEPS if active.now is None else 5 + math.ceil(math.log2(count))
    for _ in range(sweeps):
        padded, vh, off = _sweep(padded, vh, orders)
        near = np.sqrt(off) <= limit
        if active.now is None and not (off > limit * limit).any().get():
            break
    known = _order(diagonal(padded, 0, -2, -1))[:, :n, None]
    w, v = _refined(a, adjoint(take_along_dim(vh[..., :n], known, -2)))
    order = _order(w)
    w = (take_along_dim(w, order, -1) * top[..., 0]).reshape(shape[:-1])
    v = take_along_dim(v, order[:, None], -1).reshape(shape)
    return w, v, where(near, 0, 1).astype(np.int32).reshape(shape[:-2])


def _scaled(a: Any) -> tuple[Any, Any, Any]:
    """Returns matrices whose largest number is 1, by what they are less, and their lengths."""
    top = abs(a).max(axis=(-2, -1), keepdims=True)
    top = where(top == 0, 1, top)
    a = a / top.astype(a.dtype)
    return a, top, np.sqrt(SUM(abs(a) ** 2, axis=(-2, -1)))


def _order(w: Any) -> Any:
    return argsort(w.real if w.dtype.kind == "c" else w).astype(np.int32)


@repeatable
def _refined(a: Any, v: Any) -> tuple[Array, Array]:
    """Returns what is nearer by a step, which mends what sweeps rounded.

    (Ogita and Aishima, Iterative refinement for symmetric eigenvalue decomposition, 2018.)
    """
    rest = identity(v) - matmul(adjoint(v), v)
    seen = matmul(adjoint(v), matmul(a, v))
    w = diagonal(seen, 0, -2, -1) / (1 - diagonal(rest, 0, -2, -1))
    w = w.real if w.dtype.kind == "c" else w
    row, column = w[..., :, None], w[..., None, :]
    # Hermitian to the last digit, so that the step is a rotation; a wide one is left out.
    inner = (seen + adjoint(seen)) / 2 + (rest + adjoint(rest)) * ((row + column) / 4)
    gap = column - row
    small = abs(inner) < abs(gap) * (0.01 * float(np.finfo(w.dtype).eps) ** 0.25)
    v = v + matmul(v, where(small, inner / where(small, gap, 1), 0))
    rest = identity(v) - matmul(adjoint(v), v)
    return w, v + matmul(v, rest / 2)


# --- singular vectors ----------------------------------------------------------------------------


@lru_cache
def _weights(epsilon: float) -> tuple[tuple[float, float, float], ...]:
    """Returns a, b, c of every step from the least singular value of those of length 1 that count.

    A step that gained more would take a factor of a matrix that is nearly singular.
    """
    least, found = epsilon / 1e3, []
    while 1 - least > epsilon:
        from_ = max(least, 0.07)
        d = (4 * (1 - from_**2) / from_**4) ** (1 / 3)
        root = math.sqrt(1 + d)
        a = root + math.sqrt(8 - 4 * d + 8 * (2 - from_**2) / (from_**2 * root)) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        found.append((a, b, c))
        least = min(1.0, least * (a + b * least**2) / (1 + c * least**2))
    return tuple(found)


@repeatable
def _unitary(a: Any) -> Any:
    """Returns the unitary factors of polar decompositions of square matrices.

    (Nakatsukasa, Bai and Gygi, Optimizing Halley's iteration for computing the matrix polar
    decomposition, 2010.)
    """
    a, _, length = _scaled(a)
    x = a / where(length == 0, 1, length)[..., None, None].astype(a.dtype)
    for one, two, three in _weights(float(np.finfo(a.dtype).eps)):
        inner = identity(x) + matmul(adjoint(x), x) * three
        lower, _ = cholesky_ex(inner)
        half = substituted(lower, adjoint(x), upper=False, unit=False)
        whole = substituted(adjoint(lower), half, upper=True, unit=False)
        x = x * (two / three) + adjoint(whole) * (one - two / three)
    return x


def singular(a: Any, full: bool) -> tuple[Array, Array, Array, Array]:
    """Returns U, S, Vᴴ of matrices that are not wide, and where there are none.

    (Nakatsukasa and Higham, Stable and efficient spectral divide and conquer algorithms for the
    symmetric eigenvalue decomposition and the SVD, 2013.)
    """
    m, n = a.shape[-2:]
    h, tau = reflections(a) if m > n else (a, None)
    r = triu(h[..., :n, :]) if m > n else a
    x = _unitary(r)
    inner = matmul(adjoint(x), r)
    w, v, info = spectrum((inner + adjoint(inner)) / 2)
    w, v = w[..., ::-1], v[..., ::-1]
    # Where nothing is left of a direction, reflections make a vector of another one.
    again, factors = reflections(matmul(x, v))
    signs = diagonal(again, 0, -2, -1)
    size = abs(signs)
    signs = where(size > 0.5, signs / size.astype(a.dtype), 1)
    u = reflected(again, factors, n) * signs[..., None, :]
    if m > n:
        q = reflected(h, tau, m if full else n)
        u = matmul(q[..., :n], u)
        u = cat([u, q[..., n:]], -1) if full else u
    return u, where(w < 0, 0, w), adjoint(v), info
