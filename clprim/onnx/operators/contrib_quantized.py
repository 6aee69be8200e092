"""Quantised operators of ONNX Runtime's own set: numbers, the operator on floats, steps again."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError
from clprim.onnx.operators.contrib_attention import PROJECTED, projected
from clprim.onnx.operators.elementwise import string
from clprim.onnx.operators.quantized import centred, dequantized, dynamic, in_steps
from clprim.onnx.table import handler, node
from clprim.onnx.values import BYTE, Stored
from clprim.ops.quantized.by_blocks import by_blocks, is_laid_out
from clprim.ops.quantized.packed_weight import steps_of
from clprim.primitives.quantized_weight import QuantizedWeight, order_of

_DOMAIN = "com.microsoft"


@handler("QLinearConcat", domain=_DOMAIN)
def _concat(scale: Any, zero: Any, *given: Any, axis: int) -> Any:
    numbers = [dequantized(*given[n : n + 3]) for n in range(0, len(given), 3)]
    return in_steps(ops.cat(numbers, axis), zero, scale, zero)


# --- products ------------------------------------------------------------------------------------


@node("""com.microsoft::QGemm(a, sa, za, b, sb, zb, c, sy, zy)
    alpha=1.0 transA:transpose_a=False transB:transpose_b=False""")
def _qgemm(context: Any, n: Any) -> Any:
    """C is in steps of alpha and both scales."""
    a, b = centred(n.a, n.za), centred(n.b, n.zb, -2 if n.transpose_b else -1)
    y = ops.matmul(a, b, transpose_a=n.transpose_a, transpose_b=n.transpose_b)
    y = _scaled(y if n.c is None else ops.add(y, n.c), n.sa, n.sb, n.alpha)
    return y if n.sy is None else in_steps(y, n.zy, n.sy, n.zy)


def _scaled(y: Any, sa: Any, sb: Any, alpha: float = 1.0) -> Any:
    """Returns sums of products of integers as numbers."""
    sa, sb = (v.reshape(()) if v.size == 1 else v for v in (sa, sb))
    return string("y0 = (float)x0 * (float)x1 * (float)x2 * w0;", sb.dtype, y, sa, sb, alpha)


@handler("MatMulIntegerToFloat", domain=_DOMAIN)
def _matmul_to_float(
    a: Any, b: Any, sa: Any, sb: Any, za: Any = None, zb: Any = None, bias: Any = None
) -> Any:
    y = _scaled(ops.matmul(centred(a, za, -2), centred(b, zb, -1)), sa, sb)
    return y if bias is None else ops.add(y, bias)


@handler("DynamicQuantizeMatMul", domain=_DOMAIN)
def _dynamic_matmul(a: Any, b: Any, sb: Any, zb: Any = None, bias: Any = None) -> Any:
    codes, scale, zero = dynamic(a)
    return _matmul_to_float(codes, b, scale, sb, zero, zb, bias)


@node(f"com.microsoft::QAttention(x, w, b, sx, sw, mask, zx, zw, past) {PROJECTED}")
def _attention(context: Any, n: Any) -> Any:
    return projected(_matmul_to_float(n.x, n.w, n.sx, n.sw, n.zx, n.zw, n.b), n)


# --- by block ------------------------------------------------------------------------------------


@node("""com.microsoft::MatMulNBits(a, b, scales, zeros, groups: Value, bias)
    K:depth N:rows block_size bits=4 !weight_prepacked=0 -accuracy_level""")
def _matmul_nbits(context: Any, n: Any) -> Any:
    """Groups are of columns, by the schema's text: of 2 bits ONNX Runtime reads other codes."""
    depth, rows, block_size, bits, zeros, groups = (
        n.depth, n.rows, n.block_size, n.bits, n.zeros, n.groups
    )  # fmt: skip
    blocks, per, least = -(-depth // block_size), 8 // bits, 2**bits - 1
    packed = zeros is not None and zeros.dtype == BYTE
    if groups is not None and packed:  # ONNX Runtime takes the middle code then
        raise DefinitionError("MatMulNBits: g_idx with packed zero points")
    codes, scales = n.b.reshape((rows, blocks, -1)), n.scales.reshape((rows, blocks))
    few = n.a.dtype.itemsize <= 4
    if groups is None and is_laid_out(bits, block_size, zeros) and few:
        starts = zeros if zeros is None else zeros.reshape((rows, -1))
        return ops.linear(n.a, by_blocks(codes, scales, starts, bits, block_size, depth), n.bias)
    if isinstance(groups, np.ndarray) and zeros is None and bits in (2, 4, 8) and few:
        groups = groups.reshape(-1)[:depth]
        return ops.linear(n.a, _by_groups(codes, scales, groups, bits, block_size), n.bias)
    block = f"c / {block_size}" if groups is None else "at_x2(c)"
    text = f"""
        long c = coord(1), g = {block}, i = c % {block_size};
        uint byte = at_x0(coord(0), c / {block_size}, i / {per});
        float q = (byte >> ((i % {per}) * {bits})) & {least}, z = {2 ** (bits - 1)};"""
    given = [codes, scales]
    given += [] if groups is None else [context.device(groups).reshape(-1)[:depth]]
    last = f"x{len(given)}"
    if packed:
        given.append(zeros.reshape((rows, -1)))
        text += f" z = (at_{last}(coord(0), g / {per}) >> ((g % {per}) * {bits})) & {least};"
    elif zeros is not None:
        given.append(zeros.reshape((rows, blocks)))
        text += f" z = at_{last}(coord(0), g);"
    text += " y0 = (q - z) * at_x1(coord(0), g);"
    w = string(text, n.a.dtype, *given, shape=(rows, depth))
    return ops.linear(n.a, w, n.bias)


def _by_groups(codes: Any, scales: Any, groups: Any, bits: int, block_size: int) -> QuantizedWeight:
    """A weight whose columns are brought together by their groups."""
    rows, blocks, _ = codes.shape
    block, columns, chosen = steps_of("MatMulNBits", groups, blocks)
    depth, per = groups.size, 8 // bits
    text = f"""
        uint made = 0;
        for (int j = 0; j < {per}; ++j) {{
            long c = at_x1(coord(1) * {block} + coord(2) * {per} + j), i = c % {block_size};
            if (c < {depth})
                made |= (uint)(at_x0(coord(0), c / {block_size}, i / {per})
                    >> (i % {per} * {bits}) & {2**bits - 1}) << (j * {bits});
        }}
        y0 = made;"""
    shape = rows, columns.size // block, block // per
    moved = string(text, BYTE, codes, asarray(columns.astype(np.int32)), shape=shape)
    scales = ops.index_select(scales, 1, asarray(chosen.astype(np.int32)))
    w = by_blocks(moved, scales, None, bits, block, columns.size)
    order = order_of(columns, depth)
    return QuantizedWeight(w.words, w.coding, w.format, (rows, depth), order)


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
