"""Who multiplies matrices and convolves: oneDNN, MKL and cuDNN through PyTorch; and clprim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.case import Call, Data, into, marked
from bench.peers import clblast, onnx_runtime, tiny_grad
from clprim import ops
from clprim.tune.networks import ACTIVATIONS

# What follows a layer, by whether it adds and its activation: as clprim and oneDNN take it.
_SNIPPETS = {
    (False, ""): None,
    (True, ""): "y0 += x0;",
    (False, "ReLU"): "y0 = max(y0, 0);",
    (True, "ReLU"): "y0 = max(y0 + x0, 0);",
    (False, "ReLU6"): "y0 = clamp(y0, 0, 6);",
}
_POST: dict[str, tuple[str, list[float]]] = {
    "": ("none", []),
    "ReLU": ("relu", []),
    "ReLU6": ("hardtanh", [0.0, 6.0]),
}

# --- clprim: results into memory that is there, weights that stay packed beforehand --------------


def gemm(job: Any, data: Data) -> Call:
    """No operand is packed beforehand: both are new on every call."""
    options = {"transpose_a": job.transpose_a, "transpose_b": job.transpose_b}
    return into(ops.matmul, *data.device, **options)


def conv_forward(job: Any, data: Data, packs: bool = True) -> Call:
    """Weights that stay are packed once."""
    x, w = data.device
    return into(ops.conv2d, x, _packed(job, w) if packs else w, **job.options)


def _packed(job: Any, w: Any) -> Any:
    return ops.pack_weight(w, groups=job.layer.groups, memory_format=job.memory_format)


def conv_grouped(job: Any, data: Data) -> Call:
    """A depthwise layer as products of matrices, one a group: how much there is to gain."""
    (x, w), options = data.device, job.options
    others = {"depthwise", "winograd"}  # the same kernel, and what is no product of matrices
    name = next(n for n in ops.conv2d.algorithms(x, w, **options) if n not in others)
    w = ops.pack_weight(w, groups=job.layer.groups)
    return into(ops.conv2d, x, w, algorithm=name, **options)


def conv_followed(job: Any, data: Data) -> Call:
    """What follows runs in the kernel that stores."""
    x, w, bias, *summand = data.device
    more = {"bias": bias.reshape(-1), "epilogue_args": tuple(summand)}
    more["epilogue"] = _SNIPPETS[job.layer.adds, job.layer.activation]
    return into(ops.conv2d, x, _packed(job, w), **job.options, **more)


def conv_input(job: Any, data: Data) -> Call:
    """The weight is new on every call, as in training."""
    return into(ops.conv2d_input, job.input_shape, *data.device, **job.options)


def conv_weight(job: Any, data: Data) -> Call:
    x, grad = data.device
    return into(ops.conv2d_weight, x, job.weight_shape, grad, **job.options)


def block(job: Any, data: Data, algorithm: str = "auto") -> Call:
    """An inverted residual: weights that stay are packed once."""
    x, *rest = job.operands(data.device)
    rest[::2] = [w if w is None else ops.pack_weight(w) for w in rest[::2]]
    told = {"stride": job.stride, "padding": 1, "algorithm": algorithm}
    return into(ops.inverted_residual, x, *rest, **told)


# --- PyTorch, which calls the library of the processor that its tensors are on -------------------


def _sizes(layer: Any) -> tuple[list[int], list[int], list[int], int]:
    return [layer.padding] * 2, [layer.stride] * 2, [layer.dilation] * 2, layer.groups


def _torch_gemm(job: Any, data: Data, place: str = "cpu") -> Call:
    import torch

    a, b = data.tensors(place)
    a, b = a.T if job.transpose_a else a, b.T if job.transpose_b else b
    out = torch.empty(job.m, job.n, device=place)
    return lambda: torch.mm(a, b, out=out)


def _torch_forward(job: Any, data: Data, place: str = "cpu") -> Call:
    import torch

    (x, w), options = data.tensors(place), job.options
    return lambda: torch.nn.functional.conv2d(x, w, **options)


def _torch_followed(job: Any, data: Data, place: str = "cpu") -> Call:
    """A convolution, and what follows it in place."""
    import torch

    x, w, bias, *summand = data.tensors(place)
    bias, options = bias.reshape(-1), job.options
    conv2d, clip = torch.nn.functional.conv2d, ACTIVATIONS[job.layer.activation]
    clips = bool(job.layer.activation)

    def run() -> Any:
        y = conv2d(x, w, bias, **options)
        for more in summand:
            y += more
        return y.clamp_(*clip) if clips else y

    return run


def _torch_gradient(job: Any, data: Data, place: str = "cpu") -> Call:
    """The gradient by input or weight alone."""
    import torch

    formats = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
    by_input = job.direction == "input"
    one, grad = data.tensors(place)
    shape = job.input_shape if by_input else job.weight_shape
    like = torch.empty(shape, device=place, memory_format=formats[job.memory_format])
    x, w = (like, one) if by_input else (one, like)
    padding, stride, dilation, groups = _sizes(job.layer)
    wanted = 0 if by_input else 1
    told = [None, stride, padding, dilation, False, [0, 0], groups, [by_input, not by_input, False]]
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(grad, x, w, *told)[wanted]


def _torch_block(job: Any, data: Data) -> Call:
    """Convolutions, and what follows them in place."""
    import torch

    x, *rest = job.operands(data.torch)
    steps = [
        (w, b, layer.stride, layer.padding, 1, layer.groups) for layer, w, b in job.steps(rest)
    ]
    conv2d, last = torch.nn.functional.conv2d, len(steps) - 1

    def run() -> Any:
        y = x
        for n, step in enumerate(steps):
            y = conv2d(y, *step)
            if n < last:
                y.clamp_(0, 6)
        if job.adds:
            y += x
        return y

    return run


# --- oneDNN with the weight in the order it likes, channels-last: it reorders nothing ------------


def _reordered(layer: Any, w: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """Return weight and sizes as `_convolution_pointwise` takes them, without the bias."""
    import torch

    sizes = _sizes(layer)
    return torch.ops.mkldnn._reorder_convolution_weight(w, *sizes, list(shape)), *sizes


def _packed_forward(job: Any, data: Data) -> Call | None:
    """What PyTorch's compiler calls; it has channels-last results only."""
    if job.memory_format != "channels_last":
        return None
    import torch

    x, w = data.torch
    w, *sizes = _reordered(job.layer, w, x.shape)
    run = torch.ops.mkldnn._convolution_pointwise
    return lambda: run(x, w, None, *sizes, "none", [], "")


def _packed_followed(job: Any, data: Data) -> Call | None:
    """One call, with all that follows."""
    if job.memory_format != "channels_last":
        return None
    import torch

    x, w, bias, *summand = data.torch
    w, *sizes = _reordered(job.layer, w, x.shape)
    run = torch.ops.mkldnn._convolution_pointwise
    bias, (name, numbers) = bias.reshape(-1), _POST[job.layer.activation]
    if summand:
        last = (None, [], "") if name == "none" else (name, numbers, "")
        return lambda: run.binary(x, summand[0], w, bias, *sizes, "add", 1.0, *last)
    return lambda: run(x, w, bias, *sizes, name, numbers, "")


def _packed_block(job: Any, data: Data) -> Call | None:
    """One call a convolution, each with all that follows it."""
    if job.memory_format != "channels_last":
        return None
    import torch

    x, *rest = job.operands(data.torch)
    run, steps = torch.ops.mkldnn._convolution_pointwise, []
    for layer, w, b in job.steps(rest):
        shape = [job.batch, layer.channels, layer.size, layer.size]
        packed, *sizes = _reordered(layer, w, shape)
        steps.append((packed, b, *sizes))

    def call() -> Any:
        y = x
        for step in steps[:-1]:
            y = run(y, *step, "hardtanh", [0.0, 6.0], "")
        if job.adds:
            return run.binary(y, x, *steps[-1], "add", 1.0, None, [], "")
        return run(y, *steps[-1], "none", [], "")

    return call


def _on_gpu(make: Callable[..., Call]) -> Callable[[Any, Data], Call]:
    """A call of PyTorch's on the GPU, in full single precision, with the fastest algorithms."""

    def prepare(job: Any, data: Data) -> Call:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        return marked(make(job, data, "cuda"), finish=torch.cuda.synchronize)

    return prepare


#: By what is computed: makers of calls by contender, of a job and its data.
CONTENDERS: dict[str, dict[str, Callable[..., Call | None]]] = {
    "gemm": {
        "clprim": gemm,
        "cuDNN": _on_gpu(_torch_gemm),
        "MKL": _torch_gemm,
        "CLBlast": clblast.gemm,
        "tinygrad": tiny_grad.gemm,
        "onnxruntime": onnx_runtime.gemm,
    },
    "conv_forward": {
        "clprim": conv_forward,
        "cuDNN": _on_gpu(_torch_forward),
        "oneDNN prepacked": _packed_forward,
        "oneDNN": _torch_forward,
        "clprim, unpacked": partial(conv_forward, packs=False),
        "CLBlast": clblast.conv_forward,
        "tinygrad": tiny_grad.conv_forward,
        "onnxruntime": onnx_runtime.conv_forward,
    },
    "conv_followed": {
        "clprim": conv_followed,
        "cuDNN": _on_gpu(_torch_followed),
        "oneDNN prepacked": _packed_followed,
        "oneDNN": _torch_followed,
        "onnxruntime": onnx_runtime.conv_followed,
    },
    "conv_input": {
        "clprim": conv_input,
        "cuDNN": _on_gpu(_torch_gradient),
        "oneDNN": _torch_gradient,
    },
    "conv_weight": {
        "clprim": conv_weight,
        "cuDNN": _on_gpu(_torch_gradient),
        "oneDNN": _torch_gradient,
    },
    "block": {
        "clprim": block,
        "oneDNN prepacked": _packed_block,
        "oneDNN": _torch_block,
        "clprim, separate": partial(block, algorithm="separate"),
    },
}
