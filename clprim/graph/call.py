"""Calls of a graph itself, which `Graph.load` may have read."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, array_over
from clprim.arrays.memory import operand_of
from clprim.call.arguments import check_arrays
from clprim.errors import DTypeError, ShapeError
from clprim.graph.graph import Graph, buffer_of
from clprim.graph.replay import Replay
from clprim.plan.strides import Operand
from clprim.runtime import tracing
from clprim.runtime.device import Device, current_device

_replays: weakref.WeakKeyDictionary[Graph, tuple[Device, Replay]] = weakref.WeakKeyDictionary()


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
    known = _replays.get(graph)
    if known is None or known[0] != device:
        known = device, Replay(device, graph)
        _replays[graph] = known
    replay = known[1]
    memory = replay([array.base_data for array in found])
    results = tuple(replay.result(n, memory) for n in range(len(graph.outputs)))
    return results[0] if len(results) == 1 else results


def _fitting(what: str, n: int, array: Any, wanted: Operand) -> Any:
    """Returns an array that lies as an input does: the same, or a copy."""
    if array.shape != wanted.shape:
        raise ShapeError(f"{what}: a{n} has shape {array.shape}, expected {wanted.shape}")
    if array.dtype != wanted.dtype:
        raise DTypeError(f"{what}: a{n} is {array.dtype}, expected {wanted.dtype}")
    if operand_of(array) == wanted:
        return array
    flat = Array.namespace.empty((buffer_of(wanted).nbytes,), "uint8")
    where = wanted.shape, wanted.dtype, wanted.strides, wanted.offset, wanted.size
    made = array_over(current_device(), flat.base_data, *where)
    return Array.arithmetic.copy(array, out=made)
