"""Transposed convolution: what a convolution does to gradients, done to images."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.formats import order_like
from clprim.call.forms import register_form
from clprim.call.primitive import Request, Target
from clprim.ops.conv.arguments import (
    bias_place,
    check_groups,
    check_rank,
    check_transposed,
    place_of,
    placed,
    result_of,
)
from clprim.ops.conv.settings import Settings
from clprim.ops.conv.windows import Windows, transposed_axes
from clprim.ops.product.arguments import (
    check_operands,
    check_result,
    product_dtypes,
    split_bias,
)
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Convolution
from clprim.primitives.product import Contracted, ContractionPrimitive, contract


def transposed(
    what: str,
    x: Any,
    w: Any,
    bias: Any,
    settings: Settings,
    epilogue_args: Any,
    *,
    out: Any,
    beta: float,
) -> Any:
    """Computes transposed convolutions of images, and of rows as images one pixel high."""
    arrays, numbers = split_arguments(epilogue_args)
    extras = arrays if bias is None else (bias, *arrays)
    how = settings, settings.key
    return contract(_primitive(what), x, w, extras, *how, out=out, beta=beta, numbers=numbers)


@lru_cache(maxsize=16)
def _primitive(what: str) -> ContractionPrimitive:
    def lower(request: Request, target: Target) -> Contracted:
        return _lower(what, request, target)

    names = ("x", "w", "bias")
    return ContractionPrimitive(what, lambda told: names[: 2 + told.bias], lower, "conv_transpose")


register_form("conv_transpose", _primitive, Settings)


def _lower(what: str, request: Request, target: Target) -> Contracted:
    """Checks a transposed convolution, and returns it as a problem."""
    told: Settings = request.options
    x, w = request.operands[:2]
    groups = told.groups
    bias, extras = split_bias(request, told.bias)
    beta, *numbers = request.numbers
    out = request.outs[0] if request.outs else None
    CONVOLUTIONS.check(what, told.algorithm)
    check_operands(what, target, x=x, w=w)
    check_rank(what, "x", x.shape)
    check_rank(what, "w", w.shape)
    check_groups(what, groups)
    check_transposed(what, x.shape, w.shape, groups)
    steps = told.stride, told.padding, told.output_padding, told.dilation
    found = Windows(*transposed_axes(what, x.shape[2:], w.shape[2:], *steps))
    shape = (x.shape[0], w.shape[1] * groups, found.y.size, found.x.size)
    dtype, value = product_dtypes(what, target, x.dtype, w.dtype)
    biases = bias_place(what, target, bias, shape, value)
    given = (*extras, *numbers)
    read = check_epilogue(what, target, told.epilogue, given, shape, value, axes=told.axes)
    read_there = request.operands[2:]
    check_result(what, out, target, shape, dtype, inputs=(x, w), extras=read_there, beta=beta)
    y, result = result_of("x", out, shape, dtype, order_like(x))
    problem = Convolution(
        name=what,
        direction="input",
        images=x.shape[0],
        channels=shape[1],
        outputs=x.shape[1],
        groups=groups,
        rows=found.y,
        columns=found.x,
        value=value,
        x=y,
        w=place_of("w", w),
        y=place_of("y", x),
        epilogue=placed(read, biases, shape, beta),
        error=current_options().convolution_error,
        kept="w" in request.kept,
    )
    return Contracted(CONVOLUTIONS, (problem,) if result.size else (), result, told.algorithm)
