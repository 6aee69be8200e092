"""Codes with scales and zero points of blocks, as ONNX has them: laid out by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.ops.shared.strings import kernel
from clprim.plan.quantized.coding import OUTPUTS, UNIT, Coding, Field
from clprim.primitives.quantized_weight import QuantizedWeight

_WORD = np.dtype(np.uint32)


def is_laid_out(bits: int, block: int, zeros: Any) -> bool:
    """Whether such codes have a coding: those with zero points of bytes, or none."""
    whole = block == UNIT // 2 or (block >= UNIT and block % UNIT == 0)
    return bits in (2, 4, 8) and whole and (zeros is None or zeros.dtype == np.uint8)


def by_blocks(
    codes: Any, scales: Any, zeros: Any, bits: int, block: int, depth: int
) -> QuantizedWeight:
    """Returns a weight of codes (N, blocks, bytes), the first one in a byte's low bits.

    Scales are (N, blocks), and so are packed zero points, a row of whole bytes each; without them
    the middle code is 0. Inside of a trace that is a node, once where all are constants.
    """
    rows, count, _ = codes.shape
    fields = [Field("scale", "float", block)]
    fields += [] if zeros is None else [Field("zero", "uchar", block)]
    coding = Coding(bits, tuple(fields), 0 if zeros is not None else 1 << (bits - 1))
    units = -(-count * block // UNIT)
    tiles = -(-rows // OUTPUTS)
    padded = -(-units * UNIT // coding.steps) * coding.steps
    blocks, words = padded // coding.steps, coding.block_bytes // 4
    text = [
        f"long w = coord(0), of = w / {words}, r = w % {words};",
        f"long tile = of / {blocks}, b = of % {blocks};",
        f"long u = (r - {coding.head_bytes // 4}) / {coding.unit_bytes // 4};",
        f"long i = (r - {coding.head_bytes // 4}) % {coding.unit_bytes // 4};",
        "uint made = 0;",
        f"if (r >= {coding.head_bytes // 4} && i < {bits * OUTPUTS}) {{",
        f"    long n = tile * {OUTPUTS} + i % {OUTPUTS};",
        f"    long k = b * {coding.steps} + u * {UNIT} + i / {OUTPUTS} * {UNIT // bits};",
        f"    long at = k / {block}, from = k % {block} * {bits} / 8;",
        f"    if (n < {rows} && at < {count})",
        "        for (int c = 0; c < 4; ++c)",
        "            made |= (uint)at_x0(n, at, from + c) << (8 * c);",
        "}",
    ]
    for number, field in enumerate(fields, 1):
        first = coding.place(field) // 4
        head = field in coding.head
        place = "r" if head else "i"
        group = 0 if head else UNIT // field.steps
        end = first + OUTPUTS * field.size * max(1, group) // 4
        inside = f"{place} >= {first} && {place} < {end}"
        inside += (
            f" && r < {coding.head_bytes // 4}" if head else f" && r >= {coding.head_bytes // 4}"
        )
        step = f"b * {coding.steps} + u * {UNIT}" if not head else f"b * {coding.steps}"
        text += [f"if ({inside}) {{", f"    long j = ({place} - {first}) * {4 // field.size};"]
        text.append(f"    long at = ({step}) / {block} + j / {OUTPUTS};")
        text.append(f"    long n = tile * {OUTPUTS} + j % {OUTPUTS};")
        text.append(f"    if (at < {count}) {{")
        if field.role == "scale":
            text.append(f"        made = n < {rows} ? as_uint((float)at_x{number}(n, at)) : 0;")
        else:
            byte = f"at_x{number}(n + c, at * {bits} / 8) >> (at * {bits} % 8) & {(1 << bits) - 1}"
            text += [
                "        for (int c = 0; c < 4; ++c)",
                f"            if (n + c < {rows}) made |= (uint)({byte}) << (8 * c);",
            ]
        text += ["    }", "}"]
    text.append("y0 = made;")
    given = [codes, scales] + ([] if zeros is None else [zeros])
    make = kernel("\n".join(text), "laid_out", _WORD)
    made = make(*given, shape=(tiles * blocks * words,))
    return QuantizedWeight(made, coding, f"int{bits}", (rows, depth))
