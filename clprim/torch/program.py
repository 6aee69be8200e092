"""Graphs of ATen overloads, run under the trace by the device's own kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from clprim.errors import ClprimError
from clprim.options import options
from clprim.runtime import tracing
from clprim.runtime.tracing import TraceEndedError
from clprim.torch import private
from clprim.torch.graphs import Graphs
from clprim.torch.moving import Moved, in_order, laid_out, to_device
from clprim.torch.parts import (
    STATES,
    Lies,
    Part,
    devices_of,
    lies_of,
    line_of,
    note,
    parts_of,
    split,
    takes_numbers,
)
from clprim.torch.tensors import is_lazy, on_device, resolved
from clprim.torch.weights import Weights

_AS_STRIDED = torch.ops.aten.as_strided.default
_ALIAS = torch.ops.aten.alias.default


class _Known:
    """What is known of a part: its signatures, and what it takes."""

    def __init__(
        self, part: Part, static: Collection[fx.Node], moved: bool, graphs: Graphs
    ) -> None:
        self.graphs = graphs
        there = [n for n in part.reads if _is_there(n, moved)]
        self.fixed = [n for n in there if n in static]
        self.plain = [n for n in there if n not in static]
        self.odd = [n for n in part.reads if not _is_there(n, moved)]
        self.lazy = [n for n in part.reads if _is_lazy(n)]


def _is_there(node: fx.Node, moved: bool) -> bool:
    """Whether a node's value is a tensor on the device for sure."""
    if not isinstance(lies_of(node), Lies):
        return False
    kinds = devices_of(node)
    return kinds == {private.NAME} or (moved and bool(kinds) and node.op == "placeholder")


def _is_lazy(node: fx.Node) -> bool:
    """Whether a node's tensor is conjugated, or negated, where it is read, and not before."""
    lies = lies_of(node)
    return isinstance(lies, Lies) and lies.lazy


def _apart(graph: fx.Graph, output: fx.Node, bare: Iterable[int]) -> set[fx.Node]:
    """Gives results of which only the form counts nodes of their own, and returns these."""
    results, found = [*output.args[0]], set()
    for n in bare:
        result = results[n]
        if isinstance(result, fx.Node) and result.op != "placeholder":
            with graph.inserting_after(result):
                results[n] = alias = graph.call_function(_ALIAS, (result,))
            alias.meta = {**result.meta}
            found.add(alias)
    output.args = (tuple(results),)
    return found


def _is_told(node: fx.Node) -> bool:
    """Whether it is known before how a node's tensor lies."""
    lies = lies_of(node)
    return isinstance(lies, Lies) and lies.strides is not None


class Program:
    """A graph of PyTorch's as a function of a list of its arguments, which it empties."""

    def __init__(
        self,
        what: str,
        module: fx.GraphModule,
        weights: Sequence[int] = (),
        *,
        kept: bool = False,
        frozen: bool = False,
        returned: int | None = None,
        views: Mapping[int, int] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings, self._views = settings or {}, views or {}
        self._boxed_call = True  # PyTorch looks here for what empties its list
        self._what, self._module, self._graph = what, module, module.graph
        self._output = next(n for n in self._graph.nodes if n.op == "output")
        self._bare = _apart(self._graph, self._output, self._views)
        note(self._graph)
        self._given = [n for n in self._graph.nodes if n.op == "placeholder"]
        self._static = {self._given[n] for n in weights if n < len(self._given)}
        self._kept, self._frozen, self._returned = kept, frozen, returned
        self._strided = any(n.target is _AS_STRIDED for n in self._graph.nodes)
        kinds = {kind for node in self._graph.nodes for kind in devices_of(node)}
        # Where nothing is on the device, all of it is moved there.
        here = private.NAME in kinds
        self._moved = None if here else Moved(module, self._static, frozen=frozen)
        self._parts = parts_of(self._graph, everywhere=self._moved is not None)
        self._begin()

    def _begin(self) -> None:
        """Forgets what is known of parts."""
        self._known = [
            _Known(
                part,
                self._static,
                self._moved is not None,
                Graphs(
                    self._what,
                    Weights(kept=self._kept, frozen=self._frozen),
                    self._free(part),
                    [n for n, node in enumerate(part.makes) if node in self._bare],
                ),
            )
            for part in self._parts
        ]

    def _free(self, part: Part) -> list[int]:
        """Returns which results of a part only a backward pass takes."""
        if self._returned is None:
            return []
        returned = {*self._output.args[0][: self._returned]}
        inside = {*part.nodes, self._output}
        return [
            n
            for n, node in enumerate(part.makes)
            if node not in returned and inside.issuperset(node.users) and _is_told(node)
        ]

    def __call__(self, args: list[Any]) -> list[Any]:
        """Runs it."""
        given = [*args]
        args.clear()
        with options(**self._settings) if self._settings else nullcontext():
            return self._called(given)

    def _called(self, given: list[Any]) -> list[Any]:
        moved = self._moved
        values = given if moved is None else moved.there(given)
        env: dict[fx.Node, Any] = dict(zip(self._given, values, strict=True))
        place = 0
        while place < len(self._parts):
            part = self._parts[place]
            if not part.traced:
                self._run(part, env)
            else:
                ended = self._replay(place, env)
                if ended is not None:
                    self._parts = split(self._parts, place, ended, self._graph)
                    self._begin()
                    continue
            place += 1
        results = [env[r] if isinstance(r, fx.Node) else r for r in self._output.args[0]]
        if moved is not None:
            names = self._output.args[0]
            results = moved.back(given, results, names, self._returned)
        for n, argument in self._views.items():
            result = results[n]
            if self._output.args[0][n] in self._bare:
                form = result.dtype, result.shape, result.stride(), result.storage_offset()
                results[n] = private.seen_as(given[argument], *form)
        return results

    def _run(self, part: Part, env: dict[fx.Node, Any]) -> None:
        """Runs a part as it is."""
        env.update(self._as_told({node: env[node] for node in part.reads}))
        for node in part.nodes:
            env[node] = self._value(node, env)

    def _replay(self, place: int, env: dict[fx.Node, Any]) -> fx.Node | None:
        """Runs a part on the device; returns the node that no trace can note, if there is one."""
        part, known = self._parts[place], self._known[place]
        for node in known.lazy:
            env[node] = _settled(env[node])
        tensors, key, odd = [env[n] for n in known.plain], tuple[str, ...](), dict[fx.Node, Any]()
        if known.odd:
            odd = {node: env[node] for node in known.odd}
            here = {n for n, v in odd.items() if takes_numbers(n) and _is_number(v)}
            to_device(odd, here)
            rest = [n for n, v in odd.items() if n in here or not isinstance(v, torch.Tensor)]
            tensors += [v for n, v in odd.items() if n not in rest]
            key = tuple(repr(odd[n]) for n in rest)
        graphs = known.graphs
        weights = graphs.weights.now([env[n] for n in known.fixed])
        if weights is not graphs.weights:
            graphs.take(weights)
        current: list[fx.Node] = []

        def call() -> list[Any]:
            taken = {node: odd[node] if node in odd else env[node] for node in part.reads}
            values = self._as_told(taken)
            try:
                for node in part.nodes:
                    current[:] = [node]
                    tracing.active.line = line_of(node)
                    values[node] = self._value(node, values)
            finally:
                tracing.active.line = ""
            return [_settled(values[node]) for node in part.makes]

        try:
            found = graphs(call, tensors, key)
        except TraceEndedError:
            return current[0]
        env.update(zip(part.makes, found, strict=True))
        return None

    def _as_told(self, values: dict[fx.Node, Any]) -> dict[fx.Node, Any]:
        """Returns a backward pass's arguments as it was told that they lie.

        The forward pass has them in the memory format that it likes best, and so, by a copy that
        passes take out again, does a trace of this one.
        """
        if self._what != "backward":
            return values
        lie = laid_out if self._strided else in_order
        return {n: lie(n, v) if n.op == "placeholder" else v for n, v in values.items()}

    def _value(self, node: fx.Node, env: dict[fx.Node, Any]) -> Any:
        """Computes a node."""
        if node.op == "get_attr":
            found: Any = self._module
            for name in str(node.target).split("."):
                found = getattr(found, name)
            return found if self._moved is None else self._moved.constant(found)
        args, options = map_arg((node.args, node.kwargs), env.__getitem__)
        target: Any = STATES.get(node.target, node.target)
        try:
            if node.op == "call_method":
                return getattr(args[0], target)(*args[1:], **options)
            found = target(*args, **options)
            return found if self._moved is None else laid_out(node, found)
        except TraceEndedError:
            raise
        except (ClprimError, RuntimeError) as error:
            where = line_of(node) or "an unknown line"
            kind = type(error) if type(error) in ClprimError.__subclasses__() else RuntimeError
            raise kind(f"torch.compile: {target}, at {where}: {error}") from error


def _settled(value: Any) -> Any:
    """A tensor whose memory holds its elements."""
    return resolved(value) if isinstance(value, torch.Tensor) and is_lazy(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.ndim and not on_device(value)
