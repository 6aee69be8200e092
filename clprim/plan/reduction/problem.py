"""What a `Reduction` is to compute, and which classes of it tables tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clprim.dtypes import AnyDType
from clprim.language.definition import ReductionDefinition
from clprim.plan.reduction.code import Scaling
from clprim.plan.strides import Operand, broadcast_strides
from clprim.plan.table import near_size, power
from clprim.traits import DeviceTraits

if TYPE_CHECKING:
    from clprim.plan.reduction.planner import Found


@dataclass(frozen=True)
class Reduced:
    """What a call computes."""

    definition: ReductionDefinition
    shape: tuple[int, ...]  # That the arrays broadcast to
    axes: tuple[int, ...]
    # The results with all dimensions of ``shape``, of size 1 along ``axes``; they hold at least one
    # element, while the reduced space may be empty
    operands: tuple[Operand, ...]
    inputs: tuple[Operand, ...]  # Where the arrays lie, before broadcasting
    scalars: tuple[AnyDType, ...]
    partials: tuple[AnyDType, ...]  # dtypes of what is accumulated
    scaling: tuple[Scaling, ...]
    results: tuple[Operand, ...] = ()  # As the user has them
    # Bytes that the whole call moves, where this is a part of one; else what it reads
    moved: int | None = None
    # What devices' traits make of it, see `clprim.plan.reduction.planner`
    found: dict[DeviceTraits, Found] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        sizes = "×".join(map(str, self.shape))
        return f"{sizes} along {', '.join(map(str, self.axes))}"

    @property
    def name(self) -> str:
        """What profiles call it."""
        return self.definition.name

    @property
    def value(self) -> AnyDType:
        """Dtype of the first partial."""
        return self.partials[0]

    @property
    def timed(self) -> bool:
        """Whether its class decides how long it takes, and each run gives the same."""
        return math.prod(self.shape) > 0 and not self.definition.draws

    @property
    def read(self) -> int:
        """Bytes that are read."""
        elements = math.prod(self.shape)
        return sum(min(a.size, elements) * a.dtype.itemsize for a in self.inputs)

    @property
    def written(self) -> int:
        """Bytes that are written."""
        return sum(r.size * r.dtype.itemsize for r in self.operands)


@dataclass(frozen=True)
class ReductionClass:
    """A class of reductions: those that one schedule is best for."""

    stored: str  # dtypes of the first array and of the first partial
    value: str
    inputs: int
    partials: int
    operations: int  # Of an element, rounded up to a power of two
    along: bool  # Whether what lies side by side in memory is reduced
    row: int  # Elements side by side that are all reduced, or all kept; exact up to 256
    reduced: int  # Elements of a result, and results, rounded up to a power of two
    kept: int

    @classmethod
    def of(cls, problem: Reduced) -> ReductionClass:
        """Returns the class of a reduction."""
        first, shape, definition = problem.inputs[0], problem.shape, problem.definition
        strides = broadcast_strides(first, shape)
        loops = [(abs(strides[d]), d) for d, n in enumerate(shape) if n > 1 and strides[d]]
        loops.sort()
        along = not loops or loops[0][1] in problem.axes
        row, reach = 1, None
        for stride, d in loops:
            if (d in problem.axes) != along or reach not in (None, stride):
                break
            row, reach = row * shape[d], stride * shape[d]
        length = math.prod(shape[d] for d in problem.axes)
        return cls(
            stored=first.dtype.name,
            value=problem.partials[0].name,
            inputs=len(problem.inputs),
            partials=len(problem.partials),
            operations=power(definition.expr.flops + definition.step.flops),
            along=along,
            row=near_size(row),
            reduced=power(length),
            kept=power(math.prod(shape) // max(1, length)),
        )
