"""Linear algebra by NumPy's names and arguments: ``cp.linalg``.

Most is that of `clprim.ops.linalg`. Integers are computed with in float64 where the device has it,
as NumPy does, else in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import is_integer, real_dtype
from clprim.errors import DefinitionError, DTypeError, ShapeError, SingularError, quoted
from clprim.functions.linalg import matmul, outer, tensordot, vecdot
from clprim.functions.linalg import trace as _trace
from clprim.functions.shape import matrix_transpose, moveaxis
from clprim.ops import linalg as engine
from clprim.ops.elementwise.choices import where
from clprim.ops.linalg.shared import adjoint, matrices
from clprim.ops.linalg.solving import identity
from clprim.ops.shape.join import stack
from clprim.ops.shape.turn import diagonal as _diagonal
from clprim.ops.shape.turn import tril
from clprim.ops.shared.checks import dtype_of, is_array, number
from clprim.plan.strides import broadcast_shapes, normalize_axes, normalize_axis
from clprim.runtime.device import current_device

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

LinAlgError = SingularError


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Array
    S: Array
    Vh: Array


def _wide(what: str, a: Any) -> Any:
    whole = dtype_of(f"linalg.{what}", "a", a).kind in "biu"
    kind = np.float64 if current_device().traits.fp64 else np.float32
    return a.astype(kind) if whole else a


def _hermitian(what: str, a: Any, hermitian: bool) -> Any:
    """Returns matrices, of which the lower triangle says all where they are Hermitian."""
    a = _wide(what, a)
    if not hermitian or a.ndim < 2:
        return a
    matrices(f"linalg.{what}", "a", a, square=True)
    return tril(a) + adjoint(tril(a, -1))


def _one(name: str) -> Callable[..., Array]:
    run = getattr(engine, name)

    def function(a: Any) -> Array:
        found: Array = run(_wide(name, a))
        return found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See `numpy.linalg.{name}`; `clprim.ops.linalg.{name}` computes it."
    return function


inv, det, svdvals = map(_one, "inv det svdvals".split())


def solve(a: Any, b: Any) -> Array:
    """See `numpy.linalg.solve`: b of one dimension alone is a vector."""
    a, b = _wide("solve", a), _wide("solve", b)
    found: Array = engine.solve(a, b[:, None])[..., 0] if b.ndim == 1 else _columns(a, b)
    return found


def _columns(a: Any, b: Any) -> Any:
    # PyTorch takes what may be a batch of vectors for one; NumPy does not.
    return engine.solve(a, b[None])[0] if b.shape == a.shape[:-1] else engine.solve(a, b)


def slogdet(a: Any) -> SlogdetResult:
    """See `numpy.linalg.slogdet`."""
    return SlogdetResult(*engine.slogdet(_wide("slogdet", a)))


def cholesky(a: Any, /, *, upper: bool = False) -> Array:
    """See `numpy.linalg.cholesky`."""
    found: Array = engine.cholesky(_wide("cholesky", a), upper=upper)
    return found


def qr(a: Any, mode: str = "reduced") -> Any:
    """See `numpy.linalg.qr`; ``mode`` is ``"reduced"``, ``"complete"`` or ``"r"``."""
    found = engine.qr(_wide("qr", a), mode)
    return found[1] if mode == "r" else QRResult(*found)


def eig(a: Any) -> EigResult:
    """See `numpy.linalg.eig`, which computes it on the host."""
    a = _wide("eig", a)
    return EigResult(*_real_if_all_are(a, *engine.eig(a)))


def eigvals(a: Any) -> Array:
    """See `numpy.linalg.eigvals`, which computes it on the host."""
    a = _wide("eigvals", a)
    return _real_if_all_are(a, engine.eigvals(a))[0]


def _real_if_all_are(a: Any, w: Any, *vectors: Any) -> tuple[Any, ...]:
    if a.dtype.kind == "c" or (w.imag != 0).any().get():
        return w, *vectors
    return tuple(x.real.copy() for x in (w, *vectors))


def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803
    """See `numpy.linalg.eigh`."""
    return EighResult(*engine.eigh(_wide("eigh", a), UPLO))


def eigvalsh(a: Any, UPLO: str = "L") -> Array:  # noqa: N803
    """See `numpy.linalg.eigvalsh`."""
    found: Array = engine.eigvalsh(_wide("eigvalsh", a), UPLO)
    return found


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:  # fmt: skip
    """See `numpy.linalg.svd`; of what is ``hermitian`` the lower triangle is read."""
    a = _hermitian("svd", a, hermitian)
    return SVDResult(*engine.svd(a, full_matrices)) if compute_uv else engine.svdvals(a)


def _cutoff(a: Any, s: Any, rtol: Any, least: Any) -> Any:
    """The singular values from which on others count."""
    tolerance = least if rtol is None else _tolerance("rtol or rcond", rtol)
    return s.max(axis=-1, keepdims=True) * tolerance


def _tolerance(label: str, value: Any) -> Any:
    return value[..., None] if is_array(value) else number("linalg", label, value)


def _epsilon(a: Any) -> float:
    return float(np.finfo(real_dtype(a.dtype)).eps)


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """See `numpy.linalg.pinv`."""
    a = _hermitian("pinv", a, hermitian)
    if not a.size:
        return a.mT.copy()
    u, s, vh = engine.svd(a, full_matrices=False)
    given = rtol if rcond is None else rcond
    least = 1e-15 if rtol is None else max(a.shape[-2:]) * _epsilon(a)
    large = s > _cutoff(a, s, given, least)
    inverse = where(large, 1 / where(large, s, 1), 0)
    return matmul(adjoint(vh), inverse[..., None].astype(a.dtype) * adjoint(u))


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:  # noqa: N803
    """See `numpy.linalg.matrix_rank`."""
    a = _hermitian("matrix_rank", A, hermitian)
    if a.ndim < 2:
        return (a != 0).any().astype(np.int64)
    s = engine.svdvals(a)
    if not s.size:
        return s.sum(axis=-1).astype(np.int64)
    if tol is not None:
        least = _tolerance("tol", tol)
    else:
        least = _cutoff(a, s, rtol, max(a.shape[-2:]) * _epsilon(a))
    return (s > least).astype(np.int64).sum(axis=-1)


def lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Array, Array, Array, Array]:
    """See `numpy.linalg.lstsq`; the rank is an array."""
    a, b = _wide("lstsq", a), _wide("lstsq", b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise ShapeError(
            f"linalg.lstsq: shapes {a.shape} and {b.shape}: expected (m, n) and (m,) or (m, k)"
        )
    columns = b if b.ndim == 2 else b[:, None]
    least = None if rcond is None else max(rcond, _epsilon(a))
    x, rest, rank, s = engine.lstsq(a, columns, least)
    m, n = a.shape
    full = m > n and int(rank.get()) == n
    return (x if b.ndim == 2 else x[:, 0]), (rest if full else rest[:0]), rank, s


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """See `numpy.linalg.tensorsolve`."""
    dtype_of("linalg.tensorsolve", "a", a)
    dtype_of("linalg.tensorsolve", "b", b)
    last = [normalize_axis("linalg.tensorsolve", d, a.ndim) for d in axes or ()]
    a = a.transpose(*(d for d in range(a.ndim) if d not in last), *last)
    shape, size = a.shape[b.ndim :], math.prod(a.shape[b.ndim :])
    if b.size != size or a.size != size * size:
        raise ShapeError(
            f"linalg.tensorsolve: shapes {a.shape} and {b.shape}: expected as many numbers in b as "
            "in what it is solved for"
        )
    return solve(a.reshape(size, size), b.reshape(-1)).reshape(shape)


def tensorinv(a: Any, ind: int = 2) -> Array:
    """See `numpy.linalg.tensorinv`."""
    dtype_of("linalg.tensorinv", "a", a)
    if not is_integer(ind) or ind <= 0:
        raise DefinitionError(f"linalg.tensorinv: ind={quoted(ind)}: expected a number above 0")
    front, back = a.shape[:ind], a.shape[ind:]
    if math.prod(front) != math.prod(back):
        raise ShapeError(
            f"linalg.tensorinv: shape {a.shape}: expected as many numbers in the first {ind} "
            "dimensions as in the others"
        )
    found: Array = inv(a.reshape(math.prod(front), -1)).reshape(*back, *front)
    return found


def matrix_power(a: Any, n: int) -> Array:
    """See `numpy.linalg.matrix_power`."""
    dtype_of("linalg.matrix_power", "a", a)
    if not is_integer(n):
        raise DTypeError(f"linalg.matrix_power: n={quoted(n)}: expected a whole number")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"linalg.matrix_power: a has shape {a.shape}, expected square matrices")
    if n == 0:
        return identity(a).copy()
    base, left, found = (inv(a) if n < 0 else a), abs(int(n)), None
    while left:
        if left & 1:
            found = base if found is None else matmul(found, base)
        left >>= 1
        base = matmul(base, base) if left else base
    assert found is not None
    return found.copy() if found is a else found


def multi_dot(arrays: Sequence[Any]) -> Array:
    """Returns the product of several matrices, in the order that takes least operations.

    The first and the last may be vectors.
    """
    if len(arrays) < 2:
        raise ShapeError(f"linalg.multi_dot: {len(arrays)} arrays: expected at least two")
    first, last = arrays[0].ndim == 1, arrays[-1].ndim == 1
    chain = [*arrays]
    chain[0] = chain[0][None] if first else chain[0]
    chain[-1] = chain[-1][:, None] if last else chain[-1]
    while len(chain) > 1:
        # The longest dimension between two goes first, which is seldom far from the best order.
        at = max(range(len(chain) - 1), key=lambda k: chain[k].shape[-1])
        chain[at : at + 2] = [matmul(chain[at], chain[at + 1])]
    found: Array = chain[0][..., 0] if last else chain[0]
    return found[0] if first else found


def cond(x: Any, p: Any = None) -> Array:
    """See `numpy.linalg.cond`; of a singular matrix infinity."""
    x = _wide("cond", x)
    if p in (None, 2, -2):
        s = engine.svdvals(x)
        high, low = s[..., 0], s[..., -1]
        return low / high if p == -2 else high / low
    found, info = engine.inv_ex(x)
    size = norm(x, p, axis=(-2, -1)) * norm(found, p, axis=(-2, -1))
    return where(info != 0, math.inf, size)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Returns cross products of vectors of three numbers along an axis."""
    dtype_of("linalg.cross", "x1", x1)
    dtype_of("linalg.cross", "x2", x2)
    shape = broadcast_shapes("linalg.cross", [x1.shape, x2.shape])
    a, b = (moveaxis(x, axis, -1) if x.ndim else x for x in (x1, x2))
    if not shape or 3 not in (*a.shape[-1:], *b.shape[-1:]) or a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"linalg.cross: shapes {x1.shape} and {x2.shape}: expected 3 numbers along axis {axis}"
        )
    turned = ((a[..., k - 2], a[..., k - 1], b[..., k - 2], b[..., k - 1]) for k in range(3))
    parts = [p * t - q * s for p, q, s, t in turned]
    return moveaxis(stack(parts, -1), -1, axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """Returns the diagonals of matrices, the last two axes."""
    return _diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Returns the sums of the diagonals of matrices, the last two axes."""
    return _trace(x if dtype is None else x.astype(dtype), offset, -2, -1)


def vector_norm(
    x: Any, /, *, axis: Any = None, ord: float = 2, keepdims: bool = False
) -> Array:  # fmt: skip
    """See `numpy.linalg.vector_norm`."""
    x = _wide("vector_norm", x)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axes("vector_norm", axis, x.ndim)
    return _length(x, axes, ord, keepdims)


def _length(x: Any, axes: tuple[int, ...], order: Any, keepdims: bool) -> Any:
    size, how = abs(x), {"axis": axes, "keepdims": keepdims}
    if order == math.inf:
        return size.max(**how)
    if order == -math.inf:
        return size.min(**how)
    if order == 0:
        return (size != 0).astype(size.dtype).sum(**how)
    if order in (None, 2):
        return np.sqrt((size * size).sum(**how))
    if not isinstance(order, (int, float)):
        raise DefinitionError(f"linalg.norm: ord={quoted(order)} of vectors: expected a number")
    return size.sum(**how) if order == 1 else (size**order).sum(**how) ** (1 / order)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """See `numpy.linalg.matrix_norm`."""
    x = _wide("matrix_norm", x)
    if x.ndim < 2:
        raise ShapeError(f"linalg.matrix_norm: x has shape {x.shape}, expected matrices")
    return _of_matrices(x, ord, keepdims)


def _of_matrices(x: Any, order: Any, keepdims: bool) -> Any:
    if order in (None, "fro", "f"):
        return _length(x, (x.ndim - 2, x.ndim - 1), 2, keepdims)
    if order in (2, -2, "nuc"):
        s = engine.svdvals(x)
        found = s.sum(-1) if order == "nuc" else s.max(-1) if order == 2 else s.min(-1)
    elif order in (1, -1, math.inf, -math.inf):
        sums = abs(x).sum(-2 if abs(order) == 1 else -1)
        found = sums.max(-1) if order > 0 else sums.min(-1)
    else:
        raise DefinitionError(
            f"linalg.norm: ord={quoted(order)} of matrices: expected 'fro', 'nuc', 1, 2, inf, or "
            "one of the last three below 0"
        )
    return found[..., None, None] if keepdims else found


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """See `numpy.linalg.norm`."""
    x = _wide("norm", x)
    if axis is None and ord is None:
        return _length(x, tuple(range(x.ndim)), 2, keepdims)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axes("linalg.norm", axis, x.ndim)
    if axis is not None and not is_integer(axis) and len(axes) > 1:
        axes = tuple(int(d) % x.ndim for d in axis)  # as given: rows, then columns
    if len(axes) == 1:
        return _length(x, axes, ord, keepdims)
    if len(axes) != 2:
        raise ShapeError(f"linalg.norm: axis={quoted(axis)} of {x.ndim} dimensions with ord=")
    rest = [d for d in range(x.ndim) if d not in axes]
    found = _of_matrices(x.transpose(*rest, *axes), ord, keepdims=False)
    if keepdims:
        shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
        found = found.reshape(shape)
    return found
