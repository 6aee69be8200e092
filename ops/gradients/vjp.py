"""Gradients of an operator made of what it launches: its vector-Jacobian product.

The first call of a signature traces the operator and walks its nodes backwards; what is needed of
both is compiled as `jit` compiles a function, and launched from then on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import clprim.graph.derivatives  # noqa: F401 - which registers them
from clprim.arrays.memory import operand_of
from clprim.call.signature import Calls
from clprim.errors import ClprimError
from clprim.graph.backward import Walk, differentiated
from clprim.graph.compiled import Compiled
from clprim.graph.signature import described
from clprim.graph.trace import traced
from clprim.ops.shared.checks import check_floating, check_shape, is_array
from clprim.ops.shared.ranks import GRAD
from clprim.plan.strides import overlaps_itself
from clprim.runtime import tracing
from clprim.runtime.device import current_device

_STORE = ("out", "epilogue", "epilogue_args")


def vjp(
    function: Callable[..., Any],
    wrt: str,
    notes: str = "",
    program: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Returns ``NAME_backward(grad, …)``: the gradients of an operator in arguments by name.

    Its other parameters are the operator's but those of its store; of an argument that is None it
    returns None. A ``program`` takes the operator's place where that itself has no gradient, or
    rounds.
    """
    own: Any = inspect.unwrap(function)
    name, names = own.__name__, wrt.split()
    what = f"{name}_backward"
    taken = [p for p in inspect.signature(own).parameters.values() if p.name not in _STORE]
    result = "Array" if len(names) == 1 else "tuple[Array | None, ...]"
    signature = inspect.Signature([GRAD, *taken], return_annotation=result)
    calls: Calls[Compiled] = Calls()

    def noted(args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Notes the nodes of the operator and of its gradients in the trace that is active."""
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{what}() {error}") from None
        trace, device, given = tracing.active.now, current_device(), bound.arguments
        for n in names:
            if given.get(n) is None:
                continue
            check_floating(what, n, given[n], complexes=True)
            # Each element of a broadcast argument has a gradient of its own.
            if is_array(given[n]) and overlaps_itself(operand_of(given[n])):
                given[n] = given[n].copy()
        with differentiated(trace) as (start, spans):
            try:
                value = (program or own)(*bound.args[1:], **bound.kwargs)
            except ClprimError as error:
                raise type(error)(what + str(error).removeprefix(name)) from None
        arrays = {n: given[n] for n in names if given.get(n) is not None}
        check_shape(what, "grad", given["grad"], value.shape)
        check_floating(what, "grad", given["grad"], complexes=True)
        wanted = [*arrays.values()]
        operands = [trace.operand(array) for array in wanted if array.size]
        walk = Walk(what, device, trace, start, spans, operands)
        made = dict(zip(arrays, walk.gradients(value, wanted, given["grad"]), strict=True))
        found = tuple(made.get(n) for n in names)
        return found if len(found) > 1 else found[0]

    def call(*args: Any, **options: Any) -> Any:
        if tracing.active.now is not None:
            return noted(args, options)
        device = current_device()
        found = described(what, device, args, options)
        if found is None:  # arrays over parts of one piece of memory
            args = tuple(a.copy() if is_array(a) else a for a in args)
            return call(*args, **{n: a.copy() if is_array(a) else a for n, a in options.items()})
        repeat = calls.get(found.key)
        if repeat is None:
            _, graph, form = traced(what, lambda: noted(args, options), found.arrays)
            repeat = Compiled(device, graph, form, keep=False)
            calls.remember(found.key, repeat)
        return repeat(found.arrays)

    several = "s" * (len(names) > 1)
    call.__name__ = call.__qualname__ = what
    call.__module__ = own.__module__
    call.__doc__ = f"Returns the gradient{several} of `{name}` in {' and '.join(names)}{notes}."
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [GRAD, *taken]} | {"return": result}
    return call
