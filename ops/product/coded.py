"""Products with quantised weights, which stay as they are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array
from clprim.call.forms import register_form
from clprim.call.primitive import Request, Target
from clprim.errors import DTypeError, ShapeError
from clprim.ops.index import gather
from clprim.ops.product.arguments import (
    check_bias,
    check_operands,
    check_result,
    span,
    split_bias,
)
from clprim.ops.product.lowering import expand, products, shapes
from clprim.ops.shape.pad import pad
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.plan.epilogue import Read
from clprim.plan.quantized.coding import Coding, Field
from clprim.plan.quantized.family import CODED, FEW
from clprim.plan.quantized.problem import CodedProduct
from clprim.plan.strides import Operand, dense_strides
from clprim.primitives.product import Contracted, ContractionPrimitive, contract
from clprim.primitives.quantized_weight import QuantizedWeight
from clprim.runtime.device import current_device

_FLOAT32 = np.dtype(np.float32)


class CodedOptions(NamedTuple):
    """What a product with a quantised weight is told beside arrays and numbers."""

    outputs: int
    depth: int
    coding: Coding
    epilogue: str | None
    bias: bool
    algorithm: str


def coded_product(
    what: str,
    x: Any,
    w: QuantizedWeight,
    bias: Any,
    epilogue: str | None,
    epilogue_args: Any,
    out: Any,
    beta: float,
    algorithm: str,
) -> Array | None:
    """Returns ``x @ wᵀ``; None where the device had better multiply with what is decoded."""
    dtype_of(what, "x", x)
    if x.ndim == 0 or x.shape[-1] != w.shape[1]:
        raise ShapeError(
            f"{what}: x {x.shape} and a weight {w.shape} do not fit: expected (…, {w.shape[1]})"
        )
    if x.dtype.kind in "biu" or x.dtype.itemsize > _FLOAT32.itemsize:
        raise DTypeError(
            f"{what}: x is {x.dtype} beside a weight of {w.format}; expected float32, float16 or "
            "bfloat16: use astype()"
        )
    many = math.prod(x.shape[:-1]) > FEW
    if many and algorithm == "auto" and not current_device().traits.is_cpu:
        return None
    # By its module, where it has a gradient. A step that is of no column reads 0.
    if w.columns is not None:
        x = gather.index_select(x, -1, w.columns)
    elif w.padded > w.shape[1]:
        x = pad(x, (0, w.padded - w.shape[1]))
    elif x.strides[-1] != x.dtype.itemsize and x.shape[-1] > 1:
        x = x.copy()
    arrays, numbers = split_arguments(epilogue_args)
    extras = arrays if bias is None else (bias, *arrays)
    options = CodedOptions(w.shape[0], w.padded, w.coding, epilogue, bias is not None, algorithm)
    return contract(
        _coded, x, w.words, extras, options, options, out=out, beta=beta, numbers=numbers
    )


def _names(options: CodedOptions) -> tuple[str, ...]:
    return ("x", "w", "bias") if options.bias else ("x", "w")


def _lower(request: Request, target: Target) -> Contracted:
    """Checks a product, and returns it as contractions."""
    options: CodedOptions = request.options
    what, coding = "linear", options.coding
    x, words = request.operands[:2]
    bias, extras = split_bias(request, options.bias)
    beta, *numbers = request.numbers
    out = request.outs[0] if request.outs else None
    CODED.check(what, options.algorithm)
    check_operands(what, target, x=x, w=words)
    w = Operand((options.outputs, options.depth), (options.depth * 4, 4), 0, _FLOAT32)
    left, right, shape = shapes(what, x, w, False, True)
    final = (*x.shape[:-1], options.outputs)
    if bias is not None:
        check_bias(what, target, bias, _FLOAT32, options.outputs)
    given = (*extras, *numbers)
    read = check_epilogue(what, target, options.epilogue, given, final, _FLOAT32)
    others = request.operands[2:]
    check_result(what, out, target, final, x.dtype, inputs=(x, words), extras=others, beta=beta)
    y = out or Operand(final, dense_strides(final, x.dtype.itemsize, range(len(final))), 0, x.dtype)
    places = [
        Read(r.name, expand(r.operand, final, shape, x.ndim, 2))
        for r in (Read("y0", y), *read.arrays)
    ]
    if bias is not None:
        places.insert(1, Read("bias", bias))
    stored = replace(read, arrays=tuple(places[1:]), beta=bool(beta))
    if not math.prod(shape):
        return Contracted(CODED, (), y)
    sizes = span(x), options.outputs * options.depth
    made = products(left, right, shape, places[0], stored, _FLOAT32, sizes, swap=False)
    coded = tuple(_coded_of(each, coding, words) for each in made)
    return Contracted(CODED, coded, y, options.algorithm)


def _coded_of(what: Any, coding: Coding, words: Operand) -> CodedProduct:
    packed = replace(what.packed, dtype=words.dtype, start=words.offset)
    return CodedProduct.of(what, coding, name="quantized", packed=packed)


_coded = ContractionPrimitive("linear", _names, _lower, "quantized")
register_form("quantized", lambda what: _coded, CodedOptions, Coding, Field)  # its only name
