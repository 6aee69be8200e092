"""Matrix products by PyTorch's names, and sums of them and something else, by an epilogue."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError
from clprim.ops.product.complex_product import is_complex
from clprim.ops.product.matmul import matmul
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of, number
from clprim.plan.strides import broadcasts_to


@operator(sample="x[:, 0, 0], empty((4, 4))")
def mm(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns the product of two matrices, (M, K) and (K, N).

    Raises:
        ShapeError: Other numbers of dimensions, sizes that do not fit.
        DTypeError: As `matmul`.
    """
    _check("mm", a=(a, 2), b=(b, 2))
    return matmul(a, b, out=out)


@operator(sample="x[:, 0], x[:, 0]")
def bmm(a: Any, b: Any, *, out: Any = None) -> Array:
    """Returns the products of two batches of matrices, (B, M, K) and (B, K, N); see `mm`."""
    _check("bmm", a=(a, 3), b=(b, 3))
    _batches("bmm", a, b)
    return matmul(a, b, out=out)


@operator(sample="x[:, 0, 0], empty(4)")
def mv(a: Any, v: Any, *, out: Any = None) -> Array:
    """Returns the product of a matrix (M, K) and a vector (K,); see `mm`."""
    _check("mv", a=(a, 2), v=(v, 1))
    return matmul(a, v, out=out)


@operator(autocast="lower", sample="x[:, 0, 0], x[:, 0, 0], empty((4, 4))")
def addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Array:
    """Returns beta · x + alpha · (a @ b), as `torch.addmm` does: x broadcasts to the product.

    With ``beta=0`` x is not read.

    Raises:
        ShapeError: Other numbers of dimensions, sizes that do not fit.
        DTypeError: As `matmul`, and factors that are no numbers.
    """
    _check("addmm", a=(a, 2), b=(b, 2))
    return _added("addmm", x, a, b, beta, alpha, out)


@operator(
    autocast="lower addmv addr",
    torch="addmv @wrapped @none",
    sample="x[:, 0, 0, 0], x[:, 0, 0], empty(4)",
)
def addmv(x: Any, a: Any, v: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Array:
    """Returns beta · x + alpha · (a @ v) of a matrix and a vector; see `addmm`."""
    _check("addmv", a=(a, 2), v=(v, 1))
    return _added("addmv", x, a, v, beta, alpha, out)


@operator(autocast="lower", torch="baddbmm @wrapped @none", sample="x[:, 0], x[:, 0], x[:, 0]")
def baddbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Array:
    """Returns beta · x + alpha · (a @ b) of batches of matrices; see `addmm`."""
    _check("baddbmm", a=(a, 3), b=(b, 3))
    _batches("baddbmm", a, b)
    return _added("baddbmm", x, a, b, beta, alpha, out)


@operator(autocast="lower", torch="addbmm @wrapped @none", sample="empty((4, 4)), x[:, 0], x[:, 0]")
def addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Array:
    """Returns beta · x + alpha · Σ a @ b over a batch; see `addmm`."""
    _check("addbmm", a=(a, 3), b=(b, 3))
    _batches("addbmm", a, b)
    size, rows, depth = a.shape
    # The sum over a batch is one over depth as well.
    wide = a.transpose(1, 0, 2).copy().reshape(rows, size * depth)
    return _added("addbmm", x, wide, b.copy().reshape(size * depth, b.shape[2]), beta, alpha, out)


def _check(what: str, **operands: tuple[Any, int]) -> None:
    for label, (array, ndim) in operands.items():
        dtype_of(what, label, array)
        if array.ndim != ndim:
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, expected {ndim} "
                f"dimension{'s' if ndim > 1 else ''}"
            )


def _batches(what: str, a: Any, b: Any) -> None:
    if a.shape[0] != b.shape[0]:
        raise ShapeError(f"{what}: batches of {a.shape[0]} and {b.shape[0]} matrices")


def _added(what: str, x: Any, a: Any, b: Any, beta: Any, alpha: Any, out: Any) -> Array:
    """The product with an epilogue; numbers that change nothing are left out of it."""
    dtype = dtype_of(what, "x", x)
    shape = (*a.shape[:-1], *b.shape[a.ndim - 1 :])
    paired = is_complex(a) or is_complex(b)
    beta, alpha = (
        number(what, label, n, complexes=paired) for label, n in (("beta", beta), ("alpha", alpha))
    )
    if beta and not broadcasts_to(x.shape, shape):
        raise ShapeError(f"{what}: x has shape {x.shape}, which does not broadcast to {shape}")
    whole = a.dtype.kind in "biu" and b.dtype.kind in "biu"
    if whole and (dtype.kind not in "biu" or not isinstance(beta * alpha, int)):
        raise DTypeError(
            f"{what}: x is {dtype}, beta={beta}, alpha={alpha}: beside products of {a.dtype} "
            "expected integers"
        )
    if beta == 0:
        return matmul(a, b, epilogue="y0 = w0 * y0;", epilogue_args=(alpha,), out=out)
    text, numbers = "y0 = w0 * y0 + w1 * x0;", (alpha, beta)
    return matmul(a, b, epilogue=text, epilogue_args=(x, *numbers), out=out)
