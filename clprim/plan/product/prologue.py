"""What becomes of gathered elements on their way to the row buffer: a snippet, as epilogues are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from clprim.dtypes import stored_type
from clprim.plan.kernel import KernelCode, OperandCode
from clprim.plan.parameters import Arguments
from clprim.plan.product.problem import Contraction
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class PrologueCode:
    """What product/in_place.cl.jinja prints of it."""

    text: str  # The snippet, on ``y0``
    arrays: tuple[OperandCode, ...]  # What it calls ``x0``, …; ``inner`` is the step along depth
    vectors: bool  # Whether it runs on vectors along depth


class Reading(Protocol):
    """The code of a kernel that has one."""

    @property
    def prologue(self) -> PrologueCode | None:
        """The snippet; None where elements are read as they are."""


C = TypeVar("C", bound=KernelCode)


def with_prologue(what: Contraction, code: C, traits: DeviceTraits) -> C:
    """Returns the code of a kernel which runs the prologue, whose arrays are of the sums' dtype."""
    told = what.prologue
    assert told.snippet is not None
    value = stored_type(what.value).value
    arrays = tuple(OperandCode.of(p.name, p.dtype, what.value, p.output) for p in told.arrays)
    snippets = [s for s in (what.epilogue.snippet, told.snippet) if s is not None]
    printed = Printed()
    text = printed.text(told.snippet, dict.fromkeys("xyw", value))
    vectors = told.on_vectors(what.value) and all(a.inner != "any" for a in arrays)
    return replace(
        code,
        prologue=PrologueCode(text, arrays, vectors),
        unified=unified_functions(snippets, "", traits),
        own=own_names(snippets, ""),
        guards=tuple(sorted({*code.guards, *printed.guards})),
    )  # type: ignore[call-arg]


def add_prologue(found: Arguments, what: Contraction, code: Reading) -> None:
    """Adds the arrays that a kernel's prologue reads, and where they lie."""
    if code.prologue is None:
        return
    for array, place in zip(code.prologue.arrays, what.prologue.arrays, strict=True):
        name = array.name
        found.memory(array.storage, f"{name}_memory")
        lanes = {f"{name}_{d}": stride for d, stride in enumerate(place.lane)}
        found.numbers(
            **{f"{name}_start": place.start, f"{name}_group": place.group},
            **{f"{name}_depth": place.output},
            **lanes,
        )
