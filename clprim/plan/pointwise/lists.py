"""Plans one kernel that computes the same of several lists of arrays, as an optimizer's step does.

Each list is a line of elements in every one of its arrays, and lines may have any lengths. The
launch is one row of work-groups; each finds the list that it belongs to by its number, so that all
of its work-items read the same arrays. OpenCL promises room for so many arguments only, and passes
pointers in no other way: there are as many lists a kernel as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from clprim.dtypes import AnyDType
from clprim.language.definition import PointwiseDefinition
from clprim.plan.kernel import KernelPlan
from clprim.plan.parameters import Arguments
from clprim.plan.pointwise.code import PointwiseCode
from clprim.plan.pointwise.family import POINTWISE
from clprim.plan.pointwise.planner import ARGUMENT_BYTES, Mapped
from clprim.plan.pointwise.schedule import RUN
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class ListsCode(PointwiseCode):
    """What pointwise/lists.cl.jinja prints."""

    lists: int
    written: tuple[int, ...]  # Number of the input whose place each result takes


def lists_that_fit(definition: PointwiseDefinition) -> int:
    """Returns how many lists one kernel takes: a pointer, a start, a length and an end for each."""
    numbers = 4 * (definition.inputs + 2)
    return (ARGUMENT_BYTES - 8 * definition.scalars) // (8 * definition.inputs + numbers)


def plan_lists(
    definition: PointwiseDefinition,
    lists: Sequence[Sequence[Operand]],
    written: Sequence[int],
    scalars: Sequence[AnyDType],
    traits: DeviceTraits,
    shared: int = 0,
) -> KernelPlan:
    """Plans one kernel, whose buffers are ``0x0``, ``0x1``, …, ``1x0``, …, by list and array."""
    # The kernel is that of one line, but for where it lies.
    own = len(lists[0]) - shared
    line = tuple(
        Operand((RUN if n < own else 1,), (a.dtype.itemsize,), 0, a.dtype)
        for n, a in enumerate(lists[0])
    )
    results = tuple(line[n] for n in written)
    one = POINTWISE.plan(Mapped(definition, (RUN,), results, line, tuple(scalars)), traits)
    code = one.main.code
    assert isinstance(code, PointwiseCode)
    vectors = code.vector > 1
    run = RUN if vectors and traits.is_cpu else code.vector
    group = 1 if run == RUN else min(1024 if traits.is_cpu else 256, traits.max_work_group_size)
    found = Arguments("int")
    groups = 0
    for k, arrays in enumerate(lists):
        groups += -(-arrays[0].size // (run * group))
        starts = {}
        for n, (x, array) in enumerate(zip(code.inputs, arrays, strict=True)):
            found.memory(x.storage, f"x{n}_memory{k}", f"{k}x{n}", read_only=n not in written)
            starts[f"x{n}_start{k}"] = array.in_elements(array.offset)
        found.numbers(**{f"n{k}": arrays[0].size, f"end{k}": groups}, **starts)
    found.scalars(code.scalars)
    found.numbers(run=run)
    kept = {f.name: getattr(code, f.name) for f in fields(PointwiseCode)}
    kept |= {
        "parameters": tuple(found.parameters),
        "constants": (),
        "index": "int",
        "streaming": False,
    }
    elements = sum(arrays[0].size for arrays in lists)
    return KernelPlan(
        template="pointwise/lists",
        code=ListsCode(**kept, lists=len(lists), written=tuple(written)),
        arguments=tuple(found.arguments),
        global_size=(groups * group,),
        local_size=(group,),
        nbytes=elements * sum(line[n].dtype.itemsize for n in (*range(len(line)), *written)),
        flops=definition.expr.flops * elements,
    )
