"""Operators whose gradient is one of their own: their calls are noted as spans of nodes.

A `Rule` says of an operator what its backward operator is called with. Inside a trace that is to
be differentiated a call of such an operator leaves a `Span`; all other nodes have the gradients of
their primitives.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import pyopencl.array as cl_array

from clprim.call.packed import PackedWeight
from clprim.graph.graph import Node
from clprim.graph.signature import mapped
from clprim.runtime import tracing

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Rule:
    """What an operator's gradient is computed with."""

    wrt: str = "x"
    backward: Callable[..., Any] | None = None
    told: str = ""
    made: str = ""
    grads: int = 1
    known: bool = False
    aside: str = ""
    when: Callable[[Mapping[str, Any]], bool] | None = None
    instead: Callable[..., Any] | None = None
    twice: Callable[..., Any] | None = None
    complexes: bool = False


@dataclass(frozen=True, eq=False)
class Span:
    """A call of an operator."""

    what: str
    rule: Rule
    given: Mapping[str, Any]
    results: tuple[Any, ...]
    nodes: tuple[Node, ...]

    @property
    def line(self) -> str:
        """Of the program that called it."""
        return self.nodes[-1].line

    def arrays(self) -> list[list[Any]]:
        """Of every name in ``wrt`` the arrays, one or several."""
        return [arrays_in(self.given[name]) for name in self.rule.wrt.split()]

    def others(self) -> list[Any]:
        """The arrays among all other arguments that results depend on."""
        wrt = [*self.rule.wrt.split(), *self.rule.aside.split()]
        return [a for name, v in self.given.items() if name not in wrt for a in arrays_in(v)]

    def gradients(
        self,
        before: Callable[[Any], Any],
        after: Callable[[Any], Any],
        grads: Sequence[Any],
        active: Callable[[Any], bool],
    ) -> list[list[Any]]:
        """Calls the backward operator; gradients of arrays that are not ``active`` go nowhere."""
        rule, wrt = self.rule, self.rule.wrt.split()
        assert rule.backward is not None
        known = {name: _changed(value, before) for name, value in self.given.items()}
        results = [_changed(value, after) for value in self.results]
        mask = tuple(self.given[name] is not None for name in wrt)
        (first, *_), *_ = [arrays_in(known[name]) or [None] for name in wrt]
        for name in ("sizes", "input_shape", "input_size"):
            known[name] = first.shape
        known = {"input": first} | known
        known |= {"given": dict(known), "grad": grads[0], "output_mask": mask}
        known["wanted"] = {name: any(map(active, arrays_in(self.given[name]))) for name in wrt}
        known |= dict.fromkeys(("output", "result"), results[0])
        more = rule.made.split()
        known |= zip(more, results[len(results) - len(more) :], strict=True)
        if rule.known:
            found = rule.backward(SimpleNamespace(**known, grads=grads, made=results))
        else:
            names = [*inspect.signature(rule.backward).parameters]
            taken = {n: known[n] for n in names[1:] if n in known}
            found = rule.backward(grads[0], **taken)
        several = found if isinstance(found, tuple) and len(wrt) > 1 else (found,)
        return [arrays_in(each) or [None] for each in several]


def arrays_in(value: Any) -> list[Any]:
    """Returns the arrays of an argument: itself, or those in tuples and lists."""
    if isinstance(value, cl_array.Array):
        return [value]
    if isinstance(value, PackedWeight):
        return [value.array]
    if isinstance(value, (tuple, list)):
        return [array for each in value for array in arrays_in(each)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [a for f in dataclasses.fields(value) for a in arrays_in(getattr(value, f.name))]
    return []


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a value in which every array has become what ``change`` makes of it."""

    def leaf(value: Any) -> Any:
        return change(value) if isinstance(value, cl_array.Array) else value

    return mapped(value, leaf, inside=True)


def differentiable(
    function: Callable[P, R], rule: Rule, epilogue: Callable[..., Any]
) -> Callable[P, R]:
    """Lets an operator leave a span where its gradient may be asked for."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        trace = tracing.active.now
        if trace is None or trace.spans is None:
            return function(*args, **options)
        try:
            bound = signature.bind(*args, **options)
        except TypeError:
            return function(*args, **options)  # says what is missing
        bound.apply_defaults()
        given = bound.arguments
        if rule.when is not None and not rule.when(given):
            return function(*args, **options)
        if rule.instead is not None:
            return rule.instead(*bound.args, **bound.kwargs)  # type: ignore[no-any-return]
        asked = not rule.told or given[rule.told]
        snippet, numbers, out = given.get("epilogue"), given.get("epilogue_args"), given.get("out")
        if snippet is not None:
            given |= {"epilogue": None, "epilogue_args": (), "out": None}
        if rule.twice is not None and trace.depth > 1 and given.get("out") is None:
            composed = rule.twice(SimpleNamespace(**given))
            if composed is not None:
                several = isinstance(composed, tuple)
                first, *rest = composed if several else (composed,)
                if snippet is not None:
                    first = epilogue(first, snippet, numbers, out)
                return (first, *rest) if several else first  # type: ignore[return-value]
        if rule.told:
            given[rule.told] = True
        spans, trace.spans, start = trace.spans, None, len(trace.nodes)
        try:
            made: Any = function(*bound.args, **bound.kwargs)
        finally:
            trace.spans = spans
        nodes, results = tuple(trace.nodes[start:]), made if isinstance(made, tuple) else (made,)
        if nodes:
            span = Span(function.__name__, rule, {**given, "out": None}, results, nodes)
            spans.update((id(node), span) for node in nodes)
        if snippet is not None:
            results = (epilogue(results[0], snippet, numbers, out), *results[1:])
        kept = results if asked else results[: len(results) - len(rule.made.split())]
        several = isinstance(made, tuple) and (asked or len(kept) > 1)
        return kept if several else kept[0]  # type: ignore[return-value]

    return call
