"""Runs the kernel that writes at indices line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clprim.arrays.memory import memory_relation, operand_of
from clprim.call.call import Call, bind
from clprim.call.signature import Calls
from clprim.plan.index.lines import plan_lines
from clprim.runtime.device import current_device
from clprim.runtime.stats import counters

__all__ = ["take_lines"]

_calls: Calls[Call] = Calls()


def take_lines(
    what: str,
    y: Any,
    index: Any,
    source: Any,
    axis: int,
    how: str,
    before: Callable[[], object],
) -> bool:
    """Takes elements of ``source`` into ``y`` where ``index`` says; see `plan_lines`.

    Args:
        what: The operator, for messages.
        y: What is written.
        index: Of as many dimensions, broadcast along the others by strides of 0 where need be.
        source: Likewise.
        axis: Along which indices count.
        how: ``sum``, ``prod``, ``amax``, ``amin`` or ``last``.
        before: What writes to ``y`` what is there before.

    Returns:
        Whether it did; if not, nothing was written, and ``before`` was not called.
    """
    if any(memory_relation(y.base_data, a.base_data) for a in (index, source)):
        return False  # what is written is read later
    device = current_device()
    call, signature = _calls.look_up(device, (index, source), (y,), (), (what, axis, how))
    if signature is None:
        return False  # an array of another context, say: others check what they are given
    if call is None:
        operands = (operand_of(y), operand_of(index), operand_of(source))
        plan = plan_lines(*operands, axis, how, device.traits)
        if plan is None:
            return False
        call = bind(device, what, plan, ("y", "index", "source"))
        counters.plans += 1
        _calls.remember(signature, call)
    before()
    call.run(device, (y, index, source))
    return True
