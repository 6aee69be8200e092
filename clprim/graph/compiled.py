"""What a function does for one signature: a graph, its replay, and the form of its results.

`jit`, operators of several kernels, functions in parts, graphs themselves, ONNX's segments and
PyTorch's graphs are compiled to these, and remember them by the signatures of calls.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any, Generic, TypeVar

import clprim.graph.saved  # noqa: F401 - which says how graphs are written and read
from clprim.arrays.array import Array, array_over
from clprim.arrays.memory import operand_of
from clprim.call.arguments import check_arrays
from clprim.errors import DTypeError, ShapeError
from clprim.graph.graph import Graph, buffer_of, layout_of
from clprim.graph.passes import optimised
from clprim.graph.replay import Replay
from clprim.graph.signature import Place, filled, mapped
from clprim.graph.trace import uncollected
from clprim.plan.strides import Operand
from clprim.runtime import tracing
from clprim.runtime.device import Device, current_device

T = TypeVar("T")


class Compiled:
    """A graph that is ready to run on the arrays of a call."""

    @uncollected()
    def __init__(
        self,
        device: Device,
        traced: Graph,
        form: Any = None,
        *,
        passes: bool = True,
        keep: bool = True,
        often: bool = False,
    ) -> None:
        self.traced, self.form = traced, form
        graph = optimised(traced, device) if passes else traced
        self.replay = Replay(device, graph, keep=keep, often=often)

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Runs it on the arrays of a call, in the order that they were traced in."""
        replay = self.replay
        made = replay.results(replay([array.base_data for array in arrays]))
        return filled(self.form, made, arrays)

    @cached_property
    def graph(self) -> Graph:
        """What it replays, with all arrays that the function returns, inputs of it among them."""
        graph = self.replay.graph
        places: list[Place] = []

        def note(value: Any) -> Any:
            if value.__class__ is Place:
                places.append(value)
            return value

        mapped(self.form, note, inside=True)
        if not any(place.given for place in places):
            return graph
        outputs = ((graph.inputs if p.given else graph.outputs)[p.number] for p in places)
        return replace(graph, outputs=tuple(outputs), free=frozenset())


class Signatures(Generic[T]):
    """What is known by the signatures of calls; of too many the one used longest ago goes."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._known: dict[Hashable, list[Any]] = {}
        self._clock = count()
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable) -> T | None:
        """Returns what is known of a signature."""
        found = self._known.get(key)
        if found is None:
            return None
        found[1] = next(self._clock)
        value: T = found[0]
        return value

    def keep(self, key: Hashable, value: T) -> T:
        """Remembers what does the calls of a signature."""
        with self.lock:
            self._known[key] = [value, next(self._clock)]
            if len(self._known) > self._most:
                del self._known[min(self._known, key=lambda each: self._known[each][1])]
        return value

    def clear(self) -> None:
        """Forgets all."""
        with self.lock:
            self._known.clear()


def call(graph: Graph, arrays: Sequence[Any]) -> Any:
    """Runs a graph; see `Graph.__call__`."""
    device, what = current_device(), graph.what
    if len(arrays) != len(graph.inputs):
        raise ShapeError(f"{what}: expected {len(graph.inputs)} arrays, got {len(arrays)}")
    check_arrays(what, arrays, (), device)
    found = [
        _fitting(what, n, *pair) for n, pair in enumerate(zip(arrays, graph.inputs, strict=True))
    ]
    tracing.end_any("a call of a graph")
    compiled = graph.ready.get(device)
    if compiled is None:
        form: Any = tuple(map(Place, range(len(graph.outputs))))
        form = form[0] if len(form) == 1 else form
        compiled = graph.ready[device] = Compiled(device, graph, form, passes=False)
    return compiled(found)


def _fitting(what: str, n: int, array: Any, wanted: Operand) -> Any:
    """Returns an array that lies as an input does: the same, or a copy."""
    if array.shape != wanted.shape:
        raise ShapeError(f"{what}: a{n} has shape {array.shape}, expected {wanted.shape}")
    if array.dtype != wanted.dtype:
        raise DTypeError(f"{what}: a{n} is {array.dtype}, expected {wanted.dtype}")
    if operand_of(array) == wanted:
        return array
    flat = Array.namespace.empty((buffer_of(wanted).nbytes,), "uint8")
    made = array_over(current_device(), flat.base_data, *layout_of(wanted))
    return Array.arithmetic.copy(array, out=made)


Graph.run = call
