"""Weights of few bits as other packages pack them into files, laid out once for the device."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.quantized.formats import Numbers
from clprim.ops.registry import operator
from clprim.ops.shared.checks import is_array
from clprim.plan.quantized.coding import UNIT, Coding, Field
from clprim.primitives.quantized_weight import QuantizedWeight

# Bits that codings have beside those of which they take the next more.
_KEPT = {1: 2, 7: 8}
_KINDS = {"float16": "half", "bfloat16": "bfloat16", "float32": "float"}
# Groups of more columns are several that share their numbers: work-items divide the depth by them.
_MOST_GROUP = 256
# The output that each of eight codes of a word is of, in AWQ's files.
_AWQ = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True)
class Groups:
    """Codes, and what groups of columns share: scale · (code - zero) + offset, or of a table."""

    bits: int
    codes: Numbers  # (N, K)
    scales: Numbers  # (N, groups), as are those below
    index: Numbers  # The group of each column
    zeros: Numbers | None = None
    zero: int = 0
    offsets: Numbers | None = None
    table: tuple[float, ...] = ()
    name: str = ""  # Of the format, where it is another than the packing's


class _Tensors:
    """What a layer has in a file, by name."""

    def __init__(self, what: str, tensors: Any, prefix: str) -> None:
        if not isinstance(tensors, Mapping):
            raise DefinitionError(f"{what}: expected tensors by their names, got {quoted(tensors)}")
        self.what = what
        self.found = {str(name).removeprefix(prefix): v for name, v in tensors.items()}

    def has(self, name: str) -> bool:
        """Whether there is one that is not empty."""
        found = self.found.get(name)
        return found is not None and math.prod(found.shape) > 0

    def get(self, name: str, ndim: int, dtypes: Iterable[str]) -> Numbers:
        """Returns one on the host."""
        value = self.found.get(name)
        if value is None:
            raise DefinitionError(
                f"{self.what}: no tensor {name!r} is there; got {', '.join(sorted(self.found))}"
            )
        try:
            array = value.get() if is_array(value) else np.asarray(value)
        except (TypeError, ValueError) as error:
            raise DTypeError(f"{self.what}: {name}: {error}") from error
        if array.dtype.name not in dtypes:
            raise DTypeError(
                f"{self.what}: {name} is {array.dtype}, expected {' or '.join(dtypes)}"
            )
        if array.ndim != ndim or not array.size:
            raise ShapeError(
                f"{self.what}: {name} has shape {array.shape}, expected {ndim} dimensions, none of "
                "them 0"
            )
        return array

    def words(self, name: str) -> Numbers:
        """Returns one of words of 32 bits."""
        return np.ascontiguousarray(self.get(name, 2, ("int32", "uint32"))).view(np.uint32)

    def fits(self, fit: bool, *names: str) -> None:
        """Refuses tensors whose shapes contradict each other."""
        if not fit:
            shapes = ", ".join(f"{n} {tuple(self.found[n].shape)}" for n in names)
            raise ShapeError(f"{self.what}: shapes do not fit: {shapes}")


def codes_of(words: Numbers, bits: int, count: int) -> Numbers:
    """Returns codes (rows, count) of rows of words, the low bits first; they may cross words."""
    rows, many = len(words), -(-count // 32)
    padded = np.zeros((rows, many * bits), np.uint32)
    padded[:, : words.shape[1]] = words[:, : many * bits]
    apart = padded.reshape(rows, many, bits)
    found = np.empty((rows, many, 32), np.uint8)
    for j in range(32):
        at, bit = divmod(j * bits, 32)
        code = apart[..., at] >> np.uint32(bit)
        if bit + bits > 32:
            code |= apart[..., at + 1] << np.uint32(32 - bit)
        found[..., j] = code & np.uint32((1 << bits) - 1)
    return found.reshape(rows, -1)[:, :count]


def weight_of(what: str, groups: Groups, format: str) -> QuantizedWeight:
    """Lays out columns by their groups, each from the beginning of a block on."""
    depth, count = groups.codes.shape[1], groups.scales.shape[1]
    block, columns, chosen = steps_of(what, groups.index, count)
    inside = columns < depth
    codes = np.zeros((len(groups.codes), columns.size), np.uint8)
    codes[:, inside] = groups.codes[:, columns[inside]]
    kind = _KINDS[groups.scales.dtype.name]
    fields, numbers = [Field("scale", kind, block)], [groups.scales]
    if groups.zeros is not None:
        if groups.zeros.min() < 0 or groups.zeros.max() > 255:
            raise ShapeError(f"{what}: a zero point lies outside of 0 to 255")
        fields.append(Field("zero", "uchar", block))
        numbers.append(groups.zeros.astype(np.uint8))
    if groups.offsets is not None:
        fields.append(Field("offset", _KINDS[groups.offsets.dtype.name], block))
        numbers.append(groups.offsets)
    bits = _KEPT.get(groups.bits, groups.bits)
    coding = Coding(bits, tuple(fields), groups.zero, table=groups.table)
    told = [(n.view(np.uint16) if n.dtype.kind == "V" else n)[:, chosen] for n in numbers]
    return QuantizedWeight.of(coding, codes, told, groups.name or format, depth, columns)


def steps_of(what: str, index: Numbers, count: int) -> tuple[int, Numbers, Numbers]:
    """Returns the steps of a block, the column of each step, K for none, and blocks' groups."""
    if index.min() < 0 or index.max() >= count:
        raise ShapeError(f"{what}: a column is of a group that is none of the {count} there are")
    depth, sizes = len(index), np.bincount(index, minlength=count)
    largest = int(sizes.max())
    size = -(-largest // UNIT) * UNIT if count == 1 else largest
    half = UNIT // 2
    whole = size % UNIT == 0 and bool((sizes[:-1] == size).all())
    block = math.gcd(size, _MOST_GROUP) if whole else half
    each = -(-sizes // block)
    steps = max(block, UNIT)
    total = -(-int(each.sum()) * block // steps) * steps
    columns = np.full(total, depth)
    within = np.arange(depth) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = np.repeat((np.cumsum(each) - each) * block, sizes) + within
    columns[places] = np.argsort(index, kind="stable")
    chosen = np.zeros(total // block, np.int64)
    chosen[: each.sum()] = np.repeat(np.arange(count), each)
    return block, columns, chosen


# --- formats -------------------------------------------------------------------------------------


def _index(given: _Tensors, depth: int, count: int, name: str, *of: str) -> Numbers:
    """The group of each column, as a tensor says, or groups of one size."""
    if given.has(name):
        index = given.get(name, 1, ("int32", "int64"))
        given.fits(index.size == depth, name, *of)
        return index.astype(np.int64)
    given.fits(depth % count == 0, *of)
    return np.arange(depth) // (depth // count)


def _awq(given: _Tensors) -> Groups:
    names = "qweight", "qzeros", "scales"
    words, starts = given.words("qweight"), given.words("qzeros")
    scales = given.get("scales", 2, _KINDS)
    depth, outputs = len(words), scales.shape[1]
    fit = words.shape[1] * 8 == outputs and starts.shape == (len(scales), words.shape[1])
    given.fits(fit, *names)

    def turned(packed: Numbers) -> Numbers:
        codes = codes_of(packed, 4, outputs).reshape(len(packed), -1, 8)
        return codes[..., np.argsort(_AWQ)].reshape(len(packed), outputs).T

    index = _index(given, depth, len(scales), "", *names)
    return Groups(4, turned(words), scales.T, index, turned(starts))


def _gptq(less: int) -> Callable[[_Tensors], Groups]:
    """Reads files whose zero points are stored as one less, or as they are."""

    def read(given: _Tensors) -> Groups:
        names = "qweight", "qzeros", "scales"
        words, starts = given.words("qweight"), given.words("qzeros")
        scales = given.get("scales", 2, _KINDS)
        count, outputs = scales.shape
        bits = starts.shape[1] * 32 // outputs
        fit = words.shape[1] == outputs and len(starts) == count and bits in (2, 3, 4, 8)
        given.fits(fit and starts.shape[1] == -(-outputs * bits // 32), *names)
        said = given.has("g_idx")
        depth = given.found["g_idx"].shape[0] if said else len(words) * 32 // bits
        given.fits(-(-depth * bits // 32) == len(words), *names, *["g_idx"] * said)
        index = _index(given, depth, count, "g_idx", *names)
        zeros = codes_of(starts, bits, outputs).T.astype(np.int16) + np.int16(less)
        codes = codes_of(np.ascontiguousarray(words.T), bits, depth)
        return Groups(bits, codes, scales.T, index, zeros)

    return read


def _compressed(given: _Tensors) -> Groups:
    names = "weight_packed", "weight_scale", "weight_shape"
    words, shape = given.words("weight_packed"), given.get("weight_shape", 1, ("int64", "int32"))
    ndim = len(given.found["weight_scale"].shape) if given.has("weight_scale") else 2
    scales = given.get("weight_scale", ndim, _KINDS)
    outputs, depth = (int(n) for n in shape) if shape.size == 2 else (0, 0)
    if scales.size == 1:  # of the whole tensor
        scales = np.broadcast_to(scales.reshape(1, 1), (max(outputs, 1), 1))
    fitting = [b for b in range(1, 9) if -(-depth * b // 32) == words.shape[1]]
    fit = len(words) == outputs == len(scales) and scales.ndim == 2
    given.fits(fit and len(fitting) == 1, *names)
    bits, count, zeros = fitting[0], scales.shape[1], None
    if given.has("weight_zero_point"):
        starts = given.words("weight_zero_point")
        fit = starts.shape == (-(-outputs * bits // 32), count)
        given.fits(fit, "weight_zero_point", *names)
        zeros = codes_of(np.ascontiguousarray(starts.T), bits, outputs).T
    index = _index(given, depth, count, "weight_g_idx", *names)
    middle = 0 if zeros is not None else 1 << (bits - 1)
    return Groups(bits, codes_of(words, bits, depth), scales, index, zeros, middle)


def _bitsandbytes(given: _Tensors) -> Groups:
    kinds = [k for k in ("nf4", "fp4") if given.has(f"quant_state.bitsandbytes__{k}")]
    kind = kinds[0] if kinds else "nf4"
    told = _told(given, f"quant_state.bitsandbytes__{kind}")
    (outputs, depth), size, many, offset = told
    packed = given.get("weight", 2, ("uint8",)).reshape(-1)
    given.fits(packed.size == -(-outputs * depth // 2), "weight")
    blocks = -(-outputs * depth // size)
    largest = given.get("absmax", 1, ("float32", "uint8"))
    given.fits(largest.size == blocks, "absmax", "weight")
    if largest.dtype == np.uint8:
        values = given.get("nested_quant_map", 1, ("float32",))
        of = given.get("nested_absmax", 1, ("float32",))
        fit = values.size == 256 and many > 0 and of.size == -(-blocks // many)
        given.fits(fit, "nested_quant_map", "nested_absmax", "absmax")
        largest = values[largest] * of[np.arange(blocks) // many] + np.float32(offset)
    table = given.get("quant_map", 1, ("float32",))
    given.fits(table.size == 16, "quant_map")
    codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[: outputs * depth]
    group = math.gcd(size, depth)  # blocks go on from row to row
    starts = np.arange(outputs)[:, None] * depth + np.arange(0, depth, group)
    return Groups(
        4,
        codes.reshape(outputs, depth),
        largest[starts // size],
        np.arange(depth) // group,
        table=tuple(map(float, table)),
        name=kind,
    )


def _told(given: _Tensors, name: str) -> tuple[tuple[int, int], int, int, float]:
    """The shape of a weight and its blocks, and of blocks of what is largest in them."""
    state = given.get(name, 1, ("uint8",)).tobytes()
    try:
        told = json.loads(state)
        (outputs, depth), size = map(int, told["shape"]), int(told["blocksize"])
        many = int(told.get("nested_blocksize", 0))
        offset = float(told.get("nested_offset", 0))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DefinitionError(f"{given.what}: {name} says no weight: {error!r}") from error
    if min(outputs, depth, size) < 1:
        raise ShapeError(f"{given.what}: {name} says shape {(outputs, depth)}, blocksize {size}")
    return (outputs, depth), size, many, offset


def _torchao(given: _Tensors) -> Groups:
    names = "qdata", "scale", "zero_point"
    data = given.get("qdata", 2, ("int8", "uint8"))
    scales = given.get("scale", 2, _KINDS)
    starts = given.get("zero_point", 2, (*_KINDS, "int8", "uint8", "int32"))
    given.fits(starts.shape == scales.shape, *names)
    packed = data.dtype == np.uint8 or starts.dtype.name in _KINDS
    if packed:
        pairs = data.view(np.uint8)
        data = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(len(data), -1)
    if starts.dtype.name in _KINDS:  # codes are signed, and zero points are numbers to add
        scales, starts = scales.T, starts.T
        given.fits(len(scales) == len(data), *names)
        index = _index(given, data.shape[1], scales.shape[1], "", *names)
        return Groups(4, data ^ np.uint8(8), scales, index, zero=8, offsets=starts)
    given.fits(len(scales) == len(data), *names)
    index = _index(given, data.shape[1], scales.shape[1], "", *names)
    if packed:
        return Groups(4, data, scales, index, starts)
    bits = max(2, int(np.maximum(data, ~data).max()).bit_length() + 1)
    middle = 1 << (bits - 1)
    codes = (data.astype(np.int16) + middle).astype(np.uint8)
    return Groups(bits, codes, scales, index, starts.astype(np.int32) + middle)


# By the names that configurations of models have, and what begins the names of tensors.
_READ: dict[str, tuple[str, Callable[[_Tensors], Groups]]] = {
    "awq": ("", _awq),
    "gptq": ("", _gptq(1)),
    "gptq_v2": ("", _gptq(0)),
    "compressed-tensors": ("", _compressed),
    "bitsandbytes": ("weight.", _bitsandbytes),
    "torchao": ("_weight_", _torchao),
}
#: Names of the packings.
PACKINGS = tuple(_READ)


@operator(
    sample="""{'qweight': empty((32, 1), 'int32'), 'qzeros': empty((1, 1), 'int32'),
        'scales': empty((1, 8))}, 'awq'"""
)
def packed_weight(tensors: Mapping[str, Any], format: str) -> QuantizedWeight:
    """Returns a weight of few bits of the tensors that a layer has in another package's file.

    Args:
        tensors: By their names behind that of the layer, NumPy's arrays, device arrays or what
            NumPy makes arrays of; others among them, such as the bias, are not read.
        format: By the word in a model's configuration: ``awq``, ``gptq`` (zero points stored as
            one less) and ``gptq_v2`` (as they are), of 2, 3, 4 or 8 bits, with ``g_idx`` or
            without: ``qweight``, ``qzeros``, ``scales``; ``compressed-tensors``, what its format
            pack-quantized holds: ``weight_packed``, ``weight_scale``, ``weight_shape``;
            ``bitsandbytes``, NF4 and FP4, with scales that are quantised themselves or not:
            ``weight``, ``weight.absmax``, ``weight.quant_map``,
            ``weight.quant_state.bitsandbytes__nf4``; ``torchao``, of int4, uint4 or integers of a
            byte: ``_weight_qdata``, ``_weight_scale``, ``_weight_zero_point``.

    Returns:
        A `QuantizedWeight`, of what the package makes of these tensors in float32. Where columns
        are out of order (``g_idx``), what it is multiplied with is gathered first.

    Raises:
        DefinitionError: An unknown format, or a tensor that is not there.
        ShapeError: Tensors that do not fit.
        DTypeError: A tensor of another dtype.

    Example:
        >>> import numpy as np
        >>> from clprim import ops
        >>> layer = {
        ...     "qweight": np.full((64, 4), 0x76543210, np.int32),
        ...     "qzeros": np.zeros((2, 4), np.int32),
        ...     "scales": np.ones((2, 32), np.float16),
        ... }
        >>> q = ops.packed_weight(layer, format="awq")
        >>> q
        <clprim.QuantizedWeight awq (32, 64)>
        >>> q.dequantize().get()[:8, 0]
        array([0., 4., 1., 5., 2., 6., 3., 7.], dtype=float32)
    """
    what = "packed_weight"
    if not isinstance(format, str) or format not in _READ:
        raise DefinitionError(
            f"{what}: format={quoted(format)}: expected one of {', '.join(PACKINGS)}"
        )
    prefix, read = _READ[format]
    return weight_of(what, read(_Tensors(what, tensors, prefix)), format)
