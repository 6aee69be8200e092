"""Groups of elements that are summed up and then mapped, in one kernel where a cache holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.memory import operand_of
from clprim.call.call import bind
from clprim.dtypes import AnyDType, value_dtype
from clprim.language.definition import define_pointwise
from clprim.plan.grouped.planner import Grouped, plan_grouped
from clprim.plan.kernel import Plan
from clprim.runtime.device import current_device

__all__ = ["GroupedMap"]


class GroupedMap:
    """Sums of a group's terms, values of the group from them, each element mapped with these.

    The strings are those of a `clprim.Pointwise` each; see `clprim.plan.grouped.planner`.

    Args:
        sums: ``y0``, … are added up; of the moving arrays, then the first still ones.
        values: Of the sums, then the still arrays, and numbers.
        each: ``y0`` is the result; of the moving arrays, then the first values, then the extra
            arrays, and numbers.
        name: For kernels, profiles and messages.
    """

    def __init__(self, sums: str, values: str, each: str, *, name: str) -> None:
        self._name = name
        self._sums, self._values, self._each = (
            define_pointwise(text, name=name, preamble="") for text in (sums, values, each)
        )

    def __call__(
        self,
        moving: Sequence[Any],
        still: Sequence[Any],
        extra: Sequence[Any],
        numbers: Sequence[float],
        *,
        axes: tuple[int, ...],
        out: Array,
        kept: Sequence[Array | None],
    ) -> bool:
        """Launches the kernel and returns whether there is one for these arrays on this device.

        Everything is checked before: shapes, dtypes, contexts, what shares memory.

        Args:
            moving: Arrays of the shape of ``out``.
            still: Arrays of that shape with 1 along ``axes``.
            extra: Arrays that broadcast to it.
            numbers: Those of ``values``, then those of ``each``.
            axes: That a group extends along.
            out: Where the result goes.
            kept: Where the values go, shaped as ``still``; None for those that nobody wants.
        """
        device = current_device()
        what = Grouped(
            self._name,
            self._sums,
            self._values,
            self._each,
            out.shape,
            axes,
            _value_dtype([*moving, *still, *extra]),
            tuple(map(operand_of, moving)),
            tuple(map(operand_of, still)),
            tuple(map(operand_of, extra)),
            operand_of(out),
            tuple(None if k is None else operand_of(k) for k in kept),
        )
        plan = plan_grouped(what, device.traits) if out.size else None
        if plan is None:
            return False
        parts = {"sums": self._sums, "values": self._values, "each": self._each}
        snippets = {part: definition.expr.text for part, definition in parts.items()}
        names = [*plan.buffers(written=True), *plan.buffers(written=False)]
        call = bind(device, self._name, [Plan((plan,))], names, snippets=snippets)
        arrays = (out, *(k for k in kept if k is not None), *moving, *still, *extra)
        call.run(device, arrays, tuple(numbers))
        return True


def _value_dtype(arrays: Sequence[Any]) -> AnyDType:
    dtypes = [a.dtype for a in arrays]
    return value_dtype(arrays[0].dtype, dtypes)
