"""The backward pass over the nodes of a trace: adjoints from the last node to the first.

A value that a gradient needs and that was overwritten meanwhile is copied before that: nothing has
run yet, so that the copy is a node among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from clprim.arrays.array import Array, array_over, new_array
from clprim.arrays.creation import full
from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError, DefinitionError
from clprim.gradients.request import is_smooth
from clprim.graph.adjoints import Adjoints
from clprim.graph.graph import Buffer, Node, Uses, buffer_of, layout_of, same_place
from clprim.graph.spans import Span, arrays_in
from clprim.graph.trace import Trace
from clprim.plan.strides import Operand, dense_strides, memory_order, shares_memory
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device

_COPY = Pointwise("y0 = x0;", name="copy")


@contextmanager
def differentiated(trace: Trace) -> Iterator[tuple[int, dict[int, Span]]]:
    """Lets operators leave spans; gives the number of nodes before, and the spans."""
    spans = trace.spans
    found = trace.spans = {} if spans is None else spans
    trace.depth += 1
    try:
        yield len(trace.nodes), found
    finally:
        trace.depth -= 1
        trace.spans = spans


class Call:
    """A node whose gradients are wanted, as rules see it."""

    def __init__(
        self, walk: Walk, at: int, grads: Sequence[Array | None], wanted: Sequence[bool]
    ) -> None:
        self._walk, self._at = walk, at
        self.node: Node = walk.nodes[at]
        self.grads, self.wanted = grads, wanted

    def read(self, n: int) -> Array:
        """An array that it read, as it was then."""
        return self._walk.value(self.node.reads[n], self._at)

    def written(self, n: int) -> Array:
        """A result, as it was then."""
        return self._walk.value(self.node.writes[n], self._at + 1)

    def like(self, n: int) -> Array:
        """An array that it read, of which nothing but shape and strides may matter."""
        return self._walk.array(self.node.reads[n])

    def adjoint(self, operand: Operand) -> Array | None:
        """The adjoint of what was not overwritten."""
        return self._walk.adjoints.of(operand)

    def add(self, operand: Operand, grad: Array) -> None:
        """Adds to the adjoint of what it read beside its arrays: an old result."""
        self._walk.adjoints.add(operand, grad)


class Derivative:
    """How the gradients of a primitive's calls are computed."""

    def __init__(
        self,
        gradients: Callable[[Call], Sequence[Array | None]],
        overwritten: Callable[[Node], Sequence[Operand]] = lambda node: node.writes,
        instead: Callable[[Node, Sequence[Array], Sequence[Array]], bool] | None = None,
    ) -> None:
        self.gradients, self.overwritten, self.instead = gradients, overwritten, instead


#: By classes of primitives.
DERIVATIVES: dict[type, Derivative] = {}


def derivative_of(node: Node) -> Derivative | None:
    """Returns how a node's gradients are computed; None where nobody knows."""
    for kind in type(node.primitive).__mro__:
        if kind in DERIVATIVES:
            return DERIVATIVES[kind]
    return None


class Walk:
    """Adjoints of what a part of a trace computed."""

    def __init__(
        self,
        what: str,
        device: Device,
        trace: Trace,
        start: int,
        spans: Mapping[int, Span],
        wrt: Sequence[Operand],
    ) -> None:
        self._what, self._device, self._trace, self._spans = what, device, trace, spans
        self._before, self.nodes = trace.nodes[:start], trace.nodes[start:]
        self._wrt = {buffer_of(operand) for operand in wrt}
        self.nodes = self._expanded()
        self._active = self._reached()
        self._uses = Uses(self.nodes)
        self._copies: dict[int, list[tuple[Operand, Array, list[Node]]]] = {}
        self.adjoints = Adjoints(device)

    def gradients(
        self, value: Array, wrt: Sequence[Array], grad: Array | None = None
    ) -> list[Array]:
        """Adds the nodes of the gradients of a value whose own is given or 1, and returns them."""
        trace, backward = self._trace, list[Node]()
        operands = [trace.operand(array) for array in wrt]
        trace.nodes = backward
        operand = trace.operand(value)
        if buffer_of(operand) in self._active:
            first = full(value.shape, 1, value.dtype) if grad is None else grad
            self.adjoints.add(operand, first)
            self._walk()
        results = list[Array]()
        taken = {id(value.base_data), None if grad is None else id(grad.base_data)}
        for array, operand in zip(wrt, operands, strict=True):
            found = self.adjoints.of(operand) if array.size else None
            grad = full(array.shape, 0, array.dtype) if found is None else found
            if id(grad.base_data) in taken:  # somebody may write to one of them
                grad = _COPY(grad)
            taken.add(id(grad.base_data))
            results.append(grad)
        forward = [
            each
            for n, node in enumerate(self.nodes)
            for each in (*(c for _, _, new in self._copies.get(n, ()) for c in new), node)
        ]
        trace.nodes = [*self._before, *forward, *trace.nodes]
        return results

    # --- what was computed -----------------------------------------------------------------------

    def _expanded(self) -> list[Node]:
        """The nodes, some replaced by others that have gradients."""
        active, found = self._reached(), list[Node]()
        for node in self.nodes:
            derivative = derivative_of(node)
            instead = derivative.instead if derivative else None
            if instead and id(node) not in self._spans and self._is_active(node, active):
                with self._noting() as nodes:
                    reads, writes = (
                        [self.array(o) for o in each] for each in (node.reads, node.writes)
                    )
                    done = instead(node, reads, writes)
                found += nodes if done else [node]
            else:
                found.append(node)
        return found

    def _reached(self) -> set[Buffer]:
        """Buffers whose contents depend on the arguments, floats and complex numbers alone."""
        active = set(self._wrt)
        for node in self.nodes:
            if self._is_active(node, active):
                written = (*node.writes, *node.changed)
                active.update(buffer_of(o) for o in written if is_smooth(o.dtype))
        return active

    @staticmethod
    def _is_active(node: Node, active: set[Buffer]) -> bool:
        return any(buffer_of(r) in active and is_smooth(r.dtype) for r in node.reads)

    def array(self, operand: Operand) -> Array:
        """An array over an operand."""
        return array_over(self._device, buffer_of(operand), *layout_of(operand))

    def value(self, operand: Operand, at: int) -> Array:
        """An array that holds what an operand held before a node; a copy if that is lost."""
        for n in self._uses.writers.get(buffer_of(operand), ()):
            node = self.nodes[n]
            if n < at or not any(
                buffer_of(w) is buffer_of(operand) and shares_memory(w, operand)
                for w in (*node.writes, *node.changed)
            ):
                continue
            copies = self._copies.setdefault(n, [])
            for other, copy, _ in copies:
                if same_place(other, operand):
                    return copy
            with self._noting() as nodes:
                order = memory_order(operand.shape, [operand.strides])
                strides = dense_strides(operand.shape, operand.dtype.itemsize, order)
                where = operand.shape, operand.dtype, strides, operand.size
                copy = _COPY(self.array(operand), out=new_array(self._device, *where))
            copies.append((operand, copy, nodes))
            return copy
        return self.array(operand)

    @contextmanager
    def _noting(self) -> Iterator[list[Node]]:
        """Lets calls be noted in another list."""
        trace = self._trace
        before, trace.nodes = trace.nodes, []
        try:
            yield trace.nodes
        finally:
            trace.nodes = before

    # --- backward --------------------------------------------------------------------------------

    def _walk(self) -> None:
        places = {id(node): n for n, node in enumerate(self.nodes)}
        done: dict[int, bool] = {}
        for n in reversed(range(len(self.nodes))):
            node = self.nodes[n]
            span = self._spans.get(id(node))
            try:
                if span is not None and id(span) not in done:
                    done[id(span)] = self._by_rule(span, [places[id(m)] for m in span.nodes])
                if span is None or not done[id(span)]:
                    self._by_primitive(n)
            except NoPlanError as error:
                raise self._refused(node, "it has no kernel for its gradient") from error
            except ClprimError as error:
                raise type(error)(f"{self._place(node)}: {error}") from error

    def _place(self, node: Node) -> str:
        span = self._spans.get(id(node))
        what = node.primitive.what if span is None else span.what
        return f"{self._what}: {what}, at {node.line or 'an unknown line'}"

    def _refused(self, node: Node, why: str) -> DefinitionError:
        return DefinitionError(f"{self._place(node)}: {why}")

    def _touched(self, operand: Operand, before: int) -> bool:
        """Whether an argument's memory is meant, or a node before one has to do with it."""
        buffer = buffer_of(operand)
        if buffer in self._wrt:
            return True
        uses = (*self._uses.writers.get(buffer, ()), *self._uses.readers.get(buffer, ()))
        return any(
            n < before
            and any(
                buffer_of(o) is buffer and shares_memory(o, operand)
                for o in (*self.nodes[n].reads, *self.nodes[n].writes)
            )
            for n in uses
        )

    def _taken(self, operand: Operand, at: int) -> Array | None:
        if buffer_of(operand) not in self._active or not is_smooth(operand.dtype):
            return None
        return self.adjoints.take(operand, lambda: self._touched(operand, at))

    def _by_primitive(self, n: int) -> None:
        """Adds a node's gradients to the adjoints of what it read."""
        node = self.nodes[n]
        derivative = derivative_of(node)
        written = derivative.overwritten(node) if derivative else node.writes
        grads = [self._taken(o, n) for o in written]
        wanted = [buffer_of(r) in self._active and is_smooth(r.dtype) for r in node.reads]
        if not any(wanted) or (written and all(g is None for g in grads)):
            return
        if derivative is None:
            raise DefinitionError("it has no gradient")
        if node.draws:
            raise DefinitionError("it draws random numbers, and has no gradient")
        call = Call(self, n, grads, wanted)
        found = derivative.gradients(call)
        for operand, wished, grad in zip(node.reads, wanted, found, strict=True):
            if wished and grad is not None:
                self.adjoints.add(operand, grad)

    def _by_rule(self, span: Span, places: Sequence[int]) -> bool:
        """Adds an operator's gradients; returns whether its rule is enough."""
        trace, rule = self._trace, span.rule
        results = [
            trace.operand(r) if isinstance(r, Array) and r.size else None
            for r in span.results[: rule.grads]
        ]
        first, last = min(places), max(places)

        def active(array: Any) -> bool:
            smooth = array.size and is_smooth(array.dtype)
            return bool(smooth) and buffer_of(trace.operand(array)) in self._active

        if any(map(active, span.others())):
            return False
        if not rule.complexes and any(a.dtype.kind == "c" for row in span.arrays() for a in row):
            return False  # it is one of real numbers
        written = {buffer_of(w) for node in span.nodes for w in node.writes}
        more = [trace.operand(a) for a in arrays_in(span.results[rule.grads :]) if a.size]
        if any(buffer_of(o) in written and self.adjoints.of(o) is not None for o in more):
            return False
        grads = [None if r is None else self._taken(r, first) for r in results]
        if all(g is None for g in grads) or not any(
            active(a) for row in span.arrays() for a in row
        ):
            return True
        filled = [
            full(r.shape, 0, r.dtype) if g is None and r is not None else g
            for r, g in zip(results, grads, strict=True)
        ]
        found = span.gradients(
            lambda a: self.value(trace.operand(a), first) if a.size else a,
            lambda a: self.value(trace.operand(a), last + 1) if a.size else a,
            filled,
            active,
        )
        for row, made in zip(span.arrays(), found, strict=True):
            for array, grad in zip(row, made, strict=False):
                if active(array) and grad is not None:
                    self.adjoints.add(trace.operand(array), grad)
        return True
