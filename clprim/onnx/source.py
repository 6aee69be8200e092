"""Where models come from: files, bytes and protos, and the data that lie in other files."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
from onnx import helper, numpy_helper

from clprim.errors import DefinitionError, quoted

_TENSOR = onnx.TensorProto
_NIBBLES = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
# Stands where a file's name does, of elements that are further back in the model's own bytes.
_HERE = "\0"
# Bytes of elements that stay in a tensor: the host computes with no more floats, and no more else.
_FLOATS, _OTHERS = 1 << 14, 1 << 20
_KINDS = {_TENSOR.FLOAT, _TENSOR.FLOAT16, _TENSOR.BFLOAT16, _TENSOR.DOUBLE}
_GRAPH, _INITIALIZER, _KIND, _RAW, _BYTES = 7, 5, 2, 9, 2  # protocol buffers' numbers


class Source:
    """Where the elements of a model's tensors are."""

    def __init__(self, data: bytes = b"", folder: Path | None = None) -> None:
        self.data, self.folder, self.digest = data, folder, ""

    @cached_property
    def whole(self) -> str:
        """A digest of all."""
        return hashlib.sha256(self.data).hexdigest()


def proto_of(source: Any) -> tuple[onnx.ModelProto, Source]:
    """Returns a model, large initialisers without their elements, and where these are."""
    if isinstance(source, onnx.ModelProto):
        return source, Source()
    found = Source()
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            found.data = path.read_bytes()
        except OSError as error:
            raise DefinitionError(f"onnx: {path}: {error.strerror or error}") from error
        found.folder = path.resolve().parent
    elif isinstance(source, (bytes, bytearray, memoryview)):
        found.data = bytes(source)
    else:
        raise DefinitionError(f"onnx: {quoted(source)}: expected a path, bytes or a ModelProto")
    try:
        short = _short(found.data)
        model = onnx.ModelProto.FromString(short)
    except (DecodeError, RecursionError, ValueError) as error:
        raise DefinitionError(f"onnx: {_named(source)} is no model: {error}") from error
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise DefinitionError(f"onnx: {_named(source)} is no model: it holds no graph")
    found.digest = hashlib.sha256(short).hexdigest()
    return model, found


def _named(source: Any) -> str:
    return str(source) if isinstance(source, (str, os.PathLike)) else "what was given"


# --- large elements stay where they are ----------------------------------------------------------


def _short(data: bytes) -> bytes:
    """Returns a model's bytes in which large initialisers say where their elements are."""
    try:
        graphs = [field for field in _fields(data, 0, len(data)) if field[0] == _GRAPH]
        ((_, begin, inner, end),) = graphs
        parts: list[bytes] = []
        for number, start, first, last in _fields(data, inner, end):
            tensor = _elsewhere(data, first, last) if number == _INITIALIZER else None
            if tensor is None:
                parts.append(data[start:last])
            else:
                parts += [_tag(_INITIALIZER), _varint(len(tensor)), tensor]
    except (IndexError, ValueError):
        return data  # whose parser says what is wrong
    graph = b"".join(parts)
    return b"".join([data[:begin], _tag(_GRAPH), _varint(len(graph)), graph, data[end:]])


def _elsewhere(data: bytes, begin: int, end: int) -> bytes | None:
    """Returns a tensor without its elements; None of a small one."""
    if end - begin <= _FLOATS:
        return None
    fields = list(_fields(data, begin, end))
    kinds = [data[first] for number, _, first, _ in fields if number == _KIND]
    raws = [(first, last) for number, _, first, last in fields if number == _RAW]
    if len(raws) != 1 or len(kinds) != 1:
        return None
    ((first, last),) = raws
    if last - first <= (_FLOATS if kinds[0] in _KINDS else _OTHERS):
        return None
    told = onnx.TensorProto(data_location=_TENSOR.EXTERNAL)
    for key, value in ("location", _HERE), ("offset", f"{first}"), ("length", f"{last - first}"):
        told.external_data.add(key=key, value=value)
    kept = [data[start:stop] for number, start, _, stop in fields if number != _RAW]
    return b"".join([*kept, told.SerializeToString()])


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields fields of a message: numbers, where they begin, where their contents do and end."""
    while at < end:
        start = at
        tag, at = _number(data, at)
        kind, first = tag & 7, at
        if kind == 0:
            _, at = _number(data, at)
        elif kind == _BYTES:
            size, first = _number(data, at)
            at = first + size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at > end:
            raise ValueError("a field beyond its message")
        yield tag >> 3, start, first, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)


# --- tensors -------------------------------------------------------------------------------------


def tensor_of(tensor: onnx.TensorProto, source: Source) -> np.ndarray[Any, Any]:
    """Returns a tensor's elements; texts as objects."""
    name = tensor.name or "without a name"
    shape = tuple(tensor.dims)
    try:
        if any(n < 0 for n in shape):
            raise ValueError("a negative size")
        dtype, bits = _kind(tensor.data_type)
        size, data = math.prod(shape), None
        nbytes = -(-size * bits // 8)
        if tensor.data_location == _TENSOR.EXTERNAL:
            data = _external(tensor, source, nbytes)
        elif tensor.HasField("raw_data"):
            data = tensor.raw_data
            if len(data) != nbytes:
                raise ValueError(f"{len(data)} bytes for {nbytes}")
        elif size > 64 * _given(tensor):
            raise ValueError(f"{size} elements, of which none is there")
        if data is not None:
            if bits == dtype.itemsize * 8 and sys.byteorder == "little":
                return np.frombuffer(data, dtype).reshape(shape)
            kind = tensor.data_type
            tensor = onnx.TensorProto(data_type=kind, dims=shape, raw_data=bytes(data))
        found = numpy_helper.to_array(tensor)
    except DefinitionError:
        raise
    except Exception as error:
        raise DefinitionError(f"onnx: the tensor {name}, shape {shape}: {error}") from error
    if tensor.data_type == _TENSOR.STRING:
        texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in found.flat]
        return np.array(texts, object).reshape(found.shape)
    return found


@lru_cache
def _kind(number: int) -> tuple[Any, int]:
    """Returns a dtype, and the bits of an element in a file."""
    dtype = helper.tensor_dtype_to_np_dtype(number)
    return dtype, _NIBBLES.get(_TENSOR.DataType.Name(number), dtype.itemsize * 8)


def _given(tensor: onnx.TensorProto) -> int:
    fields = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
    return max(len(getattr(tensor, field)) for field in fields)


def _external(tensor: onnx.TensorProto, source: Source, nbytes: int) -> Any:
    """Returns bytes of the model, or of a file beside it, of no other."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where, folder = entries.get("location", ""), source.folder
    offset, length = int(entries.get("offset") or 0), int(entries.get("length") or nbytes)
    if where == _HERE:
        if length != nbytes:
            raise ValueError(f"{length} bytes for {nbytes}")
        if not 0 <= offset <= offset + length <= len(source.data):
            raise ValueError("its data are not there")
        return memoryview(source.data)[offset : offset + length]
    if folder is None:
        raise ValueError(f"its data are in the file {where!r}: load the model by its path")
    path = (folder / where).resolve()
    if not where or Path(where).is_absolute() or not path.is_relative_to(folder):
        raise ValueError(f"its data are in {where!r}, outside of the model's folder")
    if not path.is_file():
        raise ValueError(f"its data are in {where!r}, which is not there")
    if length != nbytes or offset < 0 or offset + length > path.stat().st_size:
        raise ValueError(f"{where!r} does not hold its {nbytes} bytes from {offset} on")
    source.digest = ""  # which knows nothing of other files
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)
