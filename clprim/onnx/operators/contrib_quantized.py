"""Quantised operators of ONNX Runtime's own set: numbers, the operator on floats, steps again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError
from clprim.onnx.operators.contrib_attention import TOLD, projected
from clprim.onnx.operators.conv import CONV, gemm
from clprim.onnx.operators.elementwise import string
from clprim.onnx.operators.pool import POOL, average, global_average
from clprim.onnx.operators.quantized import (
    centred,
    dequantized,
    dynamic,
    integers,
    qlinear_conv,
    quantized,
)
from clprim.onnx.table import handler
from clprim.onnx.values import BYTE, FLOAT32, Stored
from clprim.ops.registry import of_onnx

_DOMAIN = "com.microsoft"


def _numbers(*given: Any) -> list[Any]:
    """Returns the numbers of arrays, each with its scale and its zero point behind it."""
    return [dequantized(*given[n : n + 3]) for n in range(0, len(given), 3)]


def _steps(y: Any, like: Any, scale: Any, zero: Any) -> Any:
    """Returns numbers in steps of a scale from a zero point, by default 0 of an array's dtype."""
    return quantized(y, scale, zero, like.dtype if zero is None else zero.dtype)


def _elementwise(name: str, function: Any, count: int = 1, **told: Any) -> None:
    def run(*given: Any, **options: Any) -> Any:
        given = (*given, *[None] * (3 * count + 2 - len(given)))
        found = function(*_numbers(*given[: 3 * count]), **options)
        return _steps(found, given[0], *given[3 * count : 3 * count + 2])

    handler(name, domain=_DOMAIN, most=3 * count + 2, **told)(run)


_elementwise("QLinearAdd", ops.add, 2)
_elementwise("QLinearMul", ops.mul, 2)
_elementwise("QLinearSigmoid", ops.sigmoid)
_elementwise("QLinearLeakyRelu", lambda x, alpha=0.01: ops.leaky_relu(x, alpha), takes="alpha")


@handler("QLinearWhere", domain=_DOMAIN)
def _where(
    condition: Any, x: Any, sx: Any, zx: Any, y: Any, sy: Any, zy: Any, sz: Any, zz: Any
) -> Any:
    found = string("y0 = x0 ? x1 : x2;", FLOAT32, condition, *_numbers(x, sx, zx, y, sy, zy))
    return _steps(found, x, sz, zz)


@handler("QLinearConcat", domain=_DOMAIN)
def _concat(scale: Any, zero: Any, *given: Any, axis: int) -> Any:
    return _steps(ops.cat(_numbers(*given), axis), zero, scale, zero)


def _last(function: Any, x: Any, channels_last: bool) -> Any:
    """Calls a function of images, whose channels may be last."""
    if not channels_last:
        return function(x)
    between = range(2, x.ndim)
    y = function(x.transpose((0, x.ndim - 1, *(d - 1 for d in between))))
    return y.transpose((0, *between, 1))


@handler("QLinearAveragePool", domain=_DOMAIN, takes=POOL)
def _average_pool(
    x: Any, sx: Any, zx: Any = None, sy: Any = None, zy: Any = None, *,
    channels_last: bool = False, count_include_pad: bool = False, **told: Any,
) -> Any:  # fmt: skip
    if count_include_pad and told.get("ceil_mode"):  # as AveragePool did before opset 19
        raise DefinitionError("QLinearAveragePool: ceil_mode with count_include_pad")

    def pooled(v: Any) -> Any:
        return average(v, count_include_pad=count_include_pad, **told)

    return _steps(_last(pooled, dequantized(x, sx, zx), channels_last), x, sy, zy)


@handler("QLinearGlobalAveragePool", domain=_DOMAIN)
def _global_average_pool(
    x: Any, sx: Any, zx: Any, sy: Any, zy: Any, *, channels_last: bool = False
) -> Any:
    return _steps(_last(global_average, dequantized(x, sx, zx), channels_last), x, sy, zy)


@handler("QLinearConv", domain=_DOMAIN, takes=CONV)
def _conv(
    x: Any, sx: Any, zx: Any, w: Any, sw: Any, zw: Any, sy: Any, zy: Any, bias: Any = None, *,
    channels_last: bool = False, **told: Any,
) -> Any:  # fmt: skip
    def run(v: Any) -> Any:
        return qlinear_conv(v, sx, zx, w, sw, zw, sy, zy, bias, **told)

    return _last(run, x, channels_last)


@handler("QLinearSoftmax", domain=_DOMAIN)
def _softmax(
    x: Any, sx: Any, zx: Any = None, sy: Any = None, zy: Any = None, *, opset: int, axis: int = -1
) -> Any:
    shape, v = x.shape, dequantized(x, sx, zx)
    if opset < 13:
        v, axis = v.reshape((math.prod(shape[: axis % x.ndim]), -1)), 1
    known: Any = of_onnx("Softmax")
    return _steps(known.function(v, axis).reshape(shape), x, sy, zy)


# --- products ------------------------------------------------------------------------------------


@handler("QGemm", domain=_DOMAIN, takes="transA transB")
def _qgemm(
    a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any = None, c: Any = None, sy: Any = None,
    zy: Any = None, *, alpha: float = 1.0, **told: Any,
) -> Any:  # fmt: skip
    """C is in steps of alpha and both scales."""
    columns = -2 if told.get("transB") else -1
    y = gemm(told, centred(a, za), centred(b, zb, columns), c)
    y = _scaled(y, sa, sb, alpha)
    return y if sy is None else _steps(y, zy, sy, zy)


def _scaled(y: Any, sa: Any, sb: Any, alpha: float = 1.0) -> Any:
    """Returns sums of products of integers as numbers."""
    sa, sb = (v.reshape(()) if v.size == 1 else v for v in (sa, sb))
    return string("y0 = (float)x0 * (float)x1 * (float)x2 * w0;", sb.dtype, y, sa, sb, alpha)


@handler("MatMulIntegerToFloat", domain=_DOMAIN)
def _matmul_to_float(
    a: Any, b: Any, sa: Any, sb: Any, za: Any = None, zb: Any = None, bias: Any = None
) -> Any:
    y = _scaled(integers(a, b, za, zb), sa, sb)
    return y if bias is None else ops.add(y, bias)


@handler("DynamicQuantizeMatMul", domain=_DOMAIN)
def _dynamic_matmul(a: Any, b: Any, sb: Any, zb: Any = None, bias: Any = None) -> Any:
    codes, scale, zero = dynamic(a)
    return _matmul_to_float(codes, b, scale, sb, zero, zb, bias)


@handler("QAttention", **TOLD)
def _attention(
    x: Any, w: Any, b: Any, sx: Any, sw: Any, mask: Any = None, zx: Any = None, zw: Any = None,
    past: Any = None, *, num_heads: int, unidirectional: bool = False, **told: Any,
) -> Any:  # fmt: skip
    y = _matmul_to_float(x, w, sx, sw, zx, zw, b)
    return projected(y, past, mask, None, num_heads, None, unidirectional, told)


# --- by block ------------------------------------------------------------------------------------


@handler("MatMulNBits", domain=_DOMAIN, only={"weight_prepacked": 0}, idle="accuracy_level")
def _matmul_nbits(
    a: Any, b: Any, scales: Any, zeros: Any = None, groups: Any = None, bias: Any = None, *,
    K: int, N: int, block_size: int, bits: int = 4,  # noqa: N803 - ONNX Runtime's names
) -> Any:  # fmt: skip
    blocks, per, least = -(-K // block_size), 8 // bits, 2**bits - 1
    packed = zeros is not None and zeros.dtype == BYTE
    if groups is not None and (packed or bits == 2):  # ONNX Runtime contradicts its own text
        raise DefinitionError("MatMulNBits: g_idx with packed zero points, or of 2 bits")
    block = f"c / {block_size}" if groups is None else "at_x2(c)"
    text = f"""
        long c = coord(1), g = {block}, i = c % {block_size};
        uint byte = at_x0(coord(0), c / {block_size}, i / {per});
        float q = (byte >> ((i % {per}) * {bits})) & {least}, z = {2 ** (bits - 1)};"""
    given = [b.reshape((N, blocks, -1)), scales.reshape((N, blocks))]
    given += [] if groups is None else [groups.reshape(-1)[:K]]
    last = f"x{len(given)}"
    if packed:
        given.append(zeros.reshape((N, -1)))
        text += f" z = (at_{last}(coord(0), g / {per}) >> ((g % {per}) * {bits})) & {least};"
    elif zeros is not None:
        given.append(zeros.reshape((N, blocks)))
        text += f" z = at_{last}(coord(0), g);"
    w = string(f"{text} y0 = (q - z) * at_x1(coord(0), g);", a.dtype, *given, shape=(N, K))
    return ops.linear(a, w, bias)


@handler("GatherBlockQuantized", domain=_DOMAIN)
def _gather(
    data: Any, index: Any, scales: Any, zeros: Any = None, *, bits: int = 4,
    block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1,
) -> Any:  # fmt: skip
    """Rows of numbers in blocks; an index that is out of range gives zeros."""
    n, packed = data.ndim, not isinstance(data, Stored)
    if packed and (data.dtype != BYTE or bits not in (2, 4, 8)):
        raise DefinitionError(f"GatherBlockQuantized of {bits} bits of {data.dtype}")
    shape_of, index = index.shape, index if index.ndim else index.reshape(1)
    axis, along, per = gather_axis % n, quantize_axis % n, 8 // bits if packed else 1
    codes = [v.codes if isinstance(v, Stored) else v for v in (data, zeros) if v is not None]
    sizes = [*data.shape[:-1], data.shape[-1] * per]
    places_of = [f"coord({d if d < axis else d + len(shape_of) - 1})" for d in range(n)]
    at = ", ".join(f"coord({axis + d})" for d in range(len(shape_of))) or "0"
    places_of[axis] = "j"
    block = block_size or sizes[along]
    blocks = [f"{p} / {block}" if d == along else p for d, p in enumerate(places_of)]
    of_scale = ["0" if scales.shape[d] == 1 else p for d, p in enumerate(blocks)]

    def code(array: str, where: list[str]) -> str:
        if not packed:
            return f"at_x3(at_{array}({', '.join(where)}))"
        *lead, last = where
        byte = f"at_{array}({', '.join([*lead, f'({last}) / {per}'])})"
        return f"(({byte} >> ((({last}) % {per}) * {bits})) & {2**bits - 1})"

    zero = str(2 ** (bits - 1) if packed else 0) if zeros is None else code("x4", blocks)
    table = asarray(np.arange(256, dtype=BYTE))
    table = table if packed else ops.decode(table, data.dtype)
    text = f"""
        long j = at_x1({at}); j += j < 0 ? {sizes[axis]} : 0; (void)at_x3(0);
        y0 = j < 0 || j >= {sizes[axis]} ? 0
            : ((float){code("x0", places_of)} - (float){zero})
                * (float)at_x2({", ".join(of_scale)});"""
    shape = (*sizes[:axis], *shape_of, *sizes[axis + 1 :])
    given = [codes[0], index, scales, table, *codes[1:]]
    return string(text, scales.dtype, *given, shape=shape)
