"""What a `Reduction` is to compute, and which classes of it tables tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from clprim.dtypes import AnyDType
from clprim.language.definition import ReductionDefinition
from clprim.plan.reduction.code import Scaling
from clprim.plan.strides import Operand, broadcast_strides
from clprim.plan.table import near_size, power
from clprim.traits import DeviceTraits

if TYPE_CHECKING:
    from clprim.plan.reduction.planner import Found


class Folds:
    """What problems of reductions, of groups and of scans are asked."""

    definition: Any
    shape: tuple[int, ...]

    @property
    def fold(self) -> Any:
        """What takes elements in."""
        return self.definition

    @property
    def name(self) -> str:
        """What profiles call it."""
        return str(self.definition.name)

    @property
    def timed(self) -> bool:
        """Whether its class decides how long it takes, and each run gives the same."""
        return math.prod(self.shape) > 0 and not self.fold.draws


def fold_error(_: Any, problem: Any) -> float:
    """A half of the digits: orders of additions differ, and functions of sums make more of it."""
    kind = problem.partials[0].kind
    return 0.0 if kind in "iub" else float(np.sqrt(np.finfo(np.float32).eps))


@dataclass(frozen=True)
class Reduced(Folds):
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
    def value(self) -> AnyDType:
        """Dtype of the first partial."""
        return self.partials[0]

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
    """A class of what is reduced: that one schedule is best for."""

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
    def of(cls, problem: Any) -> ReductionClass:
        """Returns the class of a reduction, of groups or of a scan."""
        first, shape, fold = problem.inputs[0], problem.shape, problem.fold
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
            operations=power(fold.expr.flops + fold.step.flops),
            along=along,
            row=near_size(row),
            reduced=power(length),
            kept=power(math.prod(shape) // max(1, length)),
        )
