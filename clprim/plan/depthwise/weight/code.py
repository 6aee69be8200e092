"""Plans the gradient of a depthwise convolution in its weight.

    dw[c, kh, kw] = Σ_n,r,q  grad[n, c, r, q] · x[n, c / multiplier,
                                                  r·stride + kh·dilation − before,
                                                  q·stride + kw·dilation − before]

Every channel and tap is a sum over all images and outputs. It is cut in splits, whose sums go
through memory to a second kernel, which adds them up in order: no atomics, the same bits always.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from clprim.dtypes import AnyDType, stored_type
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import add_place
from clprim.plan.depthwise.problem import Line, planes_of
from clprim.plan.kernel import (
    KernelCode,
    KernelPlan,
    OperandCode,
    Plan,
    power_of_two,
    round_up,
)
from clprim.plan.machine import CHAIN, GROUP
from clprim.plan.parameters import Arguments
from clprim.plan.place import Place
from clprim.plan.strides import index_reaching
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class DepthwiseGradient:
    """What to compute."""

    name: str
    images: int
    channels: int  # Of the result of the convolution
    multiplier: int  # Outputs of an input channel
    rows: Line  # The axes of the convolution
    columns: Line
    value: AnyDType  # dtype that sums are added up in
    x: Place  # The input of the convolution
    grad: Place  # The gradient in its result
    y: Place  # The gradient in the weight; its images are channels
    # Whether ``beta`` times the old result is added, with beta the call's scalar 0
    beta: bool = False

    @property
    def groups(self) -> int:
        """Channels of the convolution's input."""
        return self.channels // self.multiplier

    @property
    def taps(self) -> int:
        """Of a channel."""
        return self.rows.kernel * self.columns.kernel

    @property
    def flops(self) -> int:
        """Operations, products with padding included; a multiply-add counts as two."""
        outputs = self.images * self.channels * self.rows.outputs * self.columns.outputs
        return 2 * outputs * self.taps

    @property
    def index(self) -> str:
        """``int`` where 31 bits reach every element, with room for windows that leave planes."""
        h, v = self.rows, self.columns
        read = (self.images, self.channels, h.inputs + h.reach + 64, v.inputs + v.reach + 64)
        out = (self.images, self.channels, h.outputs + 64, v.outputs + 64)
        taps = abs(self.y.start) + abs(self.y.image) * self.channels
        taps += abs(self.y.row) * h.kernel + abs(self.y.column) * v.kernel
        partial = self.images * h.outputs * self.taps * (self.channels + 64)
        return index_reaching(self.x.reach(*read), self.grad.reach(*out), taps, partial)

    @property
    def moved_bytes(self) -> int:
        """Of x, the gradient and the result, once each."""
        h, v = self.rows, self.columns
        x = self.images * self.groups * h.inputs * v.inputs
        grad = self.images * self.channels * h.outputs * v.outputs
        y = self.channels * self.taps * self.y.dtype.itemsize
        return x * self.x.dtype.itemsize + grad * self.grad.dtype.itemsize + y


def gradient_of(p: Convolution) -> DepthwiseGradient | None:
    """Returns the gradient of a convolution in its weight, by planes; None of all others."""
    lines = planes_of(p)
    if lines is None or p.direction != "weight":
        return None
    return DepthwiseGradient(
        name=p.name,
        images=p.images,
        channels=p.outputs,
        multiplier=p.outputs // p.channels,
        rows=lines[0],
        columns=lines[1],
        value=p.value,
        x=p.x,
        grad=replace(p.y, name="grad"),
        y=replace(p.w, name="y0"),
        beta=p.epilogue.beta,
    )


@dataclass(frozen=True)
class GradientCode(KernelCode):
    """What kernels that sum up splits print in common."""

    value: str  # Type that sums are added up in
    x: OperandCode
    grad: OperandCode


@dataclass(frozen=True)
class FinishCode(KernelCode):
    """What depthwise/weight/finish.cl.jinja prints."""

    value: str  # Type that sums are added up in
    y: OperandCode
    beta: bool  # Whether the old result takes part


def gradient_arguments(what: DepthwiseGradient) -> Arguments:
    """Returns the parameters that all kernels that sum up splits have."""
    found = Arguments(what.index)
    found.memory(stored_type(what.x.dtype).storage, "x_memory")
    found.memory(stored_type(what.grad.dtype).storage, "grad_memory", "w")
    found.memory(stored_type(what.value).value, "partial", read_only=False)
    add_place(found, what.x)
    add_place(found, what.grad)
    h, v = what.rows, what.columns
    found.numbers(
        images=what.images,
        channels=what.channels,
        x_rows=h.inputs,
        x_columns=v.inputs,
        y_rows=h.outputs,
        y_columns=v.outputs,
        rows_before=h.before,
        columns_before=v.before,
    )
    return found


def gradient_code(what: DepthwiseGradient, found: Arguments, along: str) -> dict[str, Any]:
    """Returns the fields of a `GradientCode`."""
    x = OperandCode.of("x", what.x.dtype, what.value, getattr(what.x, along))
    grad = OperandCode.of("grad", what.grad.dtype, what.value, getattr(what.grad, along))
    return {
        "name": what.name,
        "parameters": tuple(found.parameters),
        "index": what.index,
        "doubles": x.value == "double",
        "value": x.value,
        "x": x,
        "grad": grad,
    }


def finish(what: DepthwiseGradient, splits: int, traits: DeviceTraits) -> KernelPlan:
    """Returns the kernel that adds up ``splits`` times [tap][channel] sums."""
    y = OperandCode.of("y0", what.y.dtype, what.value, what.y.column)
    index = what.index
    found = Arguments(index)
    found.memory(y.value, "partial")
    found.memory(y.storage, "y0_memory", read_only=False)
    if what.beta:
        found.scalar(y.value, "beta", 0)
    found.numbers(
        splits=splits,
        channels=what.channels,
        taps=what.taps,
        kernel_columns=what.columns.kernel,
        y0_start=what.y.start,
        y0_channel=what.y.image,
        y0_row=what.y.row,
        y0_column=what.y.column,
    )
    code = FinishCode(
        name=f"{what.name}_finish",
        parameters=tuple(found.parameters),
        index=index,
        doubles=y.value == "double",
        value=y.value,
        y=y,
        beta=what.beta,
    )
    total = what.taps * what.channels
    most = min(GROUP, power_of_two(traits.max_work_group_size + 1) // 2)
    local = min(most, power_of_two(what.channels))
    nbytes = splits * total * what.value.itemsize + total * what.y.dtype.itemsize
    return KernelPlan(
        "depthwise/weight/finish",
        code,
        tuple(found.arguments),
        (round_up(what.channels, local), what.taps),
        (local, 1),
        nbytes,
        splits * total,
    )


def gradient_plan(
    what: DepthwiseGradient,
    template: str,
    code: GradientCode,
    found: Arguments,
    sizes: tuple[int, ...],
    local: tuple[int, ...],
    splits: int,
    traits: DeviceTraits,
) -> Plan:
    """Returns the kernel that sums up splits, and the one that adds these up."""
    main = KernelPlan(
        template,
        code,
        tuple(found.arguments),
        tuple(round_up(size, group) for size, group in zip(sizes, local, strict=True)),
        local,
        what.moved_bytes,
        what.flops,
    )
    partial = splits * what.taps * what.channels
    workspace = {"partial": (partial, what.value)}
    return Plan((main, finish(what, splits, traits)), workspace)


def longest_split(what: DepthwiseGradient) -> int:
    """Returns the rows of a split at most: sums of more would get too long."""
    return max(1, min(what.rows.outputs, CHAIN // what.columns.outputs))
