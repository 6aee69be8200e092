"""Explains an operator: the plan of a call in a few lines, and the kernels, without running them.

The planning is the very one that a call does. Stand-ins for the device and its arrays, which can be
planned for and not run on, take their place, so no OpenCL device is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.call.launch import Launch
from clprim.call.primitive import Request
from clprim.call.scalars import check_count
from clprim.dtypes import AnyDType
from clprim.language.definition import texts
from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.pointwise.code import PointwiseCode
from clprim.plan.reduction.planner import ReductionPlan
from clprim.plan.strides import Operand, dense_strides
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Axis, Options, Reduction
from clprim.runtime.device import Device
from clprim.runtime.source_cache import source_of
from clprim.traits import DeviceTraits

# Devices that need not be here: what a common CPU and a common GPU report.
COMMON = {
    "cpu": DeviceTraits(
        is_cpu=True, max_work_group_size=4096, vector_bytes=32, cache_bytes=32 << 20
    ),
    "gpu": DeviceTraits(compute_units=32, fp16=True, sub_group_size=32),
}


def sketch(shape: tuple[int, ...], dtype: AnyDType, memory_format: str = "contiguous") -> Operand:
    """Returns an array that has a place for every element but no memory: enough for planning."""
    order: Sequence[int] = range(len(shape))
    if memory_format == "channels_last" and len(shape) == 4:
        order = (0, 2, 3, 1)
    return Operand(shape, dense_strides(shape, dtype.itemsize, order), 0, dtype)


class _Drawing:
    """A device that plans are made for and nothing runs on."""

    def __init__(self, traits: DeviceTraits, title: str) -> None:
        self.traits = traits
        self.title = title

    def __str__(self) -> str:
        return self.title


def explain(
    operator: Pointwise | Reduction,
    arrays: Sequence[Operand],
    scalars: Sequence[float] = (),
    *,
    axis: Axis = None,
    keepdims: bool = False,
    on: Device | str = "cpu",
) -> str:
    """Returns how a call would run, as comments, and the OpenCL C of its kernels."""
    if isinstance(on, Device):
        drawing = _Drawing(on.traits, str(on))
    else:
        drawing = _Drawing(COMMON[on], f"a common {on.upper()}")
    check_count(operator.what, len(arrays) + len(scalars), operator.inputs, operator.scalars)
    options = Options(axis, keepdims) if isinstance(operator, Reduction) else None
    request = Request(tuple(arrays), tuple(scalars), options=options)
    problem: Any = operator.problem(request, drawing)
    plan = operator.plan(problem, drawing.traits)
    stages = () if plan is None else plan.stages
    if isinstance(on, Device):
        snippets = texts(operator.definition)
        for stage in stages:
            Launch(on, stage, title=operator.what, snippets=snippets)
    operands = [(f"x{n}", _describe(a.shape, a.dtype, a.strides)) for n, a in enumerate(arrays)]
    operands += [
        (f"y{n}", _describe(y.shape, y.dtype, y.strides))
        for n, y in enumerate(operator.outputs(problem))
    ]
    lines = [operator.what, *(f"  {name}  {what}" for name, what in operands), f"  on  {drawing}"]
    lines += ["", f"strategy  {_strategy(plan)}", *(f"launch    {_launch(s)}" for s in stages)]
    text = "\n".join(f"// {line}".rstrip() for line in lines) + "\n"
    for number, stage in enumerate(stages, 1):
        rule = f"// --- kernel {number} of {len(stages)} "
        text += f"\n{rule:-<100}\n\n{source_of(stage.template, stage.code)}"
    return text


def _launch(stage: KernelPlan) -> str:
    work = " × ".join(map(str, stage.global_size))
    group = " × ".join(map(str, stage.local_size))
    return (
        f"{stage.code.name}: {work} work-items in groups of {group}; "
        f"{_amount(stage.nbytes)}B, {_amount(stage.flops)}FLOP"
    )


def _describe(shape: tuple[int, ...], dtype: AnyDType, strides: tuple[int, ...]) -> str:
    channels_last = (
        len(shape) == 4
        and strides == dense_strides(shape, dtype.itemsize, (0, 2, 3, 1))
        and strides != dense_strides(shape, dtype.itemsize, range(4))
    )
    return f"{dtype} {shape}{', channels_last' if channels_last else ''}"


def _strategy(plan: Plan | None) -> str:
    if plan is None:
        return "no elements: nothing runs"
    if not isinstance(plan, ReductionPlan):
        code = plan.main.code
        assert isinstance(code, PointwiseCode)
        width = f"vectors of {code.vector}" if code.vector > 1 else "one element at a time"
        streaming = ", streaming stores" if code.streaming else ""
        loops = "one loop" if not code.outer else f"{code.outer + 1} nested loops"
        return f"pointwise: {width}, {loops}{streaming}"
    s = plan.schedule
    parts = [
        f"vectors of {s.vector}" if s.vector > 1 else "one element at a time",
        f"{s.unroll} of them side by side" if s.unroll > 1 else "",
        f"{s.lanes} lanes × {s.rows} rows a work-group" if s.lanes * s.rows > 1 else "",
        f"{s.splits} pieces of {s.chunk:,} elements, merged by a second kernel"
        if s.splits > 1
        else "one stage",
    ]
    return f"{s.template}: {', '.join(part for part in parts if part)}"


def _amount(number: float) -> str:
    for prefix in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.4g} {prefix}"
        number /= 1000
    return f"{number:.4g} T"
