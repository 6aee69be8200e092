"""Decompositions of many small matrices beside PyTorch's on the CPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import clprim as cp
from bench.case import Call, Case, Data, Options, Page, normal

# Of a kind: which of its results are unique, and multiply-adds over n cubed.
KINDS = {"solve": (None, 2 / 3), "inv": (None, 2), "cholesky": (None, 1 / 3)}
KINDS |= {"eigh": (0, 9), "svd": (1, 20)}


def _data(count: int, n: int) -> Data:
    a = normal((count, n, n))
    definite = np.matmul(a, a.swapaxes(1, 2)) / np.float32(n) + np.eye(n, dtype=np.float32)
    return Data(definite, normal((count, n, 1), seed=1))


def _call(library: Any, name: str, arrays: list[Any]) -> Call:
    place = KINDS[name][0]
    run = partial(getattr(library.linalg, name), *arrays[: 2 if name == "solve" else 1])
    return run if place is None else lambda: run()[place]


def _torch(name: str, data: Data) -> Call:
    import torch

    return _call(torch, name, data.torch)


def linalg_cases(args: Options) -> list[Case]:
    count = 40 if args.quick else 10_000
    return [
        Case(
            name,
            f"{count} of {n} × {n}",
            count * share * n**3 / 1e9,
            partial(_data, count, n),
            {
                "clprim": lambda data, name=name: _call(cp, name, data.device),
                "PyTorch": partial(_torch, name),
            },
            tolerance=1e-3,
        )
        for name, (_, share) in KINDS.items()
        for n in ((4, 8) if args.quick else (4, 8, 16, 32))
    ]


PAGES = {
    "linalg": Page(
        "Decompositions of small matrices: next to PyTorch", "G terms/s", linalg_cases, (),
        "Symmetric, positive definite matrices in float32. `solve`, `inv` and `cholesky` read on "
        "the host whether a matrix was singular, as PyTorch's do.", keep=False,
    )
}  # fmt: skip
