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

__all__ = ["OnnxRuntime"]


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
    }

    def session(
        self,
        nodes: Sequence[Any],
        inputs: dict[str, Any],
        constants: dict[str, Any],
        shape: tuple[int, ...],
    ) -> Call:
        """Return what runs a model of these nodes, whose result ``y`` has this shape."""
        import onnx
        import onnxruntime as ort
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
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        options = ort.SessionOptions()
        options.intra_op_num_threads = os.cpu_count() or 1
        # Its threads would spin for long after a run, and more than halve the next contender.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        bound = [ort.OrtValue.ortvalue_from_numpy(array) for array in inputs.values()]
        for name, value in zip(inputs, bound, strict=True):
            binding.bind_ortvalue_input(name, value)
        out = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
        binding.bind_ortvalue_output("y", out)

        def call() -> Any:
            session.run_with_iobinding(binding)
            return out

        return call

    def gemm(self, workload: Gemm, inputs: Inputs) -> Call:
        """``Gemm`` has the transposes as attributes."""
        from onnx import helper

        transposes = {"transA": int(workload.transpose_a), "transB": int(workload.transpose_b)}
        node = helper.make_node("Gemm", ["a", "b"], ["y"], **transposes)
        a, b = inputs.host
        return self.session([node], {"a": a, "b": b}, {}, (workload.m, workload.n))

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
        return self.session([node], {"x": x}, {"w": w}, workload.result_shape)
