"""Graphs as files: nodes as JSON in the header of a safetensors file, whose tensors are constants.

A file is data: nothing of it is run on the host. Its strings are OpenCL C for the device, so take
files of people whom you would take programs from.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from clprim.arrays.array import Array
from clprim.call.forms import Form, decoded, encoded, made
from clprim.call.primitive import NoPlanError
from clprim.dtypes import as_dtype
from clprim.errors import ClprimError, DefinitionError, quoted
from clprim.graph.graph import Buffer, Graph, Node, buffer_of, planned
from clprim.graph.passes.simplify.constant_folding import weight_packing
from clprim.graph.store import contents_of, fill
from clprim.options import word_of
from clprim.plan.strides import Operand
from clprim.runtime.device import Device, current_device

_FORMAT = "1"
_MOST_HEADER = 100_000_000  # bytes, as safetensors itself allows
_MOST_DIMENSIONS = 64


def save(graph: Graph, path: str | Path) -> None:
    """Writes a graph with its constants; see `clprim.Graph.save`."""
    buffers: dict[Buffer, int] = {}
    entries: list[dict[str, Any]] = []
    constants: list[Buffer] = []

    def operand(o: Operand) -> list[Any]:
        buffer = buffer_of(o)
        if buffer not in buffers:
            buffers[buffer] = len(entries)
            entries.append({"kind": buffer.kind, "nbytes": buffer.nbytes})
            if buffer.kind == "constant":
                constants.append(buffer)
        return [buffers[buffer], [*o.shape], [*o.strides], o.offset, str(o.dtype)]

    def node(n: Node) -> dict[str, Any]:
        form = n.primitive.form
        if form is None:
            raise DefinitionError(f"save: {n.primitive.what} ({n.line}) cannot be saved")
        return {
            "kind": form.kind,
            "told": form.told,
            "reads": [operand(o) for o in n.reads],
            "writes": [operand(o) for o in n.writes],
            "numbers": encoded(n.numbers),
            "options": encoded(n.options),
            "line": n.line.rpartition("/")[2],
        }

    inputs = [operand(o) for o in graph.inputs]
    told = {
        "what": graph.what,
        "inputs": inputs,
        "nodes": [node(n) for n in graph.nodes],
        "outputs": [operand(o) for o in graph.outputs],
        "launches": graph.launches,
        "buffers": entries,
    }
    device, header, end = current_device(), dict[str, Any](), 0
    for buffer in constants:
        place = {
            "dtype": "U8",
            "shape": [buffer.nbytes],
            "data_offsets": [end, end + buffer.nbytes],
        }
        header[str(buffers[buffer])] = place
        end += buffer.nbytes
    header["__metadata__"] = {"format": _FORMAT, "clprim": json.dumps(told)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    try:
        with Path(path).open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for buffer in constants:
                file.write(contents_of(device, buffer))
    except (OSError, TypeError) as error:
        raise DefinitionError(f"save: {quoted(path)}: {error}") from error


def load(path: str | Path) -> Graph:
    """Reads a graph for the current device; see `clprim.Graph.load`."""
    try:
        raw = Path(path).read_bytes()
    except (OSError, TypeError) as error:
        raise DefinitionError(f"load: {quoted(path)}: {error}") from error
    try:
        return _read(raw)
    except ClprimError as error:
        raise type(error)(f"load: {quoted(str(path))}: {error}") from error
    except NoPlanError as error:
        raise DefinitionError(f"load: {quoted(str(path))}: no kernel for {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
        raise DefinitionError(
            f"load: {quoted(str(path))}: damaged, or no graph: {type(error).__name__}: {error}"
        ) from error


def _read(raw: bytes) -> Graph:
    if len(raw) < 8:
        raise DefinitionError("too short for a graph")
    (length,) = struct.unpack("<Q", raw[:8])
    if length > min(len(raw) - 8, _MOST_HEADER):
        raise DefinitionError(f"a header of {length:,} bytes in a file of {len(raw):,}")
    header = json.loads(raw[8 : 8 + length])
    about = header.pop("__metadata__")
    if about["format"] != _FORMAT:
        raise DefinitionError(f"format {quoted(about['format'])}; this version reads {_FORMAT}")
    told, data = json.loads(about["clprim"]), memoryview(raw)[8 + length :]
    device = current_device()
    buffers = [_buffer(device, n, entry, header, data) for n, entry in enumerate(told["buffers"])]
    Array._operators()  # whose primitives have registered their forms then
    inputs = tuple(_operand(o, buffers) for o in told["inputs"])
    if any(buffer_of(o).kind != "input" for o in inputs):
        raise DefinitionError("an input that is none")
    known = {*(b for b in buffers if b.kind == "constant"), *map(buffer_of, inputs)}
    nodes = []
    for entry in told["nodes"]:
        node = _node(device, entry, buffers)
        missing = [r for r in node.reads if buffer_of(r) not in known]
        if missing:
            raise DefinitionError(f"{node.primitive.what} reads what nobody has written")
        known.update(map(buffer_of, node.writes))
        nodes.append(node)
    outputs = tuple(_operand(o, buffers) for o in told["outputs"])
    if any(buffer_of(o) not in known for o in outputs):
        raise DefinitionError("a result that nobody has written")
    launches = word_of("a graph", "launches", told.get("launches", "auto"))
    graph = Graph(str(told["what"]), inputs, tuple(nodes), outputs, launches=launches)
    return weight_packing(graph, device)


def _buffer(device: Device, n: int, entry: Any, header: Any, data: memoryview) -> Buffer:
    nbytes, kind = entry["nbytes"], entry["kind"]
    if type(nbytes) is not int or nbytes < 0 or kind not in ("input", "constant", "temporary"):
        raise DefinitionError(f"{quoted(entry)}: no buffer")
    buffer = Buffer(nbytes, kind)
    if kind == "constant":
        begin, end = header[str(n)]["data_offsets"]
        if not 0 <= begin <= end <= len(data) or end - begin != nbytes:
            raise DefinitionError(f"constant {n} of {nbytes:,} bytes is not in the file")
        if nbytes:
            fill(device, buffer, data[begin:end])
    return buffer


def _operand(entry: Any, buffers: list[Buffer]) -> Operand:
    number, shape, strides, offset, name = entry
    whole = (*shape, *strides, offset, number)
    if any(type(n) is not int for n in whole) or len(shape) != len(strides):
        raise DefinitionError(f"{quoted(entry)}: no operand")
    if len(shape) > _MOST_DIMENSIONS or any(n < 0 for n in (*shape, number)):
        raise DefinitionError(f"{quoted(entry)}: no operand")
    buffer, dtype = buffers[number], as_dtype(name)
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)] if 0 not in shape else []
    low = offset + sum(r for r in reach if r < 0)
    high = offset + sum(r for r in reach if r > 0) + dtype.itemsize
    if 0 not in shape and not 0 <= low < high <= buffer.nbytes:
        raise DefinitionError(f"{quoted(entry)} reaches beyond its {buffer.nbytes:,} bytes")
    return Operand(tuple(shape), tuple(strides), offset, dtype, (buffer, 0))


def _node(device: Device, entry: Any, buffers: list[Buffer]) -> Node:
    reads, writes = ([_operand(o, buffers) for o in entry[key]] for key in ("reads", "writes"))
    if any(buffer_of(w).kind == "constant" for w in writes):
        raise DefinitionError("a constant is written")
    primitive = made(Form(entry["kind"], dict(entry["told"])))
    numbers, options = decoded(entry["numbers"]), decoded(entry["options"])
    return planned(device, primitive, reads, writes, numbers, options, line=str(entry["line"]))


Graph.write, Graph.read = save, load
