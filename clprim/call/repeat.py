"""Operators of several kernels, launched again without their arithmetic in Python.

Such an operator checks its arguments, allocates what lies between its kernels, and looks each of
them up. All of that comes out the same where arguments are alike; only buffers differ. So the first
call of a signature is traced, and each launches what the trace holds, as one call. Beside the time
that this saves, a kernel then follows the other at once, and the device does not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from clprim.arrays.array import Array, array_over
from clprim.call.call import Call, Stage
from clprim.call.signature import Calls
from clprim.dtypes import AnyDType
from clprim.errors import DeviceError, DTypeError
from clprim.graph.arguments import described
from clprim.graph.graph import Graph, buffer_of
from clprim.graph.steps import steps_of
from clprim.graph.trace import Trace, traced
from clprim.options import current_options
from clprim.runtime import tracing
from clprim.runtime.device import Device, current_device

P = ParamSpec("P")
R = TypeVar("R")

_NEVER_SEEN: Any = object()


def repeatable(function: Callable[P, R]) -> Callable[P, R]:
    """Lets an operator launch again what it launched for arguments that were alike.

    What it does must depend on nothing but shapes, dtypes, strides and which arrays share memory,
    and on the values of numbers and strings. It may do nothing but launch kernels and allocate what
    they write to; where it does more, it is called as it is.

    Args:
        function: Its arrays are arguments, or in a tuple or list that is one; it returns arrays.
    """
    calls: Calls[_Repeat | None] = Calls()
    name = function.__name__

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if tracing.active.now is not None:
            return function(*args, **options)  # a part of another one, which is traced
        device = current_device()
        try:
            found = described(name, device, args, options, fallback=True)
        except (DeviceError, RecursionError):
            found = None
        if found is None:
            return function(*args, **options)
        signature, arrays = (found.key, current_options()), found.arrays
        repeat = calls.get(signature, _NEVER_SEEN)
        if repeat is _NEVER_SEEN:
            repeat = None  # where arrays have no elements, little is launched
            if all(array.size for array in arrays):
                with suppress(tracing.TraceEndedError):
                    trace, graph, result = traced(name, lambda: function(*args, **options), arrays)
                    repeat = _repeat_of(device, trace, graph, arrays, result)
            calls.remember(signature, repeat)
        if repeat is None:
            return function(*args, **options)
        try:
            return cast("R", repeat(device, arrays))
        except DTypeError:
            return function(*args, **options)  # says what is wrong with which number

    return call


# An array by the place of its buffer, and what else it takes to make one; or an argument's number.
_New = tuple[int, tuple[int, ...], AnyDType, tuple[int, ...], int, int]


@dataclass(frozen=True)
class _Repeat:
    """A call of all that was launched, and what it returns.

    Attributes:
        call: Its arrays are those of the arguments; all else is workspace.
        results: What to return.
        several: Whether that is a tuple.
    """

    call: Call
    results: tuple[int | _New | None, ...]
    several: bool

    def __call__(self, device: Device, arrays: Sequence[Any]) -> Any:
        memory = self.call.run(device, arrays)
        results = tuple(
            arrays[r] if type(r) is int else r and _array(device, memory, *cast("_New", r))
            for r in self.results
        )
        return results if self.several else results[0]


def _array(device: Device, memory: Sequence[Any], place: int, *rest: Any) -> Array:
    return array_over(device, memory[place], *rest)


def _repeat_of(
    device: Device, trace: Trace, graph: Graph, arrays: Sequence[Any], result: Any
) -> _Repeat | None:
    """Returns what repeats a call, or None where launches are not all that there is to it."""
    if any(node.draws or node.kept for node in graph.nodes):
        return None
    steps = steps_of(device, graph.nodes)
    places = {buffer_of(operand): n for n, operand in reversed([*enumerate(graph.inputs)])}
    sizes: list[int] = []
    for step in steps:
        for _, buffer in step.buffers:
            if buffer.kind == "constant":
                return None
            if buffer not in places:
                places[buffer] = len(arrays) + len(sizes)
                sizes.append(buffer.nbytes)
    stages = tuple(
        Stage(step.launch, tuple((n, places[buffer]) for n, buffer in step.buffers), step.numbers)
        for step in steps
    )
    several = isinstance(result, tuple)
    results: list[int | _New | None] = []
    for made in result if several else (result,):
        given = [n for n, array in enumerate(arrays) if array is made]
        if made is None or given:
            results.append(given[0] if given else None)
            continue
        buffer = buffer_of(trace.operand(made))
        if buffer not in places:
            return None
        new = places[buffer], made.shape, made.dtype, made.strides, made.offset, made.size
        results.append(new)
    return _Repeat(Call(graph.what, stages, workspace=tuple(sizes)), tuple(results), several)
