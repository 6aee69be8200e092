"""Operators of several kernels, launched again without their arithmetic in Python.

Such an operator checks its arguments, allocates what lies between its kernels, and looks each of
them up. All of that comes out the same where arguments are alike; only buffers differ. So the first
call of a signature is traced, and each launches what the trace holds, as one call. Beside the time
that this saves, a kernel then follows the other at once, and the device does not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from clprim.call.packed import PackedWeight
from clprim.call.signature import Calls
from clprim.errors import DeviceError, DTypeError
from clprim.graph.compiled import Compiled
from clprim.graph.graph import Graph, buffer_of
from clprim.graph.signature import described
from clprim.graph.trace import traced
from clprim.runtime import tracing
from clprim.runtime.device import current_device

P = ParamSpec("P")
R = TypeVar("R")

_NEVER_SEEN: Any = object()


def repeatable(function: Callable[P, R]) -> Callable[P, R]:
    """Lets an operator launch again what it launched for arguments that were alike.

    What it does must depend on nothing but shapes, dtypes, strides and which arrays share memory,
    and on the values of numbers and strings. It may do nothing but launch kernels and allocate what
    they write to; where it does more, it is called as it is.
    """
    calls: Calls[Compiled | None] = Calls()
    name = function.__name__

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        # A part of another one, which is traced; or of a weight that its owner lets go.
        if tracing.active.now is not None or PackedWeight in map(type, args):
            return function(*args, **options)
        device = current_device()
        try:
            found = described(name, device, args, options, fallback=True)
        except (DeviceError, RecursionError):
            found = None
        if found is None:
            return function(*args, **options)
        arrays = found.arrays
        repeat = calls.get(found.key, _NEVER_SEEN)
        if repeat is _NEVER_SEEN:
            repeat = None  # where arrays have no elements, little is launched
            if all(array.size for array in arrays):
                # Of numbers and results that are wrong the function says what is.
                with suppress(tracing.TraceEndedError, DTypeError):
                    _, graph, form = traced(name, lambda: function(*args, **options), arrays)
                    if _is_all(graph):
                        repeat = Compiled(device, graph, form, passes=False, keep=False)
            calls.remember(found.key, repeat)
        return function(*args, **options) if repeat is None else cast("R", repeat(arrays))

    return call


def _is_all(graph: Graph) -> bool:
    """Whether launches are all that there is to a call."""
    touched = [*map(buffer_of, graph.outputs), *(b for node in graph.nodes for b in node.touched)]
    launched = not any(node.draws or node.kept for node in graph.nodes)
    return launched and all(buffer.kind != "constant" for buffer in touched)
