"""Gates of channels, which the graph makes of squeeze and excitation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clprim.call.forms import register_form
from clprim.call.primitive import Primitive, Request, Target, planned_by
from clprim.errors import DTypeError, ShapeError
from clprim.language.epilogue_snippet import define_epilogue
from clprim.plan.fused.family import GATES
from clprim.plan.fused.gate import Gate
from clprim.plan.kernel import Plan
from clprim.plan.strides import Operand, dense_strides
from clprim.traits import DeviceTraits

_NAMES = ("y0", "x", "inner", "inner_bias", "outer", "outer_bias")


class Activations(NamedTuple):
    """What becomes of both products: snippets on ``y0``, or None."""

    first: str | None = None
    second: str | None = None


class GatePrimitive(Primitive):
    """``second(outer · first(inner · mean(x) + inner_bias) + outer_bias)`` of every image.

    It reads x (N, C, H, W), inner (R, C), inner_bias (R,), outer (R, C), outer_bias (C,), all dense
    but for x, and writes (N, C, 1, 1).
    """

    def __init__(self) -> None:
        super().__init__("gate")

    def problem(self, request: Request, target: Target) -> Gate:
        """See `Primitive.problem`."""
        del target
        if len(request.operands) != len(_NAMES) - 1:
            raise ShapeError(f"gate: expected 5 arrays, got {len(request.operands)}")
        x, inner, inner_bias, outer, outer_bias = request.operands
        shape = (*x.shape[:2], 1, 1)
        y = request.outs[0] if request.outs else _dense(shape, x)
        if x.ndim != 4 or inner.ndim != 2 or not x.size or not inner.size:
            given = f"x {x.shape} and inner {inner.shape}"
            raise ShapeError(f"gate: {given}: expected (N, C, H, W) and (R, C)")
        rows, channels = inner.shape
        wanted = ((rows, channels), (rows,), (rows, channels), (channels,), shape)
        for name, operand, sizes in zip(
            (*_NAMES[2:], "y0"), (*request.operands[1:], y), wanted, strict=True
        ):
            if operand.shape != sizes:
                raise ShapeError(f"gate: {name} has shape {operand.shape}, expected {sizes}")
            dense = _dense(sizes, operand).strides
            steps = zip(operand.strides, dense, sizes, strict=True)
            if operand.dtype != x.dtype or any(s != d for s, d, n in steps if n > 1):
                raise DTypeError(f"gate: {name} is {operand.dtype}, expected dense {x.dtype}")
        first, second = (
            None if text is None else define_epilogue("gate", text) for text in request.options
        )
        return Gate(x, inner, inner_bias, outer, outer_bias, y, first, second)

    def plan(self, problem: Gate, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        return planned_by(GATES, problem, traits)

    def outputs(self, problem: Gate) -> tuple[Operand, ...]:
        """The only result."""
        return (problem.y,)

    def names(self, problem: Gate) -> Sequence[str]:
        """The result, then what is read."""
        del problem
        return _NAMES

    def snippets(self, problem: Gate) -> Mapping[str, str]:
        """What becomes of both products."""
        parts = {"first": problem.first, "second": problem.second}
        found = {part: snippet for part, snippet in parts.items() if snippet is not None}
        texts = {part: snippet.text for part, snippet in found.items()}
        return texts | {p.part: p.text for s in found.values() for p in s.pieces}


def _dense(shape: tuple[int, ...], like: Operand) -> Operand:
    size = like.dtype.itemsize
    return Operand(shape, dense_strides(shape, size, range(len(shape))), 0, like.dtype)


GATE = GatePrimitive()
register_form(GATE.what, lambda: GATE, Activations)
