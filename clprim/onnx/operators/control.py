"""Control flow, sequences and optionals: values as they are, on the device or the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.shape import behind
from clprim.onnx.table import Number, Value, handler
from clprim.onnx.values import BOOL, INT64, Stored

# Of one loop: bodies that never end would hang.
_MOST_TURNS = 1 << 31
_SCAN = (
    """directions scan_input_axes scan_input_directions scan_output_axes scan_output_directions"""
)


def _truth(context: Any, value: Any) -> bool:
    return bool(np.asarray(context.host(value)).reshape(-1)[0])


@handler("If", makes=None)
def _if(context: Any, condition: Number, *, then_branch: Any, else_branch: Any) -> Any:
    return tuple(context.run(then_branch if condition else else_branch, []))


@handler("Loop", makes=None)
def _loop(context: Any, count: Number, going: Number, *carried: Value, body: Any) -> Any:
    most = _MOST_TURNS if count is None else count
    going, state, turn = going is None or going, list(carried), 0
    collected: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(state))]
    while going and turn < most:
        found = context.run(body, [np.array(turn, INT64), np.array(going, BOOL), *state])
        going, state = _truth(context, found[0]), found[1 : 1 + len(state)]
        for into, value in zip(collected, found[1 + len(state) :], strict=True):
            into.append(value)
        turn += 1
    return *state, *(_stacked(context, each, 0) for each in collected)


def _stacked(context: Any, values: list[Any], axis: int) -> Any:
    if not values:
        return np.zeros((0,), np.float32)
    if all(isinstance(v, np.ndarray) for v in values):
        return np.stack(values, axis)
    arrays = [context.device(v) for v in values]
    if isinstance(arrays[0], Stored):
        return Stored(ops.stack([a.codes for a in arrays], axis), arrays[0].dtype)
    return ops.stack(arrays, axis)


@handler("Scan", takes=_SCAN, makes=None)
def _scan(context: Any, *given: Value, body: Any, num_scan_inputs: int, **told: Any) -> Any:
    if context.version >= 9:
        kept = len(given) - num_scan_inputs
        return _scanned(context, body, told, list(given[:kept]), list(given[kept:]))
    lengths, *arrays = given  # the first Scan: arrays have a batch in front
    if lengths is not None:
        raise DefinitionError("Scan with lengths of sequences, opset 8")
    arrays, kept = [context.device(v) for v in arrays], len(arrays) - num_scan_inputs
    told = {**told, "scan_input_directions": told.get("directions")}
    rows = [
        _scanned(context, body, told, [a[n] for a in arrays[:kept]], [a[n] for a in arrays[kept:]])
        for n in range(arrays[-1].shape[0])
    ]
    return tuple(_stacked(context, list(column), 0) for column in zip(*rows, strict=True))


def _scanned(context: Any, body: Any, told: Any, state: list[Any], scanned: list[Any]) -> Any:
    many, outputs = len(scanned), len(body.outputs) - len(state)
    in_axes, in_turns, out_axes, out_turns = (
        list(told.get(f"scan_{side}_{what}") or [0] * size)
        for side, size in (("input", many), ("output", outputs))
        for what in ("axes", "directions")
    )
    arrays = [context.device(v) for v in scanned]
    arrays = [a.swapaxes(0, axis) if axis else a for a, axis in zip(arrays, in_axes, strict=True)]
    steps = arrays[0].shape[0]
    found: list[list[Any]] = [[] for _ in range(outputs)]
    for n in range(steps):
        parts = [a[steps - 1 - n if back else n] for a, back in zip(arrays, in_turns, strict=True)]
        results = context.run(body, [*state, *parts])
        state = results[: len(state)]
        for into, value in zip(found, results[len(state) :], strict=True):
            into.append(value)
    return *state, *(
        _stacked(context, values[::-1] if back else values, axis)
        for values, axis, back in zip(found, out_axes, out_turns, strict=True)
    )


# --- sequences -----------------------------------------------------------------------------------


@handler("SequenceConstruct", "SequenceEmpty", idle="dtype")
def _construct(*values: Value) -> Any:
    return list(values)


@handler("SequenceLength")
def _length(values: Value) -> Any:
    return np.array(len(values), INT64)


@handler("SequenceAt", makes=None)
def _at(values: Value, place: Number) -> Any:
    return values[place]


@handler("SequenceInsert")
def _insert(values: Value, new: Value, place: Number = None) -> Any:
    at = len(values) if place is None else place
    return [*values[:at], new, *values[at:]]


@handler("SequenceErase")
def _erase(values: Value, place: Number = -1) -> Any:
    at = place % len(values)
    return [*values[:at], *values[at + 1 :]]


@handler("SequenceMap", makes=None)
def _map(context: Any, values: Value, *others: Value, body: Any) -> Any:
    rows = [
        context.run(body, [v, *(o[n] if isinstance(o, list) else o for o in others)])
        for n, v in enumerate(values)
    ]
    return tuple(list(column) for column in zip(*rows, strict=True))


@handler("ConcatFromSequence")
def _concat(context: Any, values: Value, *, axis: int, new_axis: bool = False) -> Any:
    if new_axis:
        return _stacked(context, values, axis)
    if all(isinstance(v, np.ndarray) for v in values):
        return np.concatenate(values, axis)
    return ops.cat([context.device(v) for v in values], axis)


@handler("SplitToSequence")
def _split(
    context: Any, x: Any, split: Value = None, *, axis: int = 0, keepdims: bool = True
) -> Any:
    axis += x.ndim if axis < 0 else 0
    n, sizes = x.shape[axis], np.ones((), INT64) if split is None else context.host(split)
    if sizes.ndim == 0:
        step = max(int(sizes), 1)
        sizes = np.array([min(step, n - at) for at in range(0, n, step)], INT64)
    ends, whole = [0, *np.cumsum(sizes).tolist()], keepdims or split is not None
    places = [slice(*ends[k : k + 2]) if whole else ends[k] for k in range(len(sizes))]
    return [x[behind(axis, place)] for place in places]


# --- optionals -----------------------------------------------------------------------------------


@handler("OptionalGetElement")
def _element(value: Value = None) -> Any:
    if value is None:
        raise DefinitionError("an optional that is empty")
    return value


@handler("OptionalHasElement")
def _has_element(value: Value = None) -> Any:
    return np.array(value is not None, BOOL)
