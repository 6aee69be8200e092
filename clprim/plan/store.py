"""What kernels of a contraction that store its result have in common: bias, epilogue, old value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clprim.dtypes import AnyDType, stored_type
from clprim.language.componentwise import is_componentwise, needs_float
from clprim.plan.kernel import KernelCode, OperandCode
from clprim.plan.product.problem import Contraction

__all__ = ["StoredCode", "StoringCode", "on_vectors", "vectors_alike", "vectors_fit"]


@dataclass(frozen=True)
class StoredCode(OperandCode):
    """One array that a tile is stored to or read from.

    Attributes:
        moves: Whether its place depends on the lane.
        kept: Whether the values of a tile's outputs are read once, before its sums are added up.
    """

    moves: bool = True
    kept: bool = False

    @staticmethod
    def at(name: str, dtype: AnyDType, value: AnyDType, column: int, *, moves: bool) -> StoredCode:
        """Describes an array whose neighbouring columns lie ``column`` elements apart."""
        code = OperandCode.of(name, dtype, value, column)
        return StoredCode(code.name, code.storage, code.value, code.load, code.inner, moves)


@dataclass(frozen=True)
class StoringCode(KernelCode):
    """What the macros that store print.

    Attributes:
        value: Type that sums are added up in.
        width: Elements of a vector.
        gathered: What the gathered operand's lanes are: ``rows`` or ``columns`` of the result.
        y: The result.
        extras: What the epilogue reads.
        bias: Whether one of them is the bias.
        epilogue: The user's snippet.
        vector_epilogue: Whether it computes the same on vectors.
        vector_store: Whether neighbouring columns may lie side by side in the result.
        beta: Whether the old result takes part.
    """

    value: str
    width: int
    gathered: str
    y: StoredCode
    extras: tuple[StoredCode, ...]
    bias: bool
    epilogue: str
    vector_epilogue: bool
    vector_store: bool
    beta: bool

    @property
    def outputs(self) -> tuple[StoredCode, ...]:
        """Whatever has a place for every lane and output."""
        return (self.y, *self.extras)


def on_vectors(what: Contraction) -> bool:
    """Whether the epilogue computes the same on vectors."""
    epilogue = what.epilogue
    return epilogue is None or (
        is_componentwise(epilogue) and not (needs_float(epilogue) and what.value.kind != "f")
    )


def vectors_alike(what: Contraction, stored: Sequence[StoredCode]) -> bool:
    """Whether vectors of every array are vectors of the sums' type, for the epilogue too."""
    value = stored_type(what.value).value
    return on_vectors(what) and all(o.value == value and o.load != "bool" for o in stored)


def vectors_fit(what: Contraction, stored: Sequence[StoredCode]) -> bool:
    """Whether whole vectors can be stored: the result comes first."""
    near = stored[0].inner == "one" and all(o.inner != "any" for o in stored)
    return near and vectors_alike(what, stored)
