"""Linear algebra of batches of matrices, by the names and arguments of `torch.linalg`."""

from clprim.arrays.validation import check_arguments
from clprim.ops.linalg.orthogonal import householder_product, qr
from clprim.ops.linalg.solving import (
    cholesky,
    cholesky_ex,
    inv,
    inv_ex,
    lu,
    lu_factor_ex,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
)
from clprim.ops.linalg.spectra import eig, eigh, eigvals, eigvalsh, lstsq, svd, svdvals
from clprim.ops.product.det import det
from clprim.ops.registry import document

__all__ = [
    "cholesky",
    "cholesky_ex",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor_ex",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
]

for _name in __all__:
    document(_name, globals()[_name])
check_arguments(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
