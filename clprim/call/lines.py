"""Runs the kernel that writes at indices line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clprim.arrays.memory import memory_relation, operand_of
from clprim.call.call import Call, bind
from clprim.call.signature import Calls
from clprim.plan.index.lines import plan_lines
from clprim.plan.kernel import Buffer
from clprim.runtime.device import current_device

# The call, and whether it copies what is there before.
_calls: Calls[tuple[Call, bool]] = Calls()


def take_lines(
    what: str,
    y: Any,
    index: Any,
    source: Any,
    axis: int,
    how: str,
    before: Callable[[], object],
    own: Any = None,
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
        own: The array that it copies, of the same shape and dtype, if it does nothing else.

    Returns:
        Whether it did; if not, nothing was written, and ``before`` was not called.
    """
    if any(memory_relation(y.base_data, a.base_data) for a in (index, source)):
        return False  # what is written is read later
    if own is not None and memory_relation(y.base_data, own.base_data):
        own = None
    inputs = (index, source) if own is None else (index, source, own)
    device = current_device()
    found, signature = _calls.look_up(device, inputs, (y,), (), (what, axis, how))
    if signature is None:
        return False  # an array of another context, say: others check what they are given
    if found is None:
        operands = (operand_of(y), operand_of(index), operand_of(source))
        before_it = None if own is None else operand_of(own)
        plan = plan_lines(*operands, axis, how, device.traits, before_it)
        if plan is None:
            return False
        copies = any(Buffer("x") in stage.arguments for stage in plan.stages)
        found = bind(device, what, plan, ("y", "index", "source", "x")), copies
        _calls.remember(signature, found)
    call, copies = found
    if not copies:
        before()
    call.run(device, (y, *inputs))
    return True
