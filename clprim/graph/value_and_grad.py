"""`value_and_grad`: a scalar function and its gradients as one compiled function."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import update_wrapper
from typing import Any

import pyopencl.array as cl_array

import clprim.graph.derivatives  # noqa: F401 - which registers them
from clprim.arrays.array import Array
from clprim.dtypes import is_integer
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.gradients.request import is_floating, is_smooth
from clprim.graph.backward import Walk, differentiated
from clprim.graph.jit import Function
from clprim.graph.signature import mapped
from clprim.options import word_of
from clprim.plan.strides import elements_of
from clprim.primitives.pointwise import Pointwise
from clprim.runtime import tracing
from clprim.runtime.device import current_device

_COPY = Pointwise("y0 = x0;", name="copy")
#: Of an argument, or which of ``*args`` or ``**options`` it is.
Name = str | tuple[str, int | str]


class Gradient(Function):
    """A compiled function's value and gradients; see `value_and_grad`."""

    def __init__(
        self, function: Callable[..., Any], wrt: Any, memory: int | None, launches: str = "auto"
    ) -> None:
        self._wrt, self._one = _checked(function, wrt)
        self._memory = memory
        self._differentiated, self._given = function, (function, wrt, memory, launches)

        def value_and_gradients(*args: Any, **options: Any) -> Any:
            return self._computed(args, options)

        update_wrapper(value_and_gradients, function)
        super().__init__(value_and_gradients, (), False, launches)

    def _made_of(self) -> tuple[Any, ...]:
        return Gradient, self._given

    def __repr__(self) -> str:
        return f"<clprim.value_and_grad {self.what}>"

    def _computed(self, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Notes the nodes of the value and its gradients in the trace that is active."""
        trace, what, device = tracing.active.now, self.what, current_device()
        if self._memory is not None:
            trace.budget = min(self._memory, self._memory if trace.budget is None else trace.budget)
        bound = inspect.signature(self._differentiated).bind(*args, **options)
        bound.apply_defaults()
        arrays = self._apart(bound.arguments)
        with differentiated(trace) as (start, spans):
            value = self._differentiated(*bound.args, **bound.kwargs)
        _check_value(what, value)
        operands = [trace.operand(array) for array in arrays if array.size]
        walk = Walk(f"value_and_grad of {what}", device, trace, start, spans, operands)
        gradients = iter(walk.gradients(value, arrays))
        given = bound.arguments
        made = tuple(_like(_at(given, name), gradients, lambda _: None) for name in self._wrt)
        return value, made[0] if self._one else made

    def _apart(self, given: dict[str, Any]) -> list[Array]:
        """The arrays that gradients are of, each of memory that no other argument shares."""
        places = Counter(id(a.base_data) for _, a in _arrays("", [*given.values()]))
        found: list[Array] = []
        for name in self._wrt:
            value = _at(given, name)
            own = name if isinstance(name, str) else f"{name[0]}[{name[1]!r}]"
            inside = [*_arrays(own, value)]
            for label, array in inside or [(own, value)]:
                if not isinstance(array, cl_array.Array) or not is_smooth(array.dtype):
                    kind = array.dtype if inside else quoted(array)
                    raise DTypeError(
                        f"value_and_grad of {self.what}: {label} is {kind}, which has no "
                        "gradient: wrt= names arrays of floats or complex numbers"
                    )
            apart = [_COPY(a) if places[id(a.base_data)] > 1 else a for _, a in inside]
            found += apart
            made = _like(value, iter(apart), lambda value: value)
            if isinstance(name, str):
                given[name] = made
            else:
                group, place = name
                several: Any = dict(given[group]) if isinstance(place, str) else [*given[group]]
                several[place] = made
                given[group] = several if isinstance(place, str) else tuple(several)
        return found


def _at(given: dict[str, Any], name: Name) -> Any:
    """The argument of a name, or one of those that ``*args`` or ``**options`` collect."""
    if isinstance(name, str):
        return given[name]
    group, place = name
    try:
        return given[group][place]
    except (IndexError, KeyError):
        raise DefinitionError(
            f"value_and_grad: wrt= names {group}[{place!r}], of which the call has no argument"
        ) from None


def _arrays(label: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the arrays of an argument, and what messages call them."""
    if isinstance(value, cl_array.Array):
        yield label, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _arrays(f"{label}[{name!r}]", each)
    elif isinstance(value, (list, tuple)):
        for n, each in enumerate(value):
            yield from _arrays(f"{label}[{n}]", each)


def _like(value: Any, arrays: Iterator[Any], other: Callable[[Any], Any]) -> Any:
    """Returns an argument with other arrays in the places of its own, in order."""
    return mapped(value, lambda v: next(arrays) if isinstance(v, cl_array.Array) else other(v))


def _check_value(what: str, value: Any) -> None:
    """Refuses what is no scalar of a floating dtype."""
    if not isinstance(value, cl_array.Array):
        raise DTypeError(
            f"value_and_grad of {what}: it returned {type(value).__name__}, expected an array of "
            "one element"
        )
    if value.size != 1:
        raise ShapeError(
            f"value_and_grad of {what}: it returned an array of shape {value.shape}, expected a "
            "scalar, as its mean() or sum() is"
        )
    if not is_floating(value.dtype):
        raise DTypeError(
            f"value_and_grad of {what}: it returned {value.dtype}, expected real floats"
        )


def _checked(function: Any, wrt: Any) -> tuple[tuple[Name, ...], bool]:
    """Returns the names of the arguments that gradients are of, and whether one was asked for."""
    if not callable(function):
        raise DefinitionError(f"value_and_grad: expected a function, got {quoted(function)}")
    what = getattr(function, "__name__", "function")
    parameters = inspect.signature(function).parameters.values()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ordered = [p.name for p in parameters if p.kind in by_place]
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    several = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    options = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
    one = isinstance(wrt, str) or is_integer(wrt)
    asked = (wrt,) if one else elements_of(wrt)
    if not asked:
        raise DefinitionError(
            f"value_and_grad of {what}: wrt={quoted(wrt)}: expected names or positions of arguments"
        )
    found: list[Name] = []
    for each in asked:
        name: Any = each
        if is_integer(each) and several and each >= len(ordered):
            name = several, each - len(ordered)
        elif is_integer(each) and (0 if several else -len(ordered)) <= each < len(ordered):
            name = ordered[each]
        elif isinstance(each, str) and options and each not in known:
            name = options, each
        if name in found or not (isinstance(name, tuple) or name in known):
            listed = ", ".join(known) or "none"
            raise DefinitionError(
                f"value_and_grad of {what}: wrt={quoted(wrt)}: {quoted(each)} is no other one of "
                f"its arguments: {listed}"
            )
        found.append(name)
    return tuple(found), one


def value_and_grad(
    function: Callable[..., Any],
    wrt: Any = (0, 1),
    *,
    memory: int | None = None,
    launches: str = "auto",
) -> Gradient:
    """Returns a compiled function of the same arguments, for (value, gradients).

    Gradients are those of the kernels that the function calls, derived from their strings, or of
    operators that have their own; all are nodes of one graph with the function's. What is written
    in place is differentiated as it was read. Inside `jit` it becomes a part of that graph, and
    with it an optimizer's step.

    Args:
        function: Plain Python over arrays, as in `jit`; it returns a scalar: an array of one
            element, as a loss is.
        wrt: Positions or names of arguments, arrays or lists and dicts of arrays; positions count
            on into ``*args``.
        memory: Bytes that all between kernels may take: beyond that values which the gradients
            need are computed again, with the same bits, as few and as cheap ones as may be. Inside
            `jit` it holds for all of that graph. `explain` says what came of it; where it is too
            little, the least that was found is taken.
        launches: As of `jit`.

    Returns:
        What is called as the function is, for its value and a tuple of gradients, in the form of
        the arguments, None in place of numbers; for one position or name that one's alone.

    Raises:
        DefinitionError: No function, arguments that it does not have, or a budget that is no
            number of bytes; of a call: a node that has no gradient, with the line of the program.
        ShapeError: Of a call: a result of several elements.
        DTypeError: Of a call: arguments or a result of whole numbers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> loss = cp.value_and_grad(lambda w, x: ((x * w) ** 2).sum(), wrt="w")
        >>> value, grad = loss(cp.full(2, 3.0), cp.asarray(np.float32([1, 2])))
        >>> value.get(), grad.get()
        (array(45., dtype=float32), array([ 6., 24.], dtype=float32))
    """
    if memory is not None and not (is_integer(memory) and memory > 0):
        raise DefinitionError(
            f"value_and_grad: memory={quoted(memory)}: expected a number of bytes, or None"
        )
    launches = word_of("value_and_grad", "launches", launches)
    return Gradient(function, wrt, memory, launches)
