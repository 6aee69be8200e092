"""The runtime of ONNX models."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bench.peers.peer import Call, Inputs, Peer

if TYPE_CHECKING:
    from bench.work.conv import Conv
    from bench.work.gemm import Gemm
    from bench.work.imported import ImportedInputs, ImportedJob
    from bench.work.nets import NetInputs, NetJob

# Its operators on channels in blocks.
_BLOCKED = "com.microsoft.nchwc"


class OnnxRuntime(Peer):
    """Its CPU provider, with as many threads as cores."""

    name = "onnxruntime"
    missing = next(
        (
            f"{p} is not installed"
            for p in ("onnxruntime", "onnx")
            if not importlib.util.find_spec(p)
        ),
        "",
    )
    remarks: ClassVar = {
        "gemm": "a model of one `Gemm`, on the CPU, inputs and output bound",
        "conv_forward": "a model of one `Conv`, on the CPU, weight constant, input and output "
        "bound; it has no NHWC",
        "conv_followed": "a model of one `Conv` in its own blocked layout, with bias, sum and "
        "activation fused, inputs and output in that layout, as inside its networks",
        "inference": "the network as `torch.onnx.export` writes it, on the CPU, input and output "
        "bound",
        "imported": "the same file, on the CPU, inputs and outputs bound",
    }

    def session(
        self,
        nodes: Sequence[Any],
        inputs: dict[str, Any],
        constants: dict[str, Any],
        *shape: int,
    ) -> Call:
        """Return what runs a model of these nodes, whose result ``y`` has this shape."""
        import onnx
        from onnx import helper, numpy_helper

        def described(name: str, shape: tuple[int, ...]) -> Any:
            return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

        graph = helper.make_graph(
            list(nodes),
            "model",
            [described(name, array.shape) for name, array in inputs.items()],
            [described("y", shape)],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_BLOCKED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return self.bound(model.SerializeToString(), inputs, *shape)

    def bound(self, model: bytes, inputs: dict[str, Any], *shape: int) -> Call:
        """Return what runs a model whose inputs are these, and whose one result has this shape."""
        import onnxruntime as ort

        session, binding = _opened(model, inputs)
        out = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
        binding.bind_ortvalue_output(session.get_outputs()[0].name, out)

        def call() -> Any:
            session.run_with_iobinding(binding)
            return out

        return call

    def inference(self, workload: NetJob, inputs: NetInputs) -> Call:
        """A network as PyTorch exports it."""
        given = {inputs.NAME: inputs.contiguous.numpy()}
        return self.bound(inputs.onnx, given, *inputs.expected.shape)

    def imported(self, workload: ImportedJob, inputs: ImportedInputs) -> Call:
        """A model of several outputs, whose sizes the model decides."""
        session, binding = _opened(inputs.model, inputs.given)
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")
        return lambda: session.run_with_iobinding(binding)

    def gemm(self, workload: Gemm, inputs: Inputs) -> Call:
        """``Gemm`` has the transposes as attributes."""
        from onnx import helper

        transposes = {"transA": int(workload.transpose_a), "transB": int(workload.transpose_b)}
        node = helper.make_node("Gemm", ["a", "b"], ["y"], **transposes)
        a, b = inputs.host
        return self.session([node], {"a": a, "b": b}, {}, workload.m, workload.n)

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Call | None:
        """NCHW only."""
        if workload.memory_format == "channels_last":
            return None
        from onnx import helper

        layer = workload.layer
        node = helper.make_node(
            "Conv",
            ["x", "w"],
            ["y"],
            kernel_shape=[layer.kernel] * 2,
            pads=[layer.padding] * 4,
            strides=[layer.stride] * 2,
            dilations=[layer.dilation] * 2,
            group=layer.groups,
        )
        x, w = inputs.host
        return self.session([node], {"x": x}, {"w": w}, *workload.result_shape)

    def conv_followed(self, workload: Conv, inputs: Inputs) -> Call:
        """In its own layout: channels in blocks of a vector, as between layers of a network."""
        from onnx import helper

        layer = workload.layer
        x, w, bias, *summand = (np.ascontiguousarray(array) for array in inputs.host)
        block = self._block()
        filters, few = -(-layer.filters // block) * block, layer.channels < block
        operands = {"x": x if few else _blocked(x, block)}
        operands |= {name: _blocked(a, block) for name, a in zip(["r"], summand, strict=False)}
        w = np.pad(w, [(0, filters - layer.filters), (0, 0), (0, 0), (0, 0)])
        if not few:
            w = np.pad(w, [(0, 0), (0, -layer.channels % block), (0, 0), (0, 0)])
        inner = 1 if few else block
        parts = w.reshape(filters // block, block, w.shape[1] // inner, inner, *w.shape[2:])
        w = np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1)).reshape(w.shape)
        bias = np.pad(bias.reshape(-1), (0, filters - layer.filters))
        activations: dict[str, dict[str, Any]] = {
            "": {},
            "relu": {"activation": "Relu"},
            "relu6": {"activation": "Clip", "activation_params": [0.0, 6.0]},
        }
        node = helper.make_node(
            "Conv",
            ["x", "w", "b", *(["r"] if summand else [])],
            ["y"],
            domain=_BLOCKED,
            kernel_shape=[layer.kernel] * 2,
            pads=[layer.padding] * 4,
            strides=[layer.stride] * 2,
            group=layer.groups,
            **activations[layer.activation],
        )
        size = layer.result_size
        shape = workload.batch, filters, size, size
        run = self.session([node], operands, {"w": w, "b": bias}, *shape)
        return lambda: _Blocked(run(), block, layer.filters)

    def _block(self) -> int:
        """Channels of a block: as many as it makes of few."""
        import onnxruntime as ort
        from onnx import TensorProto, helper

        node = helper.make_node("ReorderInput", ["x"], ["y"], domain=_BLOCKED)
        shapes = {"x": (1, 4, 1, 1), "y": ("n", "c", "h", "w")}
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_BLOCKED, 1)]
        graph = helper.make_graph([node], "model", [x], [y])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"x": np.zeros(shapes["x"], np.float32)})
        return found.shape[1]


def _opened(model: bytes, inputs: dict[str, Any]) -> tuple[Any, Any]:
    """A session with as many threads as cores, and its binding of inputs."""
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


class _Blocked:
    """A result in blocks of channels, put in order when it is asked for."""

    def __init__(self, value: Any, block: int, channels: int) -> None:
        self.value, self.block, self.channels = value, block, channels

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return it as (N, C, H, W)."""
        found = self.value.numpy()
        n, c, h, w = found.shape
        blocks = found.reshape(n, c // self.block, h, w, self.block)
        return blocks.transpose(0, 1, 4, 2, 3).reshape(n, c, h, w)[:, : self.channels]


def _blocked(array: np.ndarray[Any, Any], block: int) -> np.ndarray[Any, Any]:
    """Return (N, C, H, W) with its channels in blocks, in the same shape, filled up with zeros."""
    array = np.pad(array, [(0, 0), (0, -array.shape[1] % block), (0, 0), (0, 0)])
    n, c, h, w = array.shape
    blocks = array.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(blocks).reshape(array.shape)
