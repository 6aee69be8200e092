"""Reads GGUF: metadata at once, tensors where they lie, each when it is asked for.

Versions 2 and 3, in either order of bytes, whole or split. The file is taken for hostile: every
count, length and place is compared with what is left of it before anything is made.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.dtypes import as_dtype
from clprim.errors import ClprimError, DefinitionError, ShapeError, quoted
from clprim.ops.quantized.formats import BLOCKS
from clprim.ops.quantized.quantize_weight import from_blocks

_MAGIC = b"GGUF"
# Bound: what files say of themselves: dimensions, arrays within arrays, and shards.
_MOST_DIMENSIONS, _MOST_DEPTH, _MOST_SHARDS = 4, 4, 65535
_ALIGNMENT = 32
# Types of metadata by number; 8 is a string, 9 an array.
_SCALARS = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "?"}
_SCALARS |= {10: "u8", 11: "i8", 12: "f8"}
_STRING, _ARRAY = 8, 9
# Types of tensors that are plain numbers, by number; the others are `BLOCKS`.
_PLAIN = {0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64"}
_PLAIN |= {28: "float64", 30: "bfloat16"}
_BLOCKS = {block.number: name for name, block in BLOCKS.items() if block.number not in _PLAIN}
_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies."""

    name: str
    format: str  # A dtype's name, or that of a format of blocks
    shape: tuple[int, ...]  # As NumPy counts: neighbours in memory are along the last dimension
    offset: int  # In the file
    nbytes: int
    data: np.ndarray[Any, Any]  # The whole file


class GGUF:
    """A file that has been opened: its metadata, and its tensors by name.

    Attributes:
        metadata: Values by key: numbers, strings, arrays of NumPy's, lists of strings.
        tensors: Name, format, shape and bytes of each, by name.
        big_endian: Whether numbers have their high bytes first.
    """

    def __init__(
        self, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], *, big_endian: bool
    ) -> None:
        self.metadata, self.tensors, self.big_endian = metadata, tensors, big_endian

    def load(self, name: str) -> Any:
        """Returns a tensor on the current device.

        Numbers are an array of their dtype. Blocks of two dimensions are a `QuantizedWeight`, of
        three a list of them, of one an array of float32.

        Raises:
            DefinitionError: No such tensor.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            raise DefinitionError(f"no tensor is called {quoted(name)}")
        raw = tensor.data[tensor.offset : tensor.offset + tensor.nbytes]
        order = ">" if self.big_endian else "<"
        if tensor.format not in BLOCKS:
            return _plain(raw, tensor, order)
        if order == ">":
            raw = _turned(raw, tensor.format)
        if len(tensor.shape) < 2:
            flat = from_blocks(raw, tensor.format, (1, tensor.shape[0]))
            return flat.dequantize().reshape(tensor.shape)
        *outer, rows, depth = tensor.shape
        several = raw.reshape(math.prod(outer), -1)
        found = [from_blocks(each, tensor.format, (rows, depth)) for each in several]
        return found if outer else found[0]

    @cached_property
    def architecture(self) -> str:
        """What ``general.architecture`` says; empty where nothing does."""
        found = self.metadata.get("general.architecture", "")
        return found if isinstance(found, str) else ""

    def __repr__(self) -> str:
        return f"<clprim.llm.GGUF {self.architecture} of {len(self.tensors)} tensors>"


def read_gguf(path: Any) -> GGUF:
    """Opens a GGUF file, or all files of a split one of which the first is given.

    Args:
        path: Of the file; it stays mapped to memory as long as the result is there.

    Raises:
        DefinitionError: No file, no GGUF, an unknown version or type of tensors, or one whose
            counts, sizes and places are not those of a file of its length.

    Example:
        >>> from clprim.llm import read_gguf
        >>> file = read_gguf("model.gguf")  # doctest: +SKIP
        >>> file.architecture, file.load("token_embd.weight")  # doctest: +SKIP
        ('gemma3', <clprim.QuantizedWeight q8_0 (262144, 640)>)
    """
    try:
        first = Path(path)
    except TypeError as error:
        raise DefinitionError(f"read_gguf: {quoted(path)}: expected a path") from error
    found = _opened(first)
    count = _number(found.metadata, "split.count", 1)
    if count <= 1:
        return found
    if _number(found.metadata, "split.no", 0):
        raise DefinitionError(f"read_gguf: {first}: expected the first of {count} files")
    parts = _SPLIT.fullmatch(first.name)
    if parts is None or count > _MOST_SHARDS or int(parts[3]) != count:
        raise DefinitionError(
            f"read_gguf: {first}: one of {count} files is called NAME-00001-of-{count:05d}.gguf"
        )
    tensors = dict(found.tensors)
    for n in range(1, count):
        other = first.with_name(f"{parts[1]}-{n + 1:05d}-of-{count:05d}.gguf")
        shard = _opened(other)
        said = [_number(shard.metadata, f"split.{key}", 0) for key in ("no", "count")]
        if said != [n, count] or shard.big_endian is not found.big_endian:
            raise DefinitionError(f"read_gguf: {other} is not number {n} of the {count} files")
        twice = tensors.keys() & shard.tensors.keys()
        if twice:
            raise DefinitionError(f"read_gguf: {other}: tensor {quoted(min(twice))} is there twice")
        tensors.update(shard.tensors)
    total = _number(found.metadata, "split.tensors.count", len(tensors))
    if total != len(tensors):
        raise DefinitionError(
            f"read_gguf: {first}: {len(tensors)} tensors in {count} files, expected {total}"
        )
    return GGUF(found.metadata, tensors, big_endian=found.big_endian)


def _number(metadata: Mapping[str, Any], key: str, default: int) -> int:
    value = metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DefinitionError(f"read_gguf: {key} is {quoted(value)}, expected a count")
    return value


def _opened(path: Path) -> GGUF:
    try:
        data = np.memmap(path, np.uint8, "r")
    except OSError as error:
        why = error.strerror.lower() if error.strerror else "it cannot be read"
        raise DefinitionError(f"read_gguf: {path}: {why}") from error
    except ValueError as error:  # a file without bytes cannot be mapped
        raise DefinitionError(f"read_gguf: {path}: {error}") from error
    try:
        return _Reader(data).file()
    except ClprimError as error:
        raise type(error)(f"read_gguf: {path}: {error}") from error


class _Reader:
    """Goes through a file once, from its begin to its tensors."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data, self.at = data, 0
        self.order: Literal["<", ">"] = "<"

    def file(self) -> GGUF:
        """Reads all but what tensors hold."""
        if bytes(self.take(4)) != _MAGIC:
            raise DefinitionError("it does not begin as a GGUF file")
        version = self.number("I")
        if not version & 0xFFFF:
            self.order, self.at = ">", 4
            version = self.number("I")
        if version not in (2, 3):
            raise DefinitionError(f"version {version}: expected 2 or 3")
        tensors, pairs = self.number("Q"), self.number("Q")
        # The shortest pair has a name and a byte, the shortest tensor a name and no dimension.
        self.room("tensors", tensors, 24)
        self.room("pairs of metadata", pairs, 13)
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self.name()
            if key in metadata:
                raise DefinitionError(f"{quoted(key)} is there twice")
            metadata[key] = self.value(self.number("I"), key, 0)
        told = [self.tensor() for _ in range(tensors)]
        return GGUF(metadata, self.placed(told, metadata), big_endian=self.order == ">")

    def room(self, what: str, count: int, size: int) -> None:
        """Refuses more of something than the rest of the file has room for."""
        left = len(self.data) - self.at
        if count * size > left:
            raise DefinitionError(f"{count:,} {what} where {left:,} bytes are left")

    def take(self, count: int) -> np.ndarray[Any, Any]:
        """Returns the next bytes."""
        self.room("bytes", count, 1)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind: str) -> Any:
        """Returns the next number, by the letter that `struct` has for it."""
        size = struct.calcsize("=" + kind)
        return struct.unpack(self.order + kind, self.take(size).tobytes())[0]

    def name(self) -> str:
        """Returns the next string, which has to be text."""
        raw = self.take(self.number("Q")).tobytes()
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise DefinitionError(f"a name is no text: {error}") from error

    def value(self, kind: int, key: str, depth: int) -> Any:
        """Returns the next value of metadata; bytes that are no text are kept as surrogates."""
        if kind in _SCALARS:
            return self.numbers(kind, 1, key)[0].item()
        if kind == _STRING:
            return self.take(self.number("Q")).tobytes().decode(errors="surrogateescape")
        if kind != _ARRAY:
            raise DefinitionError(f"{quoted(key)} is of type {kind}, which is unknown")
        if depth == _MOST_DEPTH:
            raise DefinitionError(f"{quoted(key)}: more than {_MOST_DEPTH} arrays in each other")
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            return self.numbers(inner, count, key)
        # A string has its length, an array its type and its length.
        self.room(f"elements of {quoted(key)}", count, 8 if inner == _STRING else 12)
        if inner == _STRING:
            return self.strings(count)
        return [self.value(inner, key, depth + 1) for _ in range(count)]

    def numbers(self, kind: int, count: int, key: str) -> np.ndarray[Any, Any]:
        """Returns the next numbers of a type."""
        dtype = np.dtype(_SCALARS[kind])
        self.room(f"elements of {quoted(key)}", count, dtype.itemsize)
        raw = self.take(count * dtype.itemsize)
        if dtype.kind == "b" and (raw > 1).any():
            raise DefinitionError(f"{quoted(key)}: a byte that is neither true nor false")
        ordered = np.frombuffer(raw.tobytes(), dtype.newbyteorder(self.order))
        return ordered.astype(dtype)

    def strings(self, count: int) -> list[str]:
        """Returns the next strings; vocabularies have hundreds of thousands."""
        found, at, data = [], self.at, memoryview(self.data.data)
        unpack, end = struct.Struct(self.order + "Q").unpack_from, len(data)
        for _ in range(count):
            if at + 8 > end:
                raise DefinitionError("a string begins behind the end")
            (size,) = unpack(data, at)
            begin, at = at + 8, at + 8 + size
            if at > end:
                raise DefinitionError(f"a string of {size:,} bytes ends behind the end")
            found.append(str(data[begin:at], "utf-8", "surrogateescape"))
        self.at = at
        return found

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Returns name, shape, type and offset of the next tensor."""
        name = self.name()
        count = self.number("I")
        if count > _MOST_DIMENSIONS:
            raise DefinitionError(
                f"tensor {quoted(name)} has {count} dimensions, expected {_MOST_DIMENSIONS} at most"
            )
        shape = tuple(self.number("Q") for _ in range(count))[::-1]
        return name, shape, self.number("I"), self.number("Q")

    def placed(
        self, told: list[tuple[str, tuple[int, ...], int, int]], metadata: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """Returns the tensors, each in its own place within the file."""
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise DefinitionError(f"general.alignment is {quoted(alignment)}: no power of two")
        begin = -(-self.at // alignment) * alignment
        found: dict[str, Tensor] = {}
        for name, shape, kind, offset in told:
            if name in found:
                raise DefinitionError(f"tensor {quoted(name)} is there twice")
            format, nbytes = _size_of(name, shape, kind)
            end = begin + offset + nbytes
            if offset % alignment or end > len(self.data):
                raise DefinitionError(
                    f"tensor {quoted(name)}: {nbytes:,} bytes at {offset:,} of "
                    f"{max(0, len(self.data) - begin):,}, by steps of {alignment}"
                )
            found[name] = Tensor(name, format, shape, begin + offset, nbytes, self.data)
        order = sorted(found.values(), key=lambda t: (t.offset, t.nbytes))
        for one, other in itertools.pairwise(order):
            if one.offset + one.nbytes > other.offset:
                raise DefinitionError(
                    f"tensors {quoted(one.name)} and {quoted(other.name)} overlap"
                )
        return found


def _size_of(name: str, shape: tuple[int, ...], kind: int) -> tuple[str, int]:
    """The format of a tensor and its bytes."""
    if not all(shape):
        raise ShapeError(f"tensor {quoted(name)} has shape {shape}: nothing is in it")
    if kind in _PLAIN:
        return _PLAIN[kind], math.prod(shape) * as_dtype(_PLAIN[kind]).itemsize
    if kind not in _BLOCKS:
        known = ", ".join([*_PLAIN.values(), *_BLOCKS.values()])
        raise DefinitionError(f"tensor {quoted(name)} is of type {kind}; there are {known}")
    block = BLOCKS[_BLOCKS[kind]]
    if not shape or shape[-1] % block.steps:
        raise ShapeError(
            f"tensor {quoted(name)}: {_BLOCKS[kind]} has blocks of {block.steps} columns; "
            f"got shape {shape}"
        )
    return _BLOCKS[kind], math.prod(shape) // block.steps * block.nbytes


def _plain(raw: np.ndarray[Any, Any], tensor: Tensor, order: str) -> Array:
    dtype = as_dtype(tensor.format)
    # NumPy knows no order of bytes of a bfloat16.
    whole = np.dtype(f"{order}u{dtype.itemsize}")
    bits = raw.view(whole).astype(whole.newbyteorder("=")).view(dtype)
    return asarray(bits.reshape(tensor.shape))


def _turned(raw: np.ndarray[Any, Any], format: str) -> np.ndarray[Any, Any]:
    """Blocks with the low bytes of their numbers first."""
    dtype = BLOCKS[format].dtype
    records = np.ascontiguousarray(raw).view(dtype.newbyteorder(">"))
    found: np.ndarray[Any, Any] = records.astype(dtype).view(np.uint8)
    return found
