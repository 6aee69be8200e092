"""Control flow, sequences and optionals: values as they are, on the device or the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.table import handler
from clprim.onnx.values import BOOL, INT64, Stored

# Of one loop: bodies that never end would hang.
_MOST_TURNS = 1 << 31


def _truth(context: Any, value: Any) -> bool:
    return bool(np.asarray(context.host(value)).reshape(-1)[0])


@handler("If", raw=True)
def _if(context: Any, attributes: Any, condition: Any) -> Any:
    branch = "then_branch" if _truth(context, condition) else "else_branch"
    return tuple(context.run(attributes[branch], []))


@handler("Loop", raw=True)
def _loop(context: Any, attributes: Any, count: Any, go: Any, *carried: Any) -> Any:
    body = attributes["body"]
    most = _MOST_TURNS if count is None else context.ints(count)[0]
    going = go is None or _truth(context, go)
    state, turn = list(carried), 0
    collected: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(state))]
    while going and turn < most:
        given = [np.array(turn, INT64), np.array(going, BOOL), *state]
        found = context.run(body, given)
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


@handler("Scan", raw=True)
def _scan(context: Any, attributes: Any, *given: Any) -> Any:
    if context.version < 9:
        return _scan8(context, attributes, *given)
    count = attributes["num_scan_inputs"]
    kept = len(given) - count
    return _scanned(context, attributes, list(given[:kept]), list(given[kept:]))


def _scanned(context: Any, attributes: Any, state: list[Any], scanned: list[Any]) -> Any:
    body, many = attributes["body"], len(scanned)
    outputs = len(body.outputs) - len(state)

    def told(name: str, size: int) -> list[int]:
        return list(attributes.get(name) or [0] * size)

    in_axes, in_turns = told("scan_input_axes", many), told("scan_input_directions", many)
    out_axes, out_turns = told("scan_output_axes", outputs), told("scan_output_directions", outputs)
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
    made = [
        _stacked(context, values[::-1] if back else values, axis)
        for values, axis, back in zip(found, out_axes, out_turns, strict=True)
    ]
    return *state, *made


def _scan8(context: Any, attributes: Any, lengths: Any, *given: Any) -> Any:
    """The first Scan: arrays have a batch in front."""
    if lengths is not None:
        raise DefinitionError("Scan with lengths of sequences, opset 8")
    count = attributes["num_scan_inputs"]
    kept = len(given) - count
    arrays = [context.device(v) for v in given]
    told = {**attributes, "scan_input_directions": attributes.get("directions")}
    rows = [
        _scanned(context, told, [a[n] for a in arrays[:kept]], [a[n] for a in arrays[kept:]])
        for n in range(arrays[-1].shape[0])
    ]
    return tuple(_stacked(context, list(column), 0) for column in zip(*rows, strict=True))


# --- sequences ------------------------------------------------------------------------------------


@handler("SequenceConstruct", raw=True)
def _construct(context: Any, attributes: Any, *values: Any) -> Any:
    return list(values)


@handler("SequenceEmpty", raw=True)
def _empty(context: Any, attributes: Any) -> Any:
    return []


@handler("SequenceLength", raw=True)
def _length(context: Any, attributes: Any, values: list[Any]) -> Any:
    return np.array(len(values), INT64)


@handler("SequenceAt", raw=True)
def _at(context: Any, attributes: Any, values: list[Any], place: Any) -> Any:
    return values[context.ints(place)[0]]


@handler("SequenceInsert", raw=True)
def _insert(context: Any, attributes: Any, values: list[Any], new: Any, place: Any = None) -> Any:
    at = len(values) if place is None else context.ints(place)[0]
    return [*values[:at], new, *values[at:]]


@handler("SequenceErase", raw=True)
def _erase(context: Any, attributes: Any, values: list[Any], place: Any = None) -> Any:
    at = (-1 if place is None else context.ints(place)[0]) % len(values)
    return [*values[:at], *values[at + 1 :]]


@handler("SequenceMap", raw=True)
def _map(context: Any, attributes: Any, values: list[Any], *others: Any) -> Any:
    rows = [
        context.run(attributes["body"], [v, *(o[n] if isinstance(o, list) else o for o in others)])
        for n, v in enumerate(values)
    ]
    return tuple(list(column) for column in zip(*rows, strict=True))


@handler("ConcatFromSequence", raw=True)
def _concat(context: Any, attributes: Any, values: list[Any]) -> Any:
    if attributes.get("new_axis"):
        return _stacked(context, values, attributes["axis"])
    if all(isinstance(v, np.ndarray) for v in values):
        return np.concatenate(values, attributes["axis"])
    return ops.cat([context.device(v) for v in values], attributes["axis"])


@handler("SplitToSequence", raw=True)
def _split(context: Any, attributes: Any, x: Any, sizes: Any = None) -> Any:
    x, axis = context.device(x), attributes["axis"]
    axis += x.ndim if axis < 0 else 0
    n, keep = x.shape[axis], True
    if sizes is None:
        parts, keep = [1] * n, bool(attributes["keepdims"])
    else:
        given, scalar = context.ints(sizes), context.host(sizes).ndim == 0
        step = max(given[0], 1) if scalar else 1
        parts = [min(step, n - at) for at in range(0, n, step)] if scalar else given
    found, start = [], 0
    for size in parts:
        where = slice(start, start + size) if keep else start
        before = [slice(None)] * axis
        place = (*before, where)
        found.append(x[place])
        start += size
    return found


# --- optionals ------------------------------------------------------------------------------------


@handler("Optional", "OptionalGetElement", raw=True)
def _optional(context: Any, attributes: Any, value: Any = None) -> Any:
    if value is None and context.step.name == "OptionalGetElement":
        raise DefinitionError("an optional that is empty")
    return value


@handler("OptionalHasElement", raw=True)
def _has_element(context: Any, attributes: Any, value: Any = None) -> Any:
    return np.array(value is not None, BOOL)
