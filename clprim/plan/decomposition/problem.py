"""What is to become of matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clprim.dtypes import AnyDType
from clprim.plan.machine import GROUP
from clprim.traits import DeviceTraits

# Rows of matrices that a kernel decomposes whole: a work-item of a group has a column.
LARGEST = GROUP


@dataclass(frozen=True)
class Side:
    """Where an array's numbers lie, in reals: of a matrix, and from one to the next."""

    name: str
    start: int
    row: int
    column: int
    strides: tuple[int, ...]
    parts: int = 1  # 2 of complex numbers
    whole: bool = False  # Whether these are int32


@dataclass(frozen=True)
class Decomposition:
    """What a call computes."""

    kind: str  # ``lu``, ``solve``, ``inv``, ``det``, ``triangular``, ``cholesky``, ``qr``, …
    m: int
    n: int
    k: int  # Columns of what is solved for, or of the unitary matrix
    sizes: tuple[int, ...]  # Of the loops from one matrix to the next
    given: tuple[Side, ...]
    results: tuple[Side, ...]
    dtype: AnyDType  # Of real parts
    parts: int = 1
    unit: bool = False  # Whether a triangle's diagonal is taken for ones

    def __str__(self) -> str:
        return f"{self.kind} of {self.count} matrices of {self.m} x {self.n} numbers"

    @property
    def count(self) -> int:
        """How many matrices there are."""
        return math.prod(self.sizes)


def numbers(kind: str, m: int, n: int, k: int) -> int:
    """Returns how many numbers a matrix takes while it is decomposed."""
    more = {"qr": m * k, "eigh": n * n, "svd": n * n}.get(kind, m * k)
    return m * n + more + 2 * (m + n)


def fits(kind: str, m: int, n: int, k: int, nbytes: int, traits: DeviceTraits) -> bool:
    """Whether a kernel decomposes a matrix of numbers of so many bytes in local memory."""
    return numbers(kind, m, n, k) * nbytes <= traits.local_memory - 1024
