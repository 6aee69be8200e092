"""Runs contractions: plans them once a signature, on the operands that the operator gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from clprim.arrays.memory import Described
from clprim.call.call import Call, bind
from clprim.call.packed import PackedWeight
from clprim.call.signature import Calls
from clprim.errors import DTypeError, quoted
from clprim.options import current_options
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.kernel import Plan
from clprim.plan.product.problem import Contraction
from clprim.plan.product.strategy import plan_contraction
from clprim.runtime.device import Device, current_device
from clprim.runtime.stats import counters
from clprim.runtime.tables import table_of

__all__ = ["Planned", "run_contraction"]

_NOTHING: dict[str, PackedWeight] = {}


@dataclass(frozen=True)
class Planned:
    """What an operator asks for.

    Attributes:
        contractions: Run one after another; together they write the whole result.
        result: The result, if it is to be allocated.
        strategy: A name out of `clprim.plan.product.strategy`, or ``auto``.
    """

    contractions: tuple[Contraction | Depthwise | DepthwiseGradient, ...]
    result: Described
    strategy: str = "auto"

    def plans(self, device: Device) -> list[Plan]:
        """Returns the kernels of a device."""
        known = table_of(device), current_options().convolution_error
        return [
            plan_contraction(c, device.traits, self.strategy, *known) for c in self.contractions
        ]


def run_contraction(
    calls: Calls[Call],
    what: str,
    x: Any,
    w: Any,
    extras: Sequence[Any],
    options: Hashable,
    prepare: Callable[[Device], Planned],
    *,
    out: Any = None,
    beta: float = 0,
) -> Any:
    """Runs a contraction, planning it where its signature is new.

    Args:
        calls: The operator's planned calls.
        what: The operator, for messages.
        x: The gathered operand.
        w: The operand to pack, or a `PackedWeight`.
        extras: Arrays of the epilogue.
        options: Whatever else decides what the call does.
        prepare: Checks everything and returns what to run.
        out: Where the result goes, checked by ``prepare``.
        beta: What the old result is multiplied with.
    """
    device = current_device()
    kept = _NOTHING
    if isinstance(w, PackedWeight):
        kept, w = {"w": w}, w.array
    arrays = (x, w, *extras)
    outs = () if out is None else (out,)
    error = current_options().convolution_error
    call, signature = calls.look_up(device, arrays, outs, (), (options, bool(beta), error))
    if call is None:
        call = _build(device, what, prepare(device))
        calls.remember(signature, call)
    result = call.allocate(device)[0] if out is None else out
    try:
        call.run(device, (result, *arrays), (beta,), kept)
    except DTypeError as error:
        raise DTypeError(f"{what}: beta={quoted(beta)}: {error.__cause__}") from error
    return result


def _build(device: Device, what: str, planned: Planned) -> Call:
    arrays = ["y0", "x", "w"]
    snippets = {}
    for contraction in planned.contractions[:1]:
        if not isinstance(contraction, DepthwiseGradient):
            arrays += [extra.name for extra in contraction.extras]
        epilogue = contraction.epilogue
        snippets = {} if epilogue is None else {epilogue.rules.part: epilogue.text}
    call = bind(device, what, planned.plans(device), arrays, (planned.result,), snippets)
    counters.plans += 1
    return call
