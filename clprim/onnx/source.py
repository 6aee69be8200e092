"""Where models come from: files, bytes and protos, and the data that lie in other files."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
from onnx import helper, numpy_helper

from clprim.errors import DefinitionError, quoted

_TENSOR = onnx.TensorProto
_NIBBLES = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}


def proto_of(source: Any) -> tuple[onnx.ModelProto, Path | None]:
    """Returns a model, and the folder that its external data have to be in.

    Raises:
        DefinitionError: No model: a file that cannot be read, bytes that are something else.
    """
    if isinstance(source, onnx.ModelProto):
        return source, None
    folder = None
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DefinitionError(f"onnx: {path}: {error.strerror or error}") from error
        folder = path.resolve().parent
    elif isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    else:
        raise DefinitionError(f"onnx: {quoted(source)}: expected a path, bytes or a ModelProto")
    try:
        model = onnx.ModelProto.FromString(data)
    except (DecodeError, RecursionError, ValueError) as error:
        raise DefinitionError(f"onnx: {_named(source)} is no model: {error}") from error
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise DefinitionError(f"onnx: {_named(source)} is no model: it holds no graph")
    return model, folder


def _named(source: Any) -> str:
    return str(source) if isinstance(source, (str, os.PathLike)) else "what was given"


def tensor_of(tensor: onnx.TensorProto, folder: Path | None) -> np.ndarray[Any, Any]:
    """Returns a tensor's elements; texts as objects.

    Raises:
        DefinitionError: Elements that do not fit the shape, an unknown dtype, external data that
            are missing or outside of the model's folder.
    """
    name = tensor.name or "without a name"
    shape = tuple(tensor.dims)
    try:
        if any(n < 0 for n in shape):
            raise ValueError("a negative size")
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        size = math.prod(shape)
        bits = _NIBBLES.get(_TENSOR.DataType.Name(tensor.data_type), dtype.itemsize * 8)
        nbytes = -(-size * bits // 8)
        if tensor.data_location == _TENSOR.EXTERNAL:
            whole = onnx.TensorProto()
            whole.name, whole.data_type = tensor.name, tensor.data_type
            whole.dims.extend(shape)
            whole.raw_data = _external(tensor, folder, nbytes)
            tensor = whole
        elif tensor.HasField("raw_data"):
            if len(tensor.raw_data) != nbytes:
                raise ValueError(f"{len(tensor.raw_data)} bytes for {nbytes}")
        elif size > 64 * _given(tensor):
            raise ValueError(f"{size} elements, of which none is there")
        found = numpy_helper.to_array(tensor)
    except DefinitionError:
        raise
    except Exception as error:
        raise DefinitionError(f"onnx: the tensor {name}, shape {shape}: {error}") from error
    if tensor.data_type == _TENSOR.STRING:
        texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in found.flat]
        return np.array(texts, object).reshape(found.shape)
    return found


def _given(tensor: onnx.TensorProto) -> int:
    fields = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
    return max(len(getattr(tensor, field)) for field in fields)


def _external(tensor: onnx.TensorProto, folder: Path | None, nbytes: int) -> bytes:
    """Returns bytes of a file beside the model, of no other."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where = entries.get("location", "")
    if folder is None:
        raise ValueError(f"its data are in the file {where!r}: load the model by its path")
    path = (folder / where).resolve()
    if not where or Path(where).is_absolute() or not path.is_relative_to(folder):
        raise ValueError(f"its data are in {where!r}, outside of the model's folder")
    if not path.is_file():
        raise ValueError(f"its data are in {where!r}, which is not there")
    offset, length = int(entries.get("offset") or 0), int(entries.get("length") or nbytes)
    if length != nbytes or offset < 0 or offset + length > path.stat().st_size:
        raise ValueError(f"{where!r} does not hold its {nbytes} bytes from {offset} on")
    with path.open("rb") as file:
        file.seek(offset)
        data: bytes = file.read(length)
        return data
