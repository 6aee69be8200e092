"""What ``python -m bench gemm`` measures: matrix products, square and not, transposed and not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bench.clock.compute import Promise
from bench.peers.peer import Inputs
from bench.work import reference
from clprim.runtime.device import Device

_GROUP = "Single-precision products"

_SQUARES = (256, 512, 1024, 2048, 4096)
# Beside and far from the multiples of every tile.
_ODD = (511, 1000, 1023, 1025)
_TALL_AND_FLAT = (
    (4096, 4096, 16),
    (16, 4096, 4096),
    (4096, 16, 4096),
    (64, 64, 65536),
    (65536, 64, 64),
    (8, 1000, 2048),
)
_TRANSPOSED = (512, 1000, 2048)


@dataclass(frozen=True)
class Gemm:
    """A product of an m×k by a k×n matrix.

    Attributes:
        m: Rows of the result.
        n: Columns of the result.
        k: Length of the sums.
        transpose_a: Whether the first operand is stored k×m.
        transpose_b: Whether the second operand is stored n×k.
        promises: Of all rows.
    """

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    promises: tuple[Promise, ...] = ()

    group: ClassVar[str] = _GROUP
    op: ClassVar[str] = "gemm"
    memory_format: ClassVar[str] = "contiguous"
    count: ClassVar[int] = 1

    @property
    def title(self) -> str:
        """For readers, such as ``1000×1000×1000 TN``."""
        letters = "".join("NT"[flag] for flag in (self.transpose_a, self.transpose_b))
        return f"{self.m}×{self.n}×{self.k} {letters}"

    @property
    def flops(self) -> int:
        """Operations of one run; a multiply-add counts as two."""
        return 2 * self.m * self.n * self.k

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Of the operands, as stored."""
        a, b = (self.m, self.k), (self.k, self.n)
        return a[::-1] if self.transpose_a else a, b[::-1] if self.transpose_b else b

    def reference(self, inputs: Inputs) -> np.ndarray[Any, Any]:
        """Return the result, exactly, from inputs of small whole numbers."""
        return reference.gemm(
            *inputs.host, transpose_a=self.transpose_a, transpose_b=self.transpose_b
        )


def gemm_jobs(device: Device, *, quick: bool = False) -> list[Gemm]:
    """Return the rows of the table.

    Args:
        device: Where; what is promised depends on it.
        quick: Whether to make everything tiny.
    """
    promises = ()
    if device.traits.is_cpu:  # the peers' processor
        promises = (Promise("MKL", mean=0.9, least=0.7), Promise("CLBlast", least=2))
    if quick:
        sizes, transposed = [(16, 16, 16), (31, 33, 17)], (31,)
    else:
        sizes = [(n, n, n) for n in (*_SQUARES, *_ODD)] + list(_TALL_AND_FLAT)
        transposed = _TRANSPOSED
    jobs = [Gemm(*size, promises=promises) for size in sizes]
    jobs += [
        Gemm(size, size, size, *flags, promises=promises)
        for size in transposed
        for flags in ((False, True), (True, False), (True, True))
    ]
    return jobs
