"""A graph as Python that a reader understands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clprim.plan.strides import Operand, dense_strides, memory_order

if TYPE_CHECKING:
    from clprim.graph.graph import Graph, Node

_LETTERS = {"input": "a", "constant": "c", "temporary": "t"}


class Names:
    """Names of a graph's buffers: a0, … are given, c0, … constants, t0, … made."""

    def __init__(self, graph: Graph) -> None:
        self._names: dict[Any, str] = {}
        self._whole: dict[Any, Operand] = {}
        counts = dict.fromkeys(_LETTERS, 0)
        operands = [*graph.inputs]
        for node in graph.nodes:
            operands += [*node.reads, *node.writes]
        for operand in (*operands, *graph.outputs):
            buffer: Any = operand.memory and operand.memory[0]
            if buffer not in self._names:
                kind = buffer.kind
                self._names[buffer] = f"{_LETTERS[kind]}{counts[kind]}"
                self._whole[buffer] = operand
                counts[kind] += 1

    def __call__(self, operand: Operand) -> str:
        """An operand: its buffer's name, with indices where it is a part of that."""
        buffer: Any = operand.memory and operand.memory[0]
        whole, name = self._whole[buffer], self._names[buffer]
        return name if operand == whole else f"{name}{part_of(whole, operand)}"


def part_of(whole: Operand, part: Operand) -> str:
    """Returns what takes an operand out of another one over the same buffer, as Python."""
    slices = _slices(whole, part)
    if slices is not None:
        return f"[{', '.join(slices)}]"
    kind = "" if part.dtype == whole.dtype else f", {part.dtype}"
    return f".as_strided({part.shape}, {part.strides}, {part.offset}{kind})"


def _slices(whole: Operand, part: Operand) -> list[str] | None:
    """Indices of every dimension; None where the part is no slice of the whole."""
    if part.ndim != whole.ndim or part.dtype != whole.dtype:
        return None
    rest, starts = part.offset - whole.offset, [0] * whole.ndim
    for d in sorted(range(whole.ndim), key=lambda d: -whole.strides[d]):
        if whole.strides[d] > 0 and whole.shape[d] > 1:
            starts[d], rest = divmod(rest, whole.strides[d])
    if rest:
        return None
    found = []
    for size, stride, step, start, count in zip(
        whole.shape, whole.strides, part.strides, starts, part.shape, strict=True
    ):
        if size == count and step == stride and not start:
            found.append(":")
            continue
        by, odd = divmod(step, stride) if stride else (1, 0)
        if odd or by < 1 or start + (count - 1) * by >= size:
            return None
        found.append(f"{start}:{start + (count - 1) * by + 1}" + (f":{by}" if by > 1 else ""))
    return found


def kind_text(operand: Operand) -> str:
    """Returns dtype, shape and memory format: ``float32[8, 64, 56, 56] channels_last``."""
    text = f"{operand.dtype}{list(operand.shape)}"
    if operand.strides == dense_strides(operand.shape, operand.dtype.itemsize, range(operand.ndim)):
        return text
    order = memory_order(operand.shape, [operand.strides])
    if operand.strides == dense_strides(operand.shape, operand.dtype.itemsize, order):
        last = (0, *range(2, operand.ndim), 1)
        return f"{text} channels_last" if tuple(order) == last else f"{text} order {tuple(order)}"
    return f"{text} strides {operand.strides}"


def call_text(node: Node) -> str:
    """Returns the primitive of a node, and what it is told that is not its default."""
    options = node.options
    defaults = getattr(type(options), "_field_defaults", None)
    if defaults is None:
        told = [] if options is None else [str(options)]
    else:
        told = [
            f"{name}={value!r}"
            for name, value in options._asdict().items()
            if name not in defaults or value != defaults[name]
        ]
    return f"{node.primitive.what}[{', '.join(told)}]" if told else node.primitive.what


def graph_text(graph: Graph) -> str:
    """Returns a graph as a Python function, a line a node."""
    names = Names(graph)
    given: Sequence[str] = [f"{names(o)}: {kind_text(o)}" for o in graph.inputs]
    lines = [f"def {graph.what}({', '.join(given)}):"]
    for node in graph.nodes:
        made = ", ".join(map(names, node.writes))
        read = ", ".join([*map(names, node.reads), *map(repr, node.numbers)])
        kinds = ", ".join(map(kind_text, node.writes))
        lines.append(f"    {made} = {call_text(node)}({read})  # {kinds}")
    lines.append(f"    return {', '.join(map(names, graph.outputs)) or None}")
    return "\n".join(lines)
