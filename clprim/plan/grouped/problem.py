"""What a `Grouped` is to compute."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import AnyDType
from clprim.language.grouped import GroupedDefinition
from clprim.plan.strides import Operand


@dataclass(frozen=True)
class Groups:
    """One call."""

    definition: GroupedDefinition
    shape: tuple[int, ...]
    axes: tuple[int, ...]  # That a group extends along, sorted
    value: AnyDType  # dtype that partials and values of a group have, and maps calculate in
    inputs: tuple[Operand, ...]  # The arrays, which broadcast to ``shape``
    scalars: tuple[AnyDType, ...]
    results: tuple[Operand, ...]  # Where the elements go, of ``shape``
    # Where the values of groups go, with size 1 along ``axes``; None for those that nobody wants
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
