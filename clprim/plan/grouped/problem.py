"""What a `Grouped` is to compute."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import AnyDType
from clprim.language.grouped import GroupedDefinition
from clprim.plan.strides import Operand


@dataclass(frozen=True)
class Groups:
    """One call.

    Attributes:
        definition: The checked snippets.
        shape: Of the elements.
        axes: That a group extends along, sorted.
        value: dtype that partials and values of a group have, and maps calculate in.
        inputs: The arrays, which broadcast to ``shape``.
        scalars: dtypes of the numbers.
        results: Where the elements go, of ``shape``.
        kept: Where the values of groups go, with size 1 along ``axes``; None for those that nobody
            wants.
    """

    definition: GroupedDefinition
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    value: AnyDType
    inputs: tuple[Operand, ...]
    scalars: tuple[AnyDType, ...]
    results: tuple[Operand, ...]
    kept: tuple[Operand | None, ...]

    @property
    def arrays(self) -> tuple[Operand, ...]:
        """All of them, as a call gives them: results, kept values, inputs."""
        return (*self.results, *(k for k in self.kept if k is not None), *self.inputs)

    @property
    def names(self) -> list[str]:
        """Of all arrays, in that order."""
        kept = [f"group_y{n}" for n, k in enumerate(self.kept) if k is not None]
        results = [f"y{n}" for n in range(len(self.results))]
        return [*results, *kept, *(f"x{n}" for n in range(len(self.inputs)))]
