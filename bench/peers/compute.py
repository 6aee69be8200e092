"""Who multiplies matrices and convolves: oneDNN and MKL through PyTorch, others; and clprim.

As in `bench.peers.peer`, each library is a class whose methods, named after ``workload.op``, return
a function without arguments that computes the workload once, or None where the library cannot.
"""

from __future__ import annotations

import ctypes
import importlib.util
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bench.peers.clblast import CLBlast
from bench.peers.ncnn_net import Ncnn
from bench.peers.onnx_runtime import OnnxRuntime
from bench.peers.peer import Call, Inputs, Peer
from bench.peers.tiny_grad import TinyGrad
from clprim import ops
from clprim.runtime.device import Device
from clprim.tune.networks import ACTIVATIONS

if TYPE_CHECKING:
    from bench.work.blocks import Block
    from bench.work.conv import Conv
    from bench.work.gemm import Gemm

# What follows a layer, by whether it adds and its activation: as clprim and oneDNN take it.
_SNIPPETS = {
    (False, ""): None,
    (True, ""): "y0 += x0;",
    (False, "relu"): "y0 = max(y0, 0);",
    (True, "relu"): "y0 = max(y0 + x0, 0);",
    (False, "relu6"): "y0 = clamp(y0, 0, 6);",
}
_POST: dict[str, tuple[str, list[float]]] = {
    "": ("none", []),
    "relu": ("relu", []),
    "relu6": ("hardtanh", [0.0, 6.0]),
}
_NO_TORCH = "" if importlib.util.find_spec("torch") else "torch is not installed"


def fetch(result: Any) -> np.ndarray[Any, Any]:
    """Return anyone's result as an array of NumPy."""
    if hasattr(result, "is_cuda"):
        result = result.cpu()
    for download in ("get", "numpy"):
        if hasattr(result, download):
            return np.asarray(getattr(result, download)())
    return np.asarray(result)


def keep_memory() -> None:
    """Tell the C library to keep freed memory, so that peers are spared page faults.

    PyTorch allocates each result anew. Left alone, the C library gives large blocks back to the
    kernel and takes fresh pages every time, which costs some layers two thirds of their speed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not the GNU C library
        return
    trim_threshold, mmap_max = -1, -4
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(mmap_max, 0)


class Packs(Peer):
    """This project, with results into memory that is there and weights packed beforehand."""

    name = "clprim"
    algorithm = "auto"
    _packed = True

    def gemm(self, workload: Gemm, inputs: Inputs) -> Call:
        """No operand is packed beforehand: both are new on every call."""
        a, b = inputs.device
        options = {"transpose_a": workload.transpose_a, "transpose_b": workload.transpose_b}
        out = ops.matmul(a, b, **options)
        return lambda: ops.matmul(a, b, out=out, **options)

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Call:
        """Weights that stay are packed once."""
        x, w = inputs.device
        if self._packed:
            groups, memory_format = workload.layer.groups, workload.memory_format
            w = ops.pack_weight(w, groups=groups, memory_format=memory_format)
        conv2d, options = ops.conv2d, workload.options  # looked up once, as in a user's loop
        out = conv2d(x, w, **options)
        return lambda: conv2d(x, w, out=out, **options)

    def conv_followed(self, workload: Conv, inputs: Inputs) -> Call:
        """What follows runs in the kernel that stores."""
        x, w, bias, *summand = inputs.device
        groups, memory_format = workload.layer.groups, workload.memory_format
        w = ops.pack_weight(w, groups=groups, memory_format=memory_format)
        conv2d = ops.conv2d
        options = {
            **workload.options,
            "bias": bias.reshape(-1),
            "epilogue": _SNIPPETS[workload.layer.adds, workload.layer.activation],
            "epilogue_args": tuple(summand),
        }
        out = conv2d(x, w, **options)
        return lambda: conv2d(x, w, out=out, **options)

    def conv_input(self, workload: Conv, inputs: Inputs) -> Call:
        """The weight is new on every call, as in training."""
        w, grad = inputs.device
        shape, options = workload.input_shape, workload.options
        out = ops.conv2d_input(shape, w, grad, **options)
        return lambda: ops.conv2d_input(shape, w, grad, out=out, **options)

    def conv_weight(self, workload: Conv, inputs: Inputs) -> Call:
        """Nothing is packed beforehand."""
        x, grad = inputs.device
        shape, options = workload.weight_shape, workload.options
        out = ops.conv2d_weight(x, shape, grad, **options)
        return lambda: ops.conv2d_weight(x, shape, grad, out=out, **options)

    def inverted_residual(self, workload: Block, inputs: Inputs) -> Call:
        """Weights that stay are packed once."""
        x, *rest = workload.operands(inputs.device)
        rest[::2] = [w if w is None else ops.pack_weight(w) for w in rest[::2]]
        options = {"stride": workload.stride, "padding": 1, "algorithm": self.algorithm}
        block = ops.inverted_residual
        out = block(x, *rest, **options)
        return lambda: block(x, *rest, out=out, **options)

    def finish(self) -> None:
        """Wait for the device."""
        self.device.synchronize()


class Packing(Packs):
    """This project, packing the weights in every call."""

    name = "clprim, unpacked"
    remarks: ClassVar = {"conv_forward": "`conv2d` of a plain weight, which it packs in each call"}
    _packed = False

    # nothing is packed beforehand there
    gemm = conv_followed = conv_input = conv_weight = inverted_residual = None


class _Torch(Peer):
    """PyTorch, which calls the library of the processor that its tensors are on."""

    missing = _NO_TORCH
    place = "cpu"

    def tensors(self, inputs: Inputs) -> list[Any]:
        """Return copies: PyTorch aligns memory as libraries like it, and NumPy does not."""
        import torch

        return [torch.from_numpy(array).clone().to(self.place) for array in inputs.host]

    def gemm(self, workload: Gemm, inputs: Inputs) -> Call:
        """Transposed views go to the library as such."""
        import torch

        a, b = self.tensors(inputs)
        a, b = a.T if workload.transpose_a else a, b.T if workload.transpose_b else b
        out = torch.empty(workload.m, workload.n, device=self.place)
        return lambda: torch.mm(a, b, out=out)

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Call:
        """The usual call."""
        import torch

        x, w = self.tensors(inputs)
        options = workload.options
        return lambda: torch.nn.functional.conv2d(x, w, **options)

    def conv_followed(self, workload: Conv, inputs: Inputs) -> Call:
        """A convolution, and what follows it in place."""
        import torch

        x, w, bias, *summand = self.tensors(inputs)
        bias, options = bias.reshape(-1), workload.options
        conv2d, clip = torch.nn.functional.conv2d, ACTIVATIONS[workload.layer.activation][1:]
        clips = bool(workload.layer.activation)

        def run() -> Any:
            y = conv2d(x, w, bias, **options)
            for more in summand:
                y += more
            return y.clamp_(*clip) if clips else y

        return run

    def _backward(self, workload: Conv, x: Any, w: Any, grad: Any, wanted: int) -> Call:
        import torch

        layer = workload.layer
        steps = [[layer.stride] * 2, [layer.padding] * 2, [layer.dilation] * 2]
        pairs = [*steps, False, [0, 0], layer.groups]
        mask = [wanted == number for number in range(3)]
        backward = torch.ops.aten.convolution_backward
        return lambda: backward(grad, x, w, None, *pairs, mask)[wanted]

    def conv_input(self, workload: Conv, inputs: Inputs) -> Call:
        """This gradient alone."""
        w, grad = self.tensors(inputs)
        x = self._empty(workload.input_shape, workload.memory_format)
        return self._backward(workload, x, w, grad, 0)

    def conv_weight(self, workload: Conv, inputs: Inputs) -> Call:
        """This gradient alone."""
        x, grad = self.tensors(inputs)
        w = self._empty(workload.weight_shape, workload.memory_format)
        return self._backward(workload, x, w, grad, 1)

    def _empty(self, shape: tuple[int, ...], memory_format: str) -> Any:
        import torch

        formats = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
        return torch.empty(shape, device=self.place, memory_format=formats[memory_format])


class OneDNN(_Torch):
    """PyTorch's own call; oneDNN reorders weights, and NCHW activations, in each."""

    name = "oneDNN"
    remarks: ClassVar = {
        "conv_forward": "PyTorch's `conv2d` on the CPU, in the row's memory format",
        "conv_followed": "PyTorch's `conv2d`, `+=` and `clamp_` on the CPU, in the row's format",
        "conv_input": "PyTorch's `convolution_backward` on the CPU, for the input alone",
        "conv_weight": "PyTorch's `convolution_backward` on the CPU, for the weight alone",
        "inverted_residual": "PyTorch's `conv2d`, `clamp_` and `+=` on the CPU",
    }

    gemm = None  # that is MKL's

    def inverted_residual(self, workload: Block, inputs: Inputs) -> Call:
        """Convolutions, and what follows them in place."""
        import torch

        x, *rest = workload.operands(self.tensors(inputs))
        found = workload.steps(rest)
        steps = [(w, b, layer.stride, layer.padding, 1, layer.groups) for layer, w, b in found]
        conv2d, last, adds = torch.nn.functional.conv2d, len(steps) - 1, workload.adds

        def run() -> Any:
            y = x
            for n, step in enumerate(steps):
                y = conv2d(y, *step)
                if n < last:
                    y.clamp_(0, 6)
            if adds:
                y += x
            return y

        return run


class Prepacked(_Torch):
    """OneDNN with the weight in the order it likes, channels-last: it reorders nothing."""

    name = "oneDNN prepacked"
    remarks: ClassVar = {
        "conv_forward": "PyTorch's `mkldnn._convolution_pointwise`, channels-last on the CPU, the "
        "weight in oneDNN's own order",
        "conv_followed": "PyTorch's `mkldnn._convolution_pointwise` with bias, sum and activation "
        "fused, channels-last on the CPU, the weight in oneDNN's own order",
        "inverted_residual": "three of PyTorch's `mkldnn._convolution_pointwise`, with ReLU6 and "
        "the sum fused, channels-last on the CPU, weights in oneDNN's own order",
    }

    gemm = conv_input = conv_weight = None

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Call | None:
        """What PyTorch's compiler calls; it has channels-last results only."""
        if workload.memory_format != "channels_last":
            return None
        import torch

        x, w = self.tensors(inputs)
        layer = workload.layer
        sizes = [layer.padding] * 2, [layer.stride] * 2, [layer.dilation] * 2, layer.groups
        mkldnn = torch.ops.mkldnn
        w = mkldnn._reorder_convolution_weight(w, *sizes, list(x.shape))
        return lambda: mkldnn._convolution_pointwise(x, w, None, *sizes, "none", [], "")

    def conv_followed(self, workload: Conv, inputs: Inputs) -> Call | None:
        """One call, with all that follows."""
        if workload.memory_format != "channels_last":
            return None
        import torch

        x, w, bias, *summand = self.tensors(inputs)
        layer = workload.layer
        sizes = [layer.padding] * 2, [layer.stride] * 2, [layer.dilation] * 2, layer.groups
        convolution = torch.ops.mkldnn._convolution_pointwise
        w = torch.ops.mkldnn._reorder_convolution_weight(w, *sizes, list(x.shape))
        bias, (name, numbers) = bias.reshape(-1), _POST[layer.activation]
        if summand:
            (r,) = summand
            last = (None, [], "") if name == "none" else (name, numbers, "")
            return lambda: convolution.binary(x, r, w, bias, *sizes, "add", 1.0, *last)
        return lambda: convolution(x, w, bias, *sizes, name, numbers, "")

    def inverted_residual(self, workload: Block, inputs: Inputs) -> Call | None:
        """One call a convolution, each with all that follows it."""
        if workload.memory_format != "channels_last":
            return None
        import torch

        x, *rest = workload.operands(self.tensors(inputs))
        mkldnn, adds = torch.ops.mkldnn, workload.adds
        convolution, steps = mkldnn._convolution_pointwise, []
        for layer, w, b in workload.steps(rest):
            sizes = [layer.padding] * 2, [layer.stride] * 2, [1, 1], layer.groups
            shape = [workload.batch, layer.channels, layer.size, layer.size]
            steps.append((mkldnn._reorder_convolution_weight(w, *sizes, shape), b, *sizes))

        def run() -> Any:
            y = x
            for step in steps[:-1]:
                y = convolution(y, *step, "hardtanh", [0.0, 6.0], "")
            if adds:
                return convolution.binary(y, x, *steps[-1], "add", 1.0, None, [], "")
            return convolution(y, *steps[-1], "none", [], "")

        return run


class MKL(_Torch):
    """PyTorch's matrix product."""

    name = "MKL"
    remarks: ClassVar = {"gemm": "`torch.mm` with `out=`, on the CPU"}

    conv_forward = conv_followed = conv_input = conv_weight = None  # those are oneDNN's


class CuDNN(_Torch):
    """PyTorch on the GPU, in full single precision, with the fastest algorithms of cuDNN."""

    name = "cuDNN"
    remarks: ClassVar = {
        "gemm": "cuBLAS: `torch.mm` with `out=`, without TF32, on the first GPU of CUDA",
        "conv_forward": "PyTorch's `conv2d` without TF32, on the first GPU of CUDA",
        "conv_followed": "PyTorch's `conv2d` without TF32, `+=` and `clamp_`, on that GPU",
        "conv_input": "PyTorch's `convolution_backward` without TF32, for the input alone",
        "conv_weight": "PyTorch's `convolution_backward` without TF32, for the weight alone",
    }
    place = "cuda"

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        if self.missing:
            return
        import torch

        if not torch.cuda.is_available():
            self.missing = "PyTorch finds no GPU here"
            return
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True

    def finish(self) -> None:
        """Wait for the GPU."""
        import torch

        torch.cuda.synchronize()


def compute_peers(device: Device) -> list[Peer]:
    """Return all peers, those that are missing included: the notes say so."""
    kinds = (Prepacked, OneDNN, MKL, Packing, CLBlast, TinyGrad, OnnxRuntime, Ncnn)
    same = () if device.traits.is_cpu else (CuDNN,)
    return [kind(device) for kind in (*same, *kinds)]
