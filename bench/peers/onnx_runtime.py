"""The runtime of ONNX models, on its CPU provider with as many threads as cores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.case import Call, Data, Host

# Its operators on channels in blocks.
_BLOCKED = "com.microsoft.nchwc"
_DOMAINS = (_BLOCKED, "com.microsoft")
_ACTIVATIONS: dict[str, dict[str, Any]] = {
    "": {},
    "ReLU": {"activation": "Relu"},
    "ReLU6": {"activation": "Clip", "activation_params": [0.0, 6.0]},
}


def opened(model: bytes, inputs: dict[str, Any]) -> tuple[Any, Any]:
    """Return a session, and its binding of inputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = os.cpu_count() or 1
    # Its threads would spin for long after a run, and more than halve the next contender.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
    return session, binding


def bound(model: bytes, inputs: dict[str, Any], *shape: int) -> Call:
    """Return what runs a model of these inputs; its one result is of a shape, or as it decides."""
    import onnxruntime as ort

    session, binding = opened(model, inputs)
    for output in session.get_outputs():
        if shape:
            out = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
            binding.bind_ortvalue_output(output.name, out)
        else:
            binding.bind_output(output.name, "cpu")

    def call() -> Any:
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return call


def model_of(
    nodes: Sequence[Any], inputs: dict[str, Any], constants: dict[str, Any], *shape: Any
) -> bytes:
    """Return a model of these nodes, whose result ``y`` has this shape."""
    import onnx
    from onnx import helper, numpy_helper

    def described(name: str, shape: Sequence[Any]) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        list(nodes),
        "model",
        [described(name, array.shape) for name, array in inputs.items()],
        [described("y", shape)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in _DOMAINS)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()  # type: ignore[no-any-return]


def _node(kind: str, inputs: Sequence[str], **options: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, ["y"], **options)


def gemm(job: Any, data: Data) -> Call:
    transposes = {"transA": int(job.transpose_a), "transB": int(job.transpose_b)}
    inputs = dict(zip("ab", data.host, strict=True))
    model = model_of([_node("Gemm", "ab", **transposes)], inputs, {}, job.m, job.n)
    return bound(model, inputs, job.m, job.n)


def matmul_nbits(accuracy: int, data: Data) -> Call:
    """A product with codes of 4 bits, two of them in a byte, the first one low."""
    x, codes, scales, _ = data.host
    outputs, blocks = scales.shape
    told = {"N": outputs, "K": x.shape[1], "bits": 4, "block_size": x.shape[1] // blocks}
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(outputs, blocks, -1)
    constants = {"b": packed, "s": scales.astype(np.float32).reshape(-1)}
    node = _node("MatMulNBits", "xbs", domain="com.microsoft", accuracy_level=accuracy, **told)
    shape = x.shape[0], outputs
    return bound(model_of([node], {"x": x}, constants, *shape), {"x": x}, *shape)


def _conv(layer: Any, inputs: Sequence[str], **options: Any) -> Any:
    return _node(
        "Conv",
        inputs,
        kernel_shape=[layer.kernel] * 2,
        pads=[layer.padding] * 4,
        strides=[layer.stride] * 2,
        group=layer.groups,
        **options,
    )


def conv_forward(job: Any, data: Data) -> Call | None:
    """NCHW only, the weight constant."""
    if job.memory_format == "channels_last":
        return None
    x, w = data.host
    node = _conv(job.layer, "xw", dilations=[job.layer.dilation] * 2)
    model = model_of([node], {"x": x}, {"w": w}, *job.result_shape)
    return bound(model, {"x": x}, *job.result_shape)


def conv_followed(job: Any, data: Data) -> Call:
    """In its own layout: channels in blocks of a vector, as between layers of a network."""
    layer = job.layer
    x, w, bias, *summand = (np.ascontiguousarray(array) for array in data.host)
    block = _block()
    filters, few = -(-layer.filters // block) * block, layer.channels < block
    inputs = {"x": x if few else _blocked(x, block)}
    inputs |= {name: _blocked(a, block) for name, a in zip("r", summand, strict=False)}
    w = np.pad(w, [(0, filters - layer.filters), (0, 0), (0, 0), (0, 0)])
    if not few:
        w = np.pad(w, [(0, 0), (0, -layer.channels % block), (0, 0), (0, 0)])
    inner = 1 if few else block
    parts = w.reshape(filters // block, block, w.shape[1] // inner, inner, *w.shape[2:])
    w = np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1)).reshape(w.shape)
    bias = np.pad(bias.reshape(-1), (0, filters - layer.filters))
    names = ["x", "w", "b", *(["r"] if summand else [])]
    node = _conv(layer, names, domain=_BLOCKED, **_ACTIVATIONS[layer.activation])
    size = layer.result_size
    shape = job.batch, filters, size, size
    run = bound(model_of([node], inputs, {"w": w, "b": bias}, *shape), inputs, *shape)
    return lambda: _Blocked(run()[0], block, layer.filters)


def _block() -> int:
    """Channels of a block: as many as it makes of few."""
    x = np.zeros((1, 4, 1, 1), np.float32)
    node = _node("ReorderInput", "x", domain=_BLOCKED)
    (found,) = bound(model_of([node], {"x": x}, {}, *"nchw"), {"x": x})()
    return int(found.shape()[1])


class _Blocked:
    """A result in blocks of channels, put in order when it is asked for."""

    def __init__(self, value: Any, block: int, channels: int) -> None:
        self.value, self.block, self.channels = value, block, channels

    def numpy(self) -> Host:
        found = self.value.numpy()
        n, c, h, w = found.shape
        blocks = found.reshape(n, c // self.block, h, w, self.block)
        return blocks.transpose(0, 1, 4, 2, 3).reshape(n, c, h, w)[:, : self.channels]  # type: ignore[no-any-return]


def _blocked(array: Host, block: int) -> Host:
    """Return (N, C, H, W) with its channels in blocks, in the same shape, filled up with zeros."""
    array = np.pad(array, [(0, 0), (0, -array.shape[1] % block), (0, 0), (0, 0)])
    n, c, h, w = array.shape
    blocks = array.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(blocks).reshape(array.shape)
