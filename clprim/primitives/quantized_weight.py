"""Weights of few bits on a device, and kernels that decode some of their elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, empty
from clprim.dtypes import AnyDType, as_dtype
from clprim.errors import DTypeError, ShapeError
from clprim.plan.quantized.coding import OUTPUTS, UNIT, Coding
from clprim.primitives.pointwise import Pointwise

Numbers = np.ndarray[Any, Any]
_FLOAT32 = np.dtype(np.float32)
# Codes that are laid out at a time, which bounds what the host holds beside the result.
_AT_ONCE = 1 << 24

# A half by its bits, also where no number that small is normal.
_HALF = """
uint {0}_magnitude = {0}_bits & 0x7fff;
float {0}_normal = as_float(({0}_magnitude << 13) + 0x38000000);
float {0}_infinite = as_float(({0}_magnitude << 13) | 0x7f800000);
float {0} = {0}_magnitude < 0x400 ? (float){0}_magnitude * 0x1p-24f
    : {0}_magnitude >= 0x7c00 ? {0}_infinite : {0}_normal;
{0} = {0}_bits >= 0x8000 ? -{0} : {0};"""


class QuantizedWeight:
    """A weight (N, K) of few bits an element, in the memory of a device.

    `clprim.ops.quantize_weight` makes it of numbers, `clprim.llm.read_gguf` reads it from a file.
    Taken by `linear`, `matmul` (with ``transpose_b=True``) and `embedding` wherever a weight is.
    It stays as it is: it has no gradient.

    Attributes:
        words: What kernels read.
        coding: How elements lie in it.
        format: By GGUF's name, ``"int4"`` and the like, or that of a packing.
        shape: (N, K).
        order: Of int32, or None where columns lie in their own order: for each step of k the
            column that it is of, K for none; then for each column its step.
    """

    def __init__(
        self,
        words: Array,
        coding: Coding,
        format: str,
        shape: tuple[int, int],
        order: Array | None = None,
    ) -> None:
        self.words, self.coding, self.format, self.shape = words, coding, format, shape
        self.order = order

    @classmethod
    def of(
        cls,
        coding: Coding,
        codes: Numbers,
        fields: Sequence[Numbers],
        format: str,
        depth: int | None = None,
        columns: np.ndarray[Any, Any] | None = None,
    ) -> QuantizedWeight:
        """Makes one of codes (N, K) and, for each field of the coding, numbers (N, K / steps).

        K is whole blocks; ``depth`` is the part of it that counts, where that is less. ``columns``
        says for each of these K codes which column of the weight it is, ``depth`` for none.
        """

        def part(rows: slice) -> tuple[Numbers, Sequence[Numbers]]:
            return codes[rows], [f[rows] for f in fields]

        found = cls.of_parts(coding, part, format, codes.shape, depth)
        if columns is not None:
            found.order = order_of(columns, found.shape[1])
        return found

    @classmethod
    def of_parts(
        cls,
        coding: Coding,
        part: Callable[[slice], tuple[Numbers, Sequence[Numbers]]],
        format: str,
        shape: tuple[int, ...],
        depth: int | None = None,
    ) -> QuantizedWeight:
        """Makes one as `of` does, of codes and fields of some rows at a time."""
        outputs, padded = shape
        if padded % coding.steps:
            raise ShapeError(f"a weight {shape}: expected a multiple of {coding.steps} columns")
        tiles = -(-outputs // OUTPUTS)
        words = empty((tiles, padded // coding.steps, coding.block_bytes // 4), np.uint32)
        most = max(1, _AT_ONCE // (OUTPUTS * max(1, padded)))
        for first in range(0, tiles, most):
            end = min(first + most, tiles)
            codes, fields = part(slice(first * OUTPUTS, end * OUTPUTS))
            bits = [_bits(f, field.size) for field, f in zip(coding.fields, fields, strict=True)]
            _laid_out(coding)(asarray(codes), *map(asarray, bits), out=words[first:end])
        return cls(words.reshape(-1), coding, format, (outputs, depth or padded))

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def padded(self) -> int:
        """Steps of k up to the end of the last block."""
        return _padded(self.coding, self.shape[1], self.order)

    @property
    def columns(self) -> Array | None:
        """The column that each step of k is of, where these are out of order."""
        return None if self.order is None else self.order[: self.padded]

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return int(self.words.nbytes) + (0 if self.order is None else int(self.order.nbytes))

    def dequantize(self, dtype: Any = None) -> Array:
        """Returns the numbers, (N, K), as an array: of float32, or another floating dtype.

        Example:
            >>> import numpy as np, clprim as cp
            >>> from clprim import ops
            >>> w = cp.asarray(np.linspace(-8, 7, 16 * 32, dtype=np.float32).reshape(16, 32))
            >>> q = ops.quantize_weight(w, format="q8_0")
            >>> float(abs(q.dequantize() - w).max()) < 0.04
            True
        """
        chosen = _FLOAT32 if dtype is None else as_dtype(dtype)
        if chosen.kind in "biu":
            raise DTypeError(f"dequantize: dtype={chosen}: expected a floating dtype")
        return decode(self.words, self.coding, self.shape, chosen, self.order)

    def __repr__(self) -> str:
        return f"<clprim.QuantizedWeight {self.format} {self.shape}>"


def order_of(columns: np.ndarray[Any, Any], depth: int) -> Array | None:
    """Returns which columns steps are of, ``depth`` for none; None where these lie as they are."""
    if (columns[:depth] == np.arange(depth)).all():
        return None
    places = np.argsort(columns, kind="stable")[:depth]
    return asarray(np.concatenate([columns, places]).astype(np.int32))


def decode(
    words: Array,
    coding: Coding,
    shape: tuple[int, int],
    dtype: AnyDType = _FLOAT32,
    order: Array | None = None,
) -> Array:
    """Returns all elements of a weight."""
    return _decoded(coding, words, order, "coord(0)", (), dtype, shape[1], shape=shape)


def rows_of(weight: QuantizedWeight, row: str, arrays: Sequence[Any], **options: Any) -> Array:
    """Returns some elements of rows: C says which row, as ``long row``, of arrays from x1 on."""
    told = row, arrays, _FLOAT32, weight.shape[1]
    return _decoded(weight.coding, weight.words, weight.order, *told, **options)


def _decoded(
    coding: Coding,
    words: Array,
    order: Array | None,
    row: str,
    arrays: Sequence[Any],
    dtype: AnyDType,
    depth: int,
    **options: Any,
) -> Array:
    padded = _padded(coding, depth, order)
    step, given = "(int)coord(-1)", [words, *arrays]
    if order is not None:
        step = f"at_x{len(given)}({padded} + coord(-1))"
        given.append(order)
    found: Array = _kernel(coding, padded // coding.steps, row, step, dtype)(*given, **options)
    return found


def _padded(coding: Coding, depth: int, order: Array | None) -> int:
    whole = -(-depth // coding.steps) * coding.steps
    return whole if order is None else int(order.size) - depth


@lru_cache(maxsize=1024)
def _kernel(coding: Coding, blocks: int, row: str, step: str, dtype: AnyDType) -> Pointwise:
    text = f"{row if row.endswith(';') else f'long row = {row};'}{_element(coding, blocks, step)}"
    last = "y0 = inside ? value : 0;" if "inside" in row else "y0 = value;"
    return Pointwise(f"{text}\n{last}", name="dequantize", result_type=dtype)


def _element(coding: Coding, blocks: int, step: str) -> str:
    """C that declares ``value``, the element at ``row`` and the last coordinate."""
    lines = [
        f"int k = {step};",
        f"int lane = (int)(row % {OUTPUTS}), u = k % {coding.steps} / {UNIT}, j = k % {UNIT};",
        f"long block = (row / {OUTPUTS} * {blocks} + k / {coding.steps}) * {coding.block_bytes};",
        f"long unit = block + {coding.head_bytes} + u * {coding.unit_bytes};",
    ]
    if coding.number:
        lines += [_read("code", "unit", "j", 2), _as_float("value", coding.number, "code")]
        return "\n".join(lines)
    bits, *high = coding.planes
    every, parts = UNIT // bits, coding.parts
    word = f"(unit + j / {every} * {4 * OUTPUTS}) / 4 + lane"
    lines += [
        f"int place = j % {every};",
        f"int code = (int)(at_x0({word}) >> (place * {bits}) & {(1 << bits) - 1});",
    ]
    for more in high:
        of = coding.high_parts
        word = f"(unit + {coding.plane(1)} + part / {of} * {4 * OUTPUTS}) / 4 + lane"
        bit = f"place / {parts} * 8 + part % {of} * {more}"
        lines += [
            f"int part = j / {every} * {parts} + place % {parts};",
            f"code |= (int)(at_x0({word}) >> ({bit}) & {(1 << more) - 1}) << {bits};",
        ]
    roles: dict[str, list[str]] = {"scale": [], "offset": [], "zero": []}
    for n, field in enumerate(coding.fields):
        head = field in coding.head
        group = f"j / {field.steps}" if field.steps < UNIT else "0"
        base = f"{'block' if head else 'unit'} + {coding.place(field)}"
        lines.append(_read(f"field{n}", base, group, field.size))
        lines.append(_as_float(f"number{n}", field.kind, f"field{n}"))
        roles[field.role].append(f"number{n}")
    if coding.table:
        choice = "0"
        for n, number in enumerate(coding.table):
            choice = f"code == {n} ? {float(number)}f : {choice}"
        lines.append(f"float whole = {choice};")
    else:
        zero = roles["zero"][0] if roles["zero"] else f"{float(coding.zero)}f"
        lines.append(f"float whole = (float)code - {zero};")
    lines.append(f"float scale = {' * '.join(roles['scale'])};")
    lines.append("float value = scale * whole;")
    if roles["offset"]:
        lines.append(f"float offset = {' * '.join(roles['offset'])};")
        lines.append(f"value = value {'-' if coding.minus else '+'} offset;")
    return "\n".join(lines)


def _read(name: str, base: str, group: str, size: int) -> str:
    """C that declares the bits of a number of so many bytes, that of this lane."""
    at = f"({base} + ({group}) * {OUTPUTS * size} + lane * {size})"
    word = f"at_x0({at} / 4)"
    if size == 4:
        return f"uint {name}_bits = {word};"
    return f"uint {name}_bits = {word} >> ({at} % 4 * 8) & {(1 << 8 * size) - 1};"


def _as_float(name: str, kind: str, bits: str) -> str:
    if kind == "half":
        return _HALF.format(bits) + f"\nfloat {name} = {bits};"
    if kind == "bfloat16":
        return f"float {name} = as_float({bits}_bits << 16);"
    if kind == "float":
        return f"float {name} = as_float({bits}_bits);"
    sign = f" - (({bits}_bits & 128) << 1)" if kind == "char" else ""
    return f"float {name} = (float)((int){bits}_bits{sign.replace('((', '(int)((')});"


@lru_cache(maxsize=1024)
def _laid_out(coding: Coding) -> Pointwise:
    """Lays codes (N, K), and the bits of what their steps share, out in words of blocks."""
    head, unit = coding.head_bytes // 4, coding.unit_bytes // 4
    lines = [
        f"long first = coord(0) * {OUTPUTS}, rows = size_x0(0);",
        f"long k = coord(1) * {coding.steps};",
        f"int r = (int)coord(2), u = (r - {head}) / {unit}, i = (r - {head}) % {unit};",
        f"long of_unit = coord(1) * {coding.units} + u;",
        "uint made = 0;",
    ]
    for n, field in enumerate(coding.fields, 1):
        each, count = 4 // field.size, max(1, UNIT // field.steps)
        begin = coding.place(field) // 4
        inside, where, step = f"r >= {head} && i", "i", f"of_unit * {count} + j / {OUTPUTS}"
        if field in coding.head:
            inside, where, step = "r", "r", "coord(1)"
        lines += [
            f"if ({inside} >= {begin} && {where} < {begin + OUTPUTS * count // each}) {{",
            f"    int j = ({where} - {begin}) * {each};",
            f"    long n = first + j % {OUTPUTS};",
            f"    long at = {step};",
            f"    for (int c = 0; c < {each}; ++c) {{",
            "        if (n + c >= rows) break;",
            f"        made |= (uint)at_x{n}(n + c, at) << (c * {8 * field.size});",
            "    }",
            "}",
        ]
    if coding.number:
        codes = [
            f"    long n = first + i % {OUTPUTS // 2} * 2;",
            f"    long step = k + u * {UNIT} + i / {OUTPUTS // 2};",
            "    for (int c = 0; c < 2; ++c)",
            "        if (n + c < rows) made |= (uint)at_x0(n + c, step) << (c * 16);",
        ]
        lines += [f"if (r >= {head} && i < {UNIT * OUTPUTS // 2}) {{", *codes, "}"]
    low = 0
    for p, bits in enumerate(() if coding.number else coding.planes):
        begin = coding.plane(p) // 4
        lines += [
            f"if (r >= {head} && i >= {begin} && i < {begin + bits * OUTPUTS}) {{",
            f"    int word = (i - {begin}) / {OUTPUTS};",
            f"    long n = first + (i - {begin}) % {OUTPUTS}, step = k + u * {UNIT};",
            "    if (n < rows) {",
        ]
        step, bit = _step(coding, p)
        lines += [
            f"        for (int c = 0; c < {UNIT // bits}; ++c)",
            f"            made |= (uint)(at_x0(n, step + {step}) >> {low} & {(1 << bits) - 1})"
            f" << ({bit});",
        ]
        lines += ["    }", "}"]
        low += bits
    return Pointwise("\n".join([*lines, "y0 = made;"]), name="laid_out", result_type=np.uint32)


def _step(coding: Coding, plane: int) -> tuple[str, str]:
    """C for the c-th step of which ``word`` of a plane has bits, and for the first of these."""
    bits, steps = coding.planes[plane], UNIT // coding.planes[0]
    if plane == 0:
        return f"word * {steps} + c", f"c * {bits}"
    parts, of = coding.parts, coding.high_parts
    at = f"(word * {of} + c % {of})"
    place = f"{at} / {parts} * {steps} + c / {of} * {parts} + {at} % {parts}"
    return place, f"c / {of} * 8 + c % {of} * {bits}"


def _bits(values: Numbers, size: int) -> Numbers:
    """The bits of a field's numbers; a bfloat16 is given by its bits."""
    assert values.dtype.itemsize == size
    return np.ascontiguousarray(values).view(f"u{size}")
