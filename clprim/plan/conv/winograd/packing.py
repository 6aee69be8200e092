"""How Winograd's convolutions read and transform their weights."""

from __future__ import annotations

import math
from dataclasses import replace

from clprim.plan.conv.winograd.code import WeightCode, WinogradCode
from clprim.plan.conv.winograd.cut import Cut, image_numbers
from clprim.plan.kernel import KernelPlan, OperandCode, round_up
from clprim.plan.machine import ITEMS, STEPS_AHEAD
from clprim.plan.parameters import Arguments
from clprim.plan.permutation import transpose
from clprim.plan.product.problem import Contraction, Packed, index_of


def weight_code(problem: Contraction, code: WinogradCode) -> WeightCode:
    """Returns what prints the transform, but for its parameters."""
    w = problem.packed
    operand = OperandCode.of("w", w.dtype, problem.value, 2)
    reads = _side_by_side(problem, w, code.width)
    return WeightCode(
        name=f"{code.name}_weight",
        preamble="",
        parameters=(),
        constants=(),
        index=index_of(problem),
        unified=(),
        doubles=code.value == "double" or operand.value == "double",
        own=(),
        value=code.value,
        width=code.width,
        tile_vectors=code.tile_vectors,
        down=code.down,
        across=code.across,
        w=operand,
        digits=w.digits is not None,
        reads=reads,
        backwards=reads == "taps" and min(w.depth[:2]) < 0,
        shuffles=transpose(code.width) if reads in ("taps", "channels") else None,
        ahead=STEPS_AHEAD if code.ahead and reads == "outputs" else 0,
    )


def place_numbers(problem: Contraction) -> dict[str, int]:
    """Returns where the weight lies."""
    w = problem.packed
    numbers = {
        "w_start": w.start,
        "w_row": w.depth[0],
        "w_column": w.depth[1],
        "w_channel": w.depth[2],
    }
    if w.digits is None or problem.digits is None:
        numbers.update(w_group=w.group, w_output=w.output)
    else:
        numbers.update({f"w_output_{d}": stride for d, stride in enumerate(w.digits)})
    return numbers


def weight_numbers(problem: Contraction, code: WeightCode) -> dict[str, int]:
    """Returns where the weight lies, and where it ends if vectors may reach over its end."""
    w, numbers = problem.packed, place_numbers(problem)
    if code.reads == "taps":
        strides = (w.group, w.output, *w.depth)
        sizes = (problem.groups, problem.outputs, *problem.depths)
        reach = (max(0, s * (n - 1)) for s, n in zip(strides, sizes, strict=True))
        numbers["w_end"] = w.start + sum(reach) + 1
    return numbers


def direct_numbers(problem: Contraction, cut: Cut) -> dict[str, int]:
    """Returns what sums of products need to know, for results that transforms do not hold."""
    taps = dict(zip(("w_rows", "w_columns"), problem.depths, strict=False))
    return {**image_numbers(problem, cut), **place_numbers(problem), **taps}


def direct_memory(problem: Contraction, code: WinogradCode) -> Arguments:
    """Returns the parameters of a kernel that reads the weight as it is."""
    assert code.direct is not None
    found = Arguments(code.index)
    found.memory(code.direct.storage, "w_memory", problem.packed.buffer)
    return found


def plan_weight(problem: Contraction, code: WinogradCode, cut: Cut) -> tuple[KernelPlan, int]:
    """Plans the kernel that transforms the weight once, and how many elements that gives."""
    # They lie as [group][strip][element][channel][output] for the fused kernel, whose blocks meet
    # strip after strip, and as [group][element][strip][channel][output] for the others.
    weight, w = weight_code(problem, code), problem.packed
    run = round_up(-(-cut.channels // ITEMS), code.width)
    numbers = {
        "channels": cut.channels,
        "channels_a_part": run,
        "outputs": problem.outputs,
        **weight_numbers(problem, weight),
        "u_element": cut.u_element,
        "u_strip": cut.u_strip,
        "u_group": cut.u_size,
    }
    if problem.digits is not None:
        numbers.update(output_1=problem.digits[1], output_2=problem.digits[2])
    found = Arguments(weight.index)
    found.memory(weight.w.storage, "w_memory")
    found.memory(code.value, "packed", read_only=False)
    found.numbers(**numbers)
    packed = problem.groups * cut.u_size
    plan = KernelPlan(
        "conv/winograd/weight",
        replace(weight, parameters=tuple(found.parameters)),
        tuple(found.arguments),
        (-(-cut.channels // run), cut.strips, problem.groups),
        (1, 1, 1),
        problem.groups * problem.outputs * math.prod(problem.depths) * w.dtype.itemsize
        + packed * problem.value.itemsize,
        packed * code.down.r * code.across.r,
        once=True,
    )
    return plan, packed


def _side_by_side(problem: Contraction, w: Packed, width: int) -> str:
    """What vectors of the weight are made of."""
    rows, columns, channels = problem.depths
    if w.digits is not None:
        return "none"
    if w.output == 1 and problem.outputs >= width:
        return "outputs"
    taps = (w.depth[0], w.depth[1])
    neighbours = [s for s, n in zip(taps, (rows, columns), strict=True) if n > 1]
    lengths = [columns, 1] if len(neighbours) == 2 else [1]
    if [abs(s) for s in neighbours] == lengths and len({s > 0 for s in neighbours}) == 1:
        return "taps"
    return "channels" if w.depth[2] == 1 and channels >= width else "none"
