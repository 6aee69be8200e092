"""A product with a quantised weight: a contraction whose packed operand has a `Coding`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from clprim.plan.product.problem import Contraction, moved_bytes
from clprim.plan.quantized.coding import OUTPUTS, Coding

# Of a contraction that has been given none yet.
_NONE = Coding(4, ())


@dataclass(frozen=True)
class CodedProduct(Contraction):
    """What to compute; ``packed`` says where in its buffer the weight begins, in bytes."""

    coding: Coding = _NONE

    @classmethod
    def of(cls, what: Contraction, coding: Coding, **changes: Any) -> CodedProduct:
        """Returns a contraction with the coding of its packed operand."""
        told = {f.name: getattr(what, f.name) for f in fields(Contraction)} | changes
        return cls(**told, coding=coding)

    @property
    def depth(self) -> int:
        """Steps of k, all of which have one stride."""
        return self.depths[2]

    @property
    def tiles(self) -> int:
        """Tiles of outputs that lie side by side."""
        return -(-self.outputs // OUTPUTS)

    @property
    def nbytes(self) -> int:
        """Bytes that are moved: the weight has few."""
        whole = moved_bytes(self) - self.groups * self.outputs * self.depth * self.value.itemsize
        return whole + self.coding.nbytes(self.outputs, self.depth)
