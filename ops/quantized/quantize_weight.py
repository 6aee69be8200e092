"""Weights of few bits: made of numbers, and of blocks as files have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.quantized.formats import BLOCKS, Numbers, rounded
from clprim.ops.registry import operator
from clprim.ops.shared.checks import is_array
from clprim.ops.shared.dims import whole
from clprim.plan.quantized.coding import UNIT, Coding, Field
from clprim.primitives.quantized_weight import QuantizedWeight

_INTEGERS = {"int4": 4, "int8": 8}
# Numbers that are rounded at a time: formats with tables try each of their values.
_AT_ONCE = 1 << 22


@operator(sample="empty((4, 32)), 'q4_0'")
def quantize_weight(
    w: Any, format: str = "q4_0", *, block: int = 32, symmetric: bool = True
) -> QuantizedWeight:
    """Returns a weight of few bits, which `linear`, `matmul` and `embedding` take.

    Args:
        w: (N, K), a device array or NumPy's, of floats; they are rounded as float32.
        format: By GGUF's name, rounded as its own package does: ``q4_0``, ``q4_1``, ``q5_0``,
            ``q5_1``, ``q8_0``, ``tq1_0``, ``tq2_0``, ``mxfp4``, ``bf16`` or ``f16``; or ``int4``
            or ``int8``.
        block: Of ``int4`` and ``int8``: how many elements of a row have a scale, 16 or a multiple
            of 32.
        symmetric: Of those: whether 0 is the middle code; else each block has a zero point.

    Returns:
        A `QuantizedWeight`: ``dequantize()``, ``format``, ``shape``, ``nbytes``.

    Raises:
        DefinitionError: An unknown format, one that is only read from files, or blocks told of one
            that has its own.
        ShapeError: Not two dimensions, or a K that is not whole blocks.
        DTypeError: Not floats.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> w = cp.asarray(np.eye(32, dtype=np.float32))
        >>> q = ops.quantize_weight(w, format="q4_0")
        >>> q, q.nbytes
        (<clprim.QuantizedWeight q4_0 (32, 32)>, 576)
        >>> ops.linear(cp.full((1, 32), 2.0), q).get()[0, :3]
        array([2., 2., 2.], dtype=float32)
    """
    what = "quantize_weight"
    name = format.lower() if isinstance(format, str) else format
    known = BLOCKS.get(name) if isinstance(name, str) else None
    if known is None and name not in _INTEGERS:
        made = [*(n for n, b in BLOCKS.items() if b.make is not None), *_INTEGERS]
        raise DefinitionError(f"{what}: format={quoted(format)}: expected one of {', '.join(made)}")
    if known is not None and known.make is None:
        raise DefinitionError(
            f"{what}: {name} is only read from files: its rounding is a search that is not here"
        )
    if known is not None and (block not in (32, known.steps) or symmetric is not True):
        raise DefinitionError(
            f"{what}: block={quoted(block)}, symmetric={quoted(symmetric)}: {name} has its own "
            f"blocks, of {known.steps}; these are of {' and '.join(_INTEGERS)}"
        )
    values = w.get() if is_array(w) else np.asarray(w)
    if values.dtype.kind != "f" and values.dtype.name != "bfloat16":
        raise DTypeError(f"{what}: w is {values.dtype}, expected floats")
    if values.ndim != 2 or not values.size:
        raise ShapeError(f"{what}: w has shape {values.shape}, expected (N, K), none of them 0")
    with np.errstate(all="ignore"):  # what float32 does not hold, and what is no number
        numbers = np.ascontiguousarray(values, dtype=np.float32)
        if known is None:
            return _integers(what, numbers, name, whole(what, "block", block), symmetric)
    _check_blocks(what, name, known.steps, numbers.shape)
    flat = numbers.reshape(-1, known.steps)
    most = _AT_ONCE // known.steps
    parts = [known.written(flat[at : at + most]) for at in range(0, len(flat), most)]
    return from_blocks(np.concatenate(parts), name, (numbers.shape[0], numbers.shape[1]))


def from_blocks(blocks: Numbers, format: str, shape: tuple[int, int]) -> QuantizedWeight:
    """Returns a weight of the bytes that a GGUF file has of it.

    Raises:
        DefinitionError: An unknown format.
        ShapeError: A K that is not whole blocks, or another number of bytes.
    """
    known = BLOCKS.get(format)
    if known is None:
        raise DefinitionError(f"format {quoted(format)}: expected one of {', '.join(BLOCKS)}")
    _check_blocks("from_blocks", format, known.steps, shape)
    rows, depth = shape
    nbytes = rows * depth // known.steps * known.nbytes
    if blocks.nbytes != nbytes:
        raise ShapeError(
            f"from_blocks: {blocks.nbytes:,} bytes for {format} {shape}, expected {nbytes:,}"
        )
    lines = np.ascontiguousarray(blocks).view(np.uint8).reshape(rows, -1)
    coding = known.coding
    padded = -(-depth // coding.steps) * coding.steps

    def part(some: slice) -> tuple[Numbers, list[Numbers]]:
        codes, fields = known.parsed(lines[some])
        codes = codes.reshape(-1, depth)
        if padded > depth:  # numbers of 16 bits fill no block
            codes = np.pad(codes, ((0, 0), (0, padded - depth)))
        return codes, [f.reshape(len(codes), -1) for f in fields]

    return QuantizedWeight.of_parts(coding, part, format, (rows, padded), depth)


def _check_blocks(what: str, format: str, steps: int, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[1] % steps or not all(shape):
        raise ShapeError(f"{what}: {format} has blocks of {steps} columns; got shape {shape}")


def _integers(what: str, w: Numbers, name: str, block: int, symmetric: bool) -> QuantizedWeight:
    """Each block by its greatest magnitude, or from its least to its greatest number."""
    bits, (rows, depth) = _INTEGERS[name], w.shape
    if block != UNIT // 2 and (block < UNIT or block % UNIT):
        raise ShapeError(f"{what}: block={block}: expected 16 or a multiple of {UNIT}")
    _check_blocks(what, f"{name} of block={block}", max(block, UNIT), w.shape)
    middle, most = 1 << bits - 1, (1 << bits) - 1
    blocks = w.reshape(rows, -1, block)
    if symmetric:
        scale = np.abs(blocks).max(axis=2) / np.float32(middle - 1)
        zero = np.full(scale.shape, middle, np.float32)
    else:
        least = np.minimum(blocks.min(axis=2), 0)
        scale = (np.maximum(blocks.max(axis=2), 0) - least) / np.float32(most)
        zero = np.zeros_like(scale)
        np.divide(-least, scale, out=zero, where=scale > 0)
        zero = rounded(zero).clip(0, most)
    inverse = np.zeros_like(scale)
    np.divide(1, scale, out=inverse, where=scale > 0)
    codes = (rounded(blocks * inverse[..., None]) + zero[..., None]).clip(0, most)
    fields = [Field("scale", "float", block)]
    numbers = [scale.astype(np.float32)]
    if not symmetric:
        fields.append(Field("zero", "uchar", block))
        numbers.append(zero.astype(np.uint8))
    coding = Coding(bits, tuple(fields), middle if symmetric else 0)
    return QuantizedWeight.of(coding, codes.astype(np.uint8).reshape(rows, depth), numbers, name)
