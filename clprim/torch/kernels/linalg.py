"""Linear algebra: `torch.linalg`, and PyTorch's older names for some of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.functions.shape import broadcast_to
from clprim.ops.index.gather import take_along_dim
from clprim.ops.linalg.orthogonal import reflected, reflections
from clprim.ops.linalg.shared import adjoint, alike
from clprim.ops.linalg.solving import determinant, identity, rows_of, unpacked
from clprim.ops.linalg.spectra import eigh_ex, eigvalsh_ex, svd_ex, svdvals_ex
from clprim.ops.product.matmul import matmul
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel

engine = ops.linalg


def columns(_: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
    """Column by column, as LAPACK has matrices."""
    if found.ndim < 2:
        return found
    return found if found.mT.is_contiguous() else found.mT.contiguous().mT


def _check(name: str, info: Array) -> None:
    """Raises PyTorch's error of the first matrix that something is wrong with."""
    found = torch.from_numpy(info.get())
    torch.ops.aten._linalg_check_errors(found, name, is_matrix=not info.ndim)


def _factored(a: Array) -> Any:
    """LU of what gradients of determinants take for it: of real matrices in C order that of Aᵀ."""
    return engine.lu_factor_ex(a.mT if a.dtype.kind != "c" and a.flags.c_contiguous else a)


@kernel("linalg_lu_factor_ex", lies=(columns, contiguous, contiguous))
def _lu_factor(a: Array, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the device")
    found = engine.lu_factor_ex(a)
    if check_errors:
        _check("torch.linalg.lu_factor_ex", found[2])
    return found


@kernel("linalg_lu", lies=columns)
def _lu(a: Array, *, pivot: bool = True) -> Any:
    if not pivot:
        raise RuntimeError("linalg.lu: LU without pivoting is not implemented on the device")
    return engine.lu(a)


@kernel("lu_unpack", lies=(contiguous, columns, columns))
def _lu_unpack(
    lu: Array, pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    none = zeros((0,), lu.dtype)
    p, lower, upper = unpacked(lu, pivots)
    return p if unpack_pivots else none, *((lower, upper) if unpack_data else (none, none))


@kernel("linalg_lu_solve", lies=columns)
def _lu_solve(
    lu: Array, pivots: Array, b: Array, *, left: bool = True, adjoint: bool = False
) -> Any:
    return _by_factors(lu, pivots, b, left=left, back=adjoint)


def _by_factors(lu: Array, pivots: Array, b: Array, *, left: bool, back: bool) -> Any:
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return adjoint(_by_factors(lu, pivots, adjoint(b), left=True, back=not back))
    lu, b = alike("linalg.lu_solve", lu, b)
    n = lu.shape[-1]
    rows = rows_of(broadcast_to(pivots, (*lu.shape[:-2], n)), n, back=back)[..., None]
    if back:
        half = engine.solve_triangular(adjoint(lu), b, upper=False)
        found = engine.solve_triangular(adjoint(lu), half, upper=True, unitriangular=True)
        return take_along_dim(found, rows, -2)
    half = engine.solve_triangular(lu, take_along_dim(b, rows, -2), upper=False, unitriangular=True)
    return engine.solve_triangular(lu, half, upper=True)


@kernel("_linalg_solve_ex", lies=(columns, columns, contiguous, contiguous))
def _solve(a: Array, b: Array, *, left: bool = True, check_errors: bool = False) -> Any:
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = b[..., None] if vector else b
    given, turned = (a, right) if left or vector else (a.mT, right.mT)
    found, info = engine.solve_ex(given, turned)
    found = found[..., 0] if vector else found if left else found.mT
    if check_errors:
        _check("torch.linalg.solve_ex", info)
    return found, *engine.lu_factor_ex(a)


@kernel("linalg_inv_ex", lies=(columns, contiguous))
def _inv(a: Array, *, check_errors: bool = False) -> Any:
    found, info = engine.inv_ex(a)
    if check_errors:
        _check("linalg.inv_ex", info)
    return found, info


@kernel("_linalg_det", lies=(contiguous, columns, contiguous))
def _det(a: Array) -> Any:
    lu, pivots, _ = _factored(a)
    return determinant(a), lu, pivots


@kernel("_linalg_slogdet", lies=(contiguous, contiguous, columns, contiguous))
def _slogdet(a: Array) -> Any:
    lu, pivots, _ = _factored(a)
    return (*engine.slogdet(a), lu, pivots)


@kernel("linalg_cholesky_ex", lies=(columns, contiguous))
def _cholesky(a: Array, *, upper: bool = False, check_errors: bool = False) -> Any:
    found, info = engine.cholesky_ex(a, upper=upper)
    if check_errors:
        _check("torch.linalg.cholesky_ex", info)
    return found, info


@kernel("cholesky", lies=columns)
def _old_cholesky(a: Array, upper: bool = False) -> Any:
    found, info = engine.cholesky_ex(a, upper=upper)
    _check("cholesky", info)
    return found


@kernel("cholesky_solve", lies=columns)
def _cholesky_solve(b: Array, factor: Array, upper: bool = False) -> Any:
    lower = adjoint(factor) if upper else factor
    half = engine.solve_triangular(lower, b, upper=False)
    return engine.solve_triangular(adjoint(lower), half, upper=True)


@kernel("cholesky_inverse", lies=columns)
def _cholesky_inverse(factor: Array, upper: bool = False) -> Any:
    return _cholesky_solve(identity(factor), factor, upper)


@kernel("linalg_solve_triangular", lies=columns)
def _solve_triangular(
    a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    return engine.solve_triangular(a, b, upper=upper, left=left, unitriangular=unitriangular)


@kernel("triangular_solve", lies=columns)
def _old_solve_triangular(
    b: Array, a: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    a, b = alike("triangular_solve", a, b)
    given, above = (a.mT, not upper) if transpose else (a, upper)
    found = engine.solve_triangular(given, b, upper=above, unitriangular=unitriangular)
    return found, a.copy()


@kernel("linalg_qr", lies=columns)
def _qr(a: Array, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    return engine.qr(a, mode)


@kernel("_linalg_eigh", lies=(contiguous, columns))
def _eigh(a: Array, uplo: str = "L", compute_v: bool = True) -> Any:
    if compute_v:
        w, v, info = eigh_ex(a, uplo.upper())
    else:
        (w, info), v = eigvalsh_ex(a, uplo.upper()), zeros((0,), a.dtype)
    _check("linalg.eigh", info)
    return w, v


@kernel("_linalg_svd", lies=(columns, contiguous, columns))
def _svd(
    a: Array, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> Any:
    if driver is not None:
        raise RuntimeError(f"torch.linalg.svd: driver={driver} is for CUDA alone")
    if compute_uv:
        u, s, vh, info = svd_ex(a, full_matrices)
    else:
        s, info = svdvals_ex(a)
        u = vh = zeros((0,), a.dtype)
    _check("linalg.svd", info)
    return u, s, vh


@kernel("linalg_eig", lies=(contiguous, columns))
def _eig(a: Array) -> Any:
    return engine.eig(a)


@kernel("_linalg_eigvals")
def _eigvals(a: Array) -> Any:
    return engine.eigvals(a)


@kernel("linalg_householder_product", lies=columns)
def _householder_product(a: Array, tau: Array) -> Any:
    return engine.householder_product(a, tau)


@kernel("geqrf", lies=(columns, contiguous))
def _geqrf(a: Array) -> Any:
    return reflections(a) if a.size else (a, zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype))


@kernel("ormqr", lies=columns)
def _ormqr(a: Array, tau: Array, c: Array, left: bool = True, transpose: bool = False) -> Any:
    q = reflected(a, tau, a.shape[-2])
    q = adjoint(q) if transpose else q
    return matmul(q, c) if left else matmul(c, q)


@kernel("linalg_lstsq", lies=(columns, contiguous, contiguous, contiguous))
def _lstsq(a: Array, b: Array, rcond: float | None = None, *, driver: str | None = None) -> Any:
    drivers = ("gels", "gelsy", "gelsd", "gelss")
    driver = driver or "gelsy"
    if driver not in drivers:
        raise RuntimeError(f"torch.linalg.lstsq: driver={driver}, expected one of {drivers}")
    vectors = b.ndim == a.ndim - 1
    x, left, rank, s = engine.lstsq(a, b[..., None] if vectors else b, rcond)
    m, n = a.shape[-2:]
    none = zeros((0,), s.dtype)
    full = m > n and driver != "gelsy" and (rank == n).all().get()
    return (
        x[..., 0] if vectors else x,
        left if full else none,
        zeros((0,), rank.dtype) if driver == "gels" else rank,
        s if driver in ("gelsd", "gelss") else none,
    )
