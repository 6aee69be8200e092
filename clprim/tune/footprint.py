"""How much memory the operands and the results of a problem take, and what it is without gaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from clprim.dtypes import AnyDType
from clprim.plan.conv.problem import Convolution
from clprim.plan.epilogue import NO_EPILOGUE
from clprim.plan.grouped.problem import Groups
from clprim.plan.product.problem import Contraction
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.problem import Folds, Reduced
from clprim.plan.scan.planner import Scanned
from clprim.plan.strides import Operand

Workload = Contraction | Convolution | Reduced | Groups | Scanned
Memory = tuple[int, AnyDType]


def plain(problem: Workload) -> Workload:
    """Returns a problem without what tables do not tell apart."""
    # That is what becomes of its sums, and where in its memory an array begins.
    if not isinstance(problem, Folds):
        without: Workload = replace(problem, epilogue=NO_EPILOGUE)  # type: ignore[arg-type]
        return without
    arrays: dict[str, Any] = {
        name: tuple(None if a is None else _at_start(a) for a in getattr(problem, name))
        for name in ("inputs", "results", "operands", "kept")
        if hasattr(problem, name)
    }
    if not isinstance(problem, Groups):
        arrays["found"] = {}
    if isinstance(problem, Reduced):
        arrays["scaling"] = (Scaling(),) * len(problem.scaling)
    found: Workload = replace(problem, **arrays)
    return found


def memory_of(problem: Workload) -> dict[str, Memory]:
    """Returns elements and dtypes of the results, ``y0``, …, and operands, as calls take them."""
    p = problem
    if isinstance(p, Contraction):
        return _of_contraction(p)
    if isinstance(p, Groups):
        return {name: _extent(a) for name, a in zip(p.names, p.arrays, strict=True)}
    if isinstance(p, Reduced | Scanned):
        results = p.operands if isinstance(p, Reduced) else p.results
        pairs = [("y", results), ("x", p.inputs)]
        return {f"{name}{n}": _extent(a) for name, some in pairs for n, a in enumerate(some)}
    x, w, y = (
        (place.end(*shape), place.dtype)
        for place, shape in ((p.x, p.x_shape), (p.w, p.w_shape), (p.y, p.y_shape))
    )
    found = {"forward": (y, x, w), "input": (x, y, w), "weight": (w, x, y)}[p.direction]
    return dict(zip(("y0", "x", "w"), found, strict=True))


def _of_contraction(what: Contraction) -> dict[str, Memory]:
    x, w, y = what.gathered, what.packed, what.y
    inner = [(y.lane[d], what.lanes[d]) for d in range(3)]
    outer = [(y.output, what.outputs), (y.group, what.groups)]
    depths = zip(w.depth, what.depths, strict=True)
    steps = [*depths, (w.output, what.outputs), (w.group, what.groups)]
    operands = {x.buffer: (x.size, x.dtype), w.buffer: (_end(w.start, steps), w.dtype)}
    result = _end(y.start, [*inner, *outer]), y.dtype
    return {"y0": result, "x": operands["x"], "w": operands["w"]}


def _at_start(array: Operand) -> Operand:
    """The same array at the beginning of its memory."""
    pairs = zip(array.shape, array.strides, strict=True)
    before = sum(min(0, stride * (size - 1)) for size, stride in pairs)
    return replace(array, offset=-before, memory=None)


def _extent(array: Operand) -> Memory:
    pairs = zip(array.shape, array.strides, strict=True)
    steps = [(array.in_elements(stride), size) for size, stride in pairs]
    return _end(array.in_elements(array.offset), steps), array.dtype


def _end(start: int, steps: Iterable[tuple[int, int]]) -> int:
    """Elements of memory up to the last one."""
    return start + sum(max(0, stride * (size - 1)) for stride, size in steps) + 1
