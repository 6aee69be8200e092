"""How much memory the operands and the result of a problem take."""

from __future__ import annotations

from collections.abc import Iterable

from clprim.dtypes import AnyDType
from clprim.plan.conv.problem import Convolution
from clprim.plan.product.problem import Contraction

Memory = tuple[int, AnyDType]


def memory_of(problem: Contraction | Convolution) -> tuple[Memory, Memory, Memory]:
    """Returns elements and dtypes of the result and of both operands, as calls take them.

    Args:
        problem: A contraction, or a convolution without pixels made of outputs.
    """
    if isinstance(problem, Contraction):
        return _of_contraction(problem)
    p = problem
    x, w, y = (
        (place.end(*shape), place.dtype)
        for place, shape in ((p.x, p.x_shape), (p.w, p.w_shape), (p.y, p.y_shape))
    )
    return {"forward": (y, x, w), "input": (x, y, w), "weight": (w, x, y)}[p.direction]


def _of_contraction(what: Contraction) -> tuple[Memory, Memory, Memory]:
    x, w, y = what.gathered, what.packed, what.y
    inner = [(y.lane[d], what.lanes[d]) for d in range(3)]
    outer = [(y.output, what.outputs), (y.group, what.groups)]
    depths = zip(w.depth, what.depths, strict=True)
    steps = [*depths, (w.output, what.outputs), (w.group, what.groups)]
    operands = {x.buffer: (x.size, x.dtype), w.buffer: (_end(w.start, steps), w.dtype)}
    return (_end(y.start, [*inner, *outer]), y.dtype), operands["x"], operands["w"]


def _end(start: int, steps: Iterable[tuple[int, int]]) -> int:
    """Elements of memory up to the last one."""
    return start + sum(max(0, stride * (size - 1)) for stride, size in steps) + 1
