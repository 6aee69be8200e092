"""Products of matrices without gaps: what examples, tests and benchmarks plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.language.epilogue_snippet import define_epilogue
from clprim.plan.epilogue import Epilogue
from clprim.plan.product.problem import Contraction, Gathered, Output, Packed


def dense_product(
    m: int,
    n: int,
    k: int,
    form: str = "NN",
    *,
    groups: int = 1,
    start: int = 0,
    dtype: Any = np.float32,
    epilogue: str | None = None,
    beta: bool = False,
    **options: Any,
) -> Contraction:
    """Describes ``a @ b`` as a contraction: rows of ``a`` are lanes, columns of ``b`` outputs."""
    stored = np.dtype(dtype)
    a_m, a_k = (k, 1) if form[0] == "N" else (1, m)
    snippet = define_epilogue("matmul", epilogue) if epilogue else None
    b_k, b_n = (n, 1) if form[1] == "N" else (1, k)
    return Contraction(
        name="matmul",
        groups=groups,
        lanes=(1, 1, m),
        depths=(1, 1, k),
        outputs=n,
        value=np.dtype(np.int32 if stored.kind in "iu" else np.float32)
        if stored.itemsize < 4
        else stored,
        gathered=Gathered(stored, start, m * k, (0, 0, a_m), (0, 0, a_k), start + groups * m * k),
        packed=Packed(stored, 0, k * n, b_n, (0, 0, b_k)),
        y=Output("y0", stored, 0, m * n, 1, (0, 0, n)),
        epilogue=Epilogue(snippet, beta=beta),
        **options,
    )
