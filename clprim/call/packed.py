"""Weights that stay: what kernels made of them is kept."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType


class PackedWeight:
    """A weight that stays: it is packed when it is first used, and kept as kernels read it.

    Taken wherever a weight array is. Its own copy of the weight protects it from later changes.
    """

    def __init__(self, array: Array, of: PackedWeight | None = None) -> None:
        """Keeps a weight; ``of`` is one that it is a view of, and shares with what is kept."""
        self.array = array
        self.kept: dict[int, Any] = {} if of is None else of.kept
        self.derived: dict[Any, Any] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight."""
        return self.array.shape

    @property
    def dtype(self) -> AnyDType:
        """Of the weight."""
        return self.array.dtype

    def __repr__(self) -> str:
        return f"<clprim.PackedWeight {self.dtype} {self.shape}>"


def matrix_of(w: Any) -> Any:
    """Returns the array of a weight, packed or not."""
    return w.array if isinstance(w, PackedWeight) else w
