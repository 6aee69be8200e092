"""Formats of quantised weights: how blocks lie in files, and what numbers are rounded to.

A row of `BLOCKS` says a format of GGUF whole: fields of a block, where bits of codes lie, and the
`Coding` that it has on a device. Layouts are those of ggml's ``ggml-common.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.plan.quantized.coding import Coding, Field

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Block:
    """A block of a format, as it lies in a file."""

    number: int  # Of the type in files
    steps: int
    parts: tuple[tuple[str, str, int], ...]  # Name, NumPy's type and length of every field
    # Bits of codes, the low ones first: a part, how many of them, and how many steps follow each
    # other in bytes before the next bits of the same bytes are taken
    planes: tuple[tuple[str, int, int], ...]
    coding: Coding
    # What the parts say, an array (blocks, numbers) for each field of the coding
    read: Callable[[Mapping[str, Numbers]], tuple[Numbers, ...]]
    codes: Callable[[Mapping[str, Numbers]], Numbers] | None = None  # Where they are no bits
    # The parts of what blocks (blocks, steps) are rounded to
    make: Callable[[Numbers], Mapping[str, Numbers]] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a block."""
        return np.dtype([(name, kind, (length,)) for name, kind, length in self.parts])

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return self.dtype.itemsize

    def parsed(self, blocks: Numbers) -> tuple[Numbers, tuple[Numbers, ...]]:
        """Returns codes (blocks, steps), and what steps share, of the bytes of blocks."""
        records = blocks.reshape(-1, self.nbytes).view(self.dtype)[:, 0]
        parts = {name: records[name] for name, _, _ in self.parts}
        codes = self._codes(parts) if self.codes is None else self.codes(parts)
        return codes, self.read(parts)

    def _codes(self, parts: Mapping[str, Numbers]) -> Numbers:
        found, low = None, 0
        for name, bits, run in self.planes:
            taken = bits_of(parts[name], bits, run)
            found = taken if found is None else found | taken << np.uint8(low)
            low += bits
        assert found is not None  # a format has codes
        return found

    def written(self, blocks: Numbers) -> Numbers:
        """Returns the bytes of what blocks (blocks, steps) of float32 are rounded to."""
        assert self.make is not None  # asked before
        found = np.zeros(len(blocks), self.dtype)
        with np.errstate(all="ignore"):
            for name, part in self.make(blocks).items():
                found[name] = part
        return found.view(np.uint8).reshape(len(blocks), -1)


def bits_of(part: Numbers, bits: int, run: int) -> Numbers:
    """Returns numbers of some bits, of which `run` bytes have one each before the next bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    values = part.reshape(len(part), -1, 1, run) >> shifts
    found: Numbers = (values & np.uint8((1 << bits) - 1)).reshape(len(part), -1)
    return found


def packed_bits(values: Numbers, bits: int, run: int) -> Numbers:
    """Returns the bytes that `bits_of` reads."""
    each = 8 // bits
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    parts = values.astype(np.uint8).reshape(len(values), -1, each, run) << shifts
    return np.bitwise_or.reduce(parts, axis=2).reshape(len(values), -1)


def _six_bits(parts: Mapping[str, Numbers]) -> tuple[Numbers, Numbers]:
    """Eight scales and eight minima of 6 bits, in 12 bytes."""
    low, high, rest = (parts["scales"][:, 4 * n : 4 * n + 4] for n in range(3))
    scales = np.concatenate([low & 63, rest & 15 | low >> 2 & 48], axis=1)
    return scales, np.concatenate([high & 63, rest >> 4 | high >> 2 & 48], axis=1)


def _with_minima(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    scales, minima = _six_bits(parts)
    return parts["d"], scales, parts["dmin"], minima


def _q2_scales(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    return parts["d"], parts["scales"] & 15, parts["dmin"], parts["scales"] >> 4


def _q3_scales(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    low, high = parts["scales"][:, :8], parts["scales"][:, 8:]
    scales = bits_of(low, 4, 8) | bits_of(high, 2, 4) << np.uint8(4)
    return parts["d"], scales.astype(np.int8) - np.int8(32)


def _xs_scales(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    high = parts["high"] >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
    scales = bits_of(parts["low"], 4, 1) | high.astype(np.uint8) << np.uint8(4)
    return parts["d"], scales.astype(np.int8) - np.int8(32)


def _ternary(parts: Mapping[str, Numbers]) -> Numbers:
    """Five digits of base 3 in a byte, as fractions; four in each of the last bytes."""
    found = []
    for part, digits in ((parts["qs"][:, :32], 5), (parts["qs"][:, 32:], 5), (parts["qh"], 4)):
        powers = np.array([3**n for n in range(digits)], np.uint8)[:, None]
        digit = (part[:, None, :] * powers).astype(np.uint16) * 3 >> 8
        found.append(digit.reshape(len(part), -1))
    return np.concatenate(found, axis=1).astype(np.uint8)


def _powers(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    """Half the powers of two that bytes are exponents of, as bfloat16."""
    e = parts["e"].astype(np.uint16)
    return (np.where(e < 2, np.uint16(0x20) << e, (e - np.uint16(1)) << np.uint16(7)),)


def _e4m3(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    """Half of what bytes are as float8 without a sign; the largest one is 0."""
    e, m = parts["d"] >> 3 & 15, (parts["d"] & 7).astype(np.float32)
    found = np.where(e == 0, m / 1024, (1 + m / 8) * np.exp2(e.astype(np.float32) - 8))
    return (np.where(parts["d"] == 127, 0, found).astype(np.float16),)


def _inverse(d: Numbers) -> Numbers:
    return np.where(d == 0, np.float32(0), np.float32(1) / d)


def _whole(x: Numbers, most: int) -> Numbers:
    return np.trunc(x).astype(np.uint8).clip(0, most)


def _around_zero(bits: int) -> Callable[[Numbers], Mapping[str, Numbers]]:
    """What is farthest from 0 becomes the least number, whose sign the scale has."""
    middle = 1 << (bits - 1)

    def make(x: Numbers) -> Mapping[str, Numbers]:
        far = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)
        d = far / -middle
        codes = _whole(x * _inverse(d) + np.float32(middle + 0.5), 2 * middle - 1)
        return {"d": d.astype(np.float16), **_low_high(codes, bits)}

    return make


def _from_minimum(bits: int) -> Callable[[Numbers], Mapping[str, Numbers]]:
    """The least and the greatest number are codes 0 and the last one."""
    most = (1 << bits) - 1

    def make(x: Numbers) -> Mapping[str, Numbers]:
        least = x.min(axis=1, keepdims=True)
        d = (x.max(axis=1, keepdims=True) - least) / most
        codes = _whole((x - least) * _inverse(d) + np.float32(0.5), most)
        halves = {"d": d.astype(np.float16), "m": least.astype(np.float16)}
        return {**halves, **_low_high(codes, bits)}

    return make


def _low_high(codes: Numbers, bits: int) -> Mapping[str, Numbers]:
    found = {"qs": packed_bits(codes & np.uint8(15), 4, 16)}
    return found if bits == 4 else {**found, "qh": packed_bits(codes >> 4, 1, 1)}


def rounded(x: Numbers) -> Numbers:
    """Returns the nearest whole numbers, halves away from zero."""
    a = np.abs(x)
    whole = np.floor(a)
    found: Numbers = np.sign(x) * (whole + np.floor(2 * (a - whole)))
    return found


def _q8(x: Numbers) -> Mapping[str, Numbers]:
    d = np.abs(x).max(axis=1, keepdims=True) / 127
    return {
        "d": d.astype(np.float16),
        "qs": rounded(x * _inverse(d)).astype(np.int8).view(np.uint8),
    }


def _signs(x: Numbers) -> tuple[Numbers, Numbers]:
    d = np.abs(x).max(axis=1, keepdims=True)
    return d.astype(np.float16), (rounded(x * _inverse(d)).astype(np.int8) + 1).astype(np.uint8)


def _tq1(x: Numbers) -> Mapping[str, Numbers]:
    d, codes = _signs(x)
    found = []
    for begin, end, digits, run in ((0, 160, 5, 32), (160, 240, 5, 16), (240, 256, 4, 4)):
        powers = np.array([81, 27, 9, 3, 1][:digits], np.uint16)[:, None]
        part = codes[:, begin:end].reshape(len(codes), digits, run) * powers
        found.append(((part.sum(axis=1).astype(np.uint16) * 256 + 242) // 243).astype(np.uint8))
    return {"qs": np.concatenate(found[:2], axis=1), "qh": found[2], "d": d}


def _tq2(x: Numbers) -> Mapping[str, Numbers]:
    d, codes = _signs(x)
    return {"qs": packed_bits(codes, 2, 32), "d": d}


def _mxfp4(x: Numbers) -> Mapping[str, Numbers]:
    largest = np.abs(x).max(axis=1, keepdims=True)
    e = np.where(largest > 0, np.floor(np.log2(largest)) - 2 + 127, 0).astype(np.uint8)
    scale = (_powers({"e": e})[0].astype(np.uint32) << np.uint32(16)).view(np.float32)
    best = np.empty(x.shape, np.uint8)
    for at in range(0, len(x), 4096):  # sixteen distances of each number
        some = slice(at, at + 4096)
        values = scale[some, :, None] * np.array(_E2M1, np.float32)
        best[some] = np.abs(values - x[some, :, None]).argmin(axis=2)
    return {"e": e, "qs": packed_bits(best, 4, 16)}


def _bfloat16(x: Numbers) -> Mapping[str, Numbers]:
    bits = x.view(np.uint32)
    nan = bits & 0x7FFFFFFF > 0x7F800000
    bits = np.where(nan, bits & 0xFFFF0000 | 0x400000, bits).astype(np.uint64)
    return {"qs": (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)}


# Doubled, as scales are halved.
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_SCALE, _OFFSET = Field("scale", "half", 32), Field("offset", "half", 32)
_D, _DMIN = Field("scale", "half", 256), Field("offset", "half", 256)
_K_FIELDS = (_D, Field("scale", "uchar", 32), _DMIN, Field("offset", "uchar", 32))
_HALF, _MIN = ("d", "<f2", 1), ("m", "<f2", 1)
_NIBBLES, _HIGH = ("qs", "u1", 16), ("qh", "u1", 4)
_LOW_FOUR, _FIFTH = ("qs", 4, 16), ("qh", 1, 1)
_SUPER = (("d", "<f2", 1), ("dmin", "<f2", 1), ("scales", "u1", 12))


def _scale(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    return (parts["d"],)


def _scale_and_minimum(parts: Mapping[str, Numbers]) -> tuple[Numbers, ...]:
    return parts["d"], parts["m"]


#: Formats of GGUF, by its names in small letters.
BLOCKS = {
    "q4_0": Block(
        2,
        32,
        (_HALF, _NIBBLES),
        (_LOW_FOUR,),
        Coding(4, (_SCALE,), 8),
        _scale,
        make=_around_zero(4),
    ),
    "q4_1": Block(
        3,
        32,
        (_HALF, _MIN, _NIBBLES),
        (_LOW_FOUR,),
        Coding(4, (_SCALE, _OFFSET)),
        _scale_and_minimum,
        make=_from_minimum(4),
    ),
    "q5_0": Block(
        6,
        32,
        (_HALF, _HIGH, _NIBBLES),
        (_LOW_FOUR, _FIFTH),
        Coding(5, (_SCALE,), 16),
        _scale,
        make=_around_zero(5),
    ),
    "q5_1": Block(
        7,
        32,
        (_HALF, _MIN, _HIGH, _NIBBLES),
        (_LOW_FOUR, _FIFTH),
        Coding(5, (_SCALE, _OFFSET)),
        _scale_and_minimum,
        make=_from_minimum(5),
    ),
    "q8_0": Block(
        8,
        32,
        (_HALF, ("qs", "u1", 32)),
        (),
        Coding(8, (_SCALE,), 128),
        _scale,
        codes=lambda parts: parts["qs"] ^ np.uint8(128),
        make=_q8,
    ),
    "q2_k": Block(
        10,
        256,
        (("scales", "u1", 16), ("qs", "u1", 64), _HALF, ("dmin", "<f2", 1)),
        (("qs", 2, 32),),
        Coding(
            2, (_D, Field("scale", "uchar", 16), _DMIN, Field("offset", "uchar", 16)), minus=True
        ),
        _q2_scales,
    ),
    "q3_k": Block(
        11,
        256,
        (("qh", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), _HALF),
        (("qs", 2, 32), ("qh", 1, 32)),
        Coding(3, (_D, Field("scale", "char", 16)), 4),
        _q3_scales,
    ),
    "q4_k": Block(
        12,
        256,
        (*_SUPER, ("qs", "u1", 128)),
        (("qs", 4, 32),),
        Coding(4, _K_FIELDS, minus=True),
        _with_minima,
    ),
    "q5_k": Block(
        13,
        256,
        (*_SUPER, ("qh", "u1", 32), ("qs", "u1", 128)),
        (("qs", 4, 32), ("qh", 1, 32)),
        Coding(5, _K_FIELDS, minus=True),
        _with_minima,
    ),
    "q6_k": Block(
        14,
        256,
        (("qs", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), _HALF),
        (("qs", 4, 64), ("qh", 2, 32)),
        Coding(6, (_D, Field("scale", "char", 16)), 32),
        lambda parts: (parts["d"], parts["scales"]),
    ),
    "iq4_nl": Block(
        20, 32, (_HALF, _NIBBLES), (_LOW_FOUR,), Coding(4, (_SCALE,), table=_NL), _scale
    ),
    "iq4_xs": Block(
        23,
        256,
        (_HALF, ("high", "<u2", 1), ("low", "u1", 4), ("qs", "u1", 128)),
        (("qs", 4, 16),),
        Coding(4, (_D, Field("scale", "char", 32)), table=_NL),
        _xs_scales,
    ),
    "bf16": Block(
        30,
        1,
        (("qs", "<u2", 1),),
        (),
        Coding(16, (), number="bfloat16"),
        lambda parts: (),
        codes=lambda parts: parts["qs"],
        make=_bfloat16,
    ),
    "f16": Block(
        1,
        1,
        (("qs", "<u2", 1),),
        (),
        Coding(16, (), number="half"),
        lambda parts: (),
        codes=lambda parts: parts["qs"],
        make=lambda x: {"qs": x.astype(np.float16).view("<u2")},
    ),
    "tq1_0": Block(
        34,
        256,
        (("qs", "u1", 48), ("qh", "u1", 4), _HALF),
        (),
        Coding(2, (_D,), 1),
        _scale,
        codes=_ternary,
        make=_tq1,
    ),
    "tq2_0": Block(
        35,
        256,
        (("qs", "u1", 64), _HALF),
        (("qs", 2, 32),),
        Coding(2, (_D,), 1),
        _scale,
        make=_tq2,
    ),
    "mxfp4": Block(
        39,
        32,
        (("e", "u1", 1), _NIBBLES),
        (_LOW_FOUR,),
        Coding(4, (Field("scale", "bfloat16", 32),), table=_E2M1),
        _powers,
        make=_mxfp4,
    ),
    "nvfp4": Block(
        40,
        64,
        (("d", "u1", 4), ("qs", "u1", 32)),
        (("qs", 4, 8),),
        Coding(4, (Field("scale", "half", 16),), table=_E2M1),
        _e4m3,
    ),
}
