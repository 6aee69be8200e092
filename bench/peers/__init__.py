"""Other libraries, measured beside clprim: what each needs, and calls."""

from __future__ import annotations

import importlib.util
from functools import cache

from bench.peers import clblast, tiny_grad

# By contender: packages it needs, and what it calls.
_PEERS: dict[str, tuple[str, str]] = {
    "NumPy": ("", "on one thread"),
    "SciPy": ("scipy", "`cdist`; `scipy.fft` on all cores"),
    "KeOps": ("pykeops torch", "`LazyTensor`"),
    "PyOpenCL": ("mako", "`ElementwiseKernel` and `ReductionKernel`, on the same device"),
    "cl.array": ("mako", "operators and `sum` of `pyopencl.array`, on the same device"),
    "PyTorch": ("torch", "on all cores of the CPU; of gradients `torch.autograd.grad`, kept graph"),
    "MKL": ("torch", "`torch.mm` with `out=`, on the CPU"),
    "oneDNN": ("torch", "PyTorch's own calls on the CPU, which reorder in each"),
    "oneDNN prepacked": (
        "torch",
        "PyTorch's `mkldnn._convolution_pointwise` with all that follows, channels-last on the "
        "CPU, weights in oneDNN's own order",
    ),
    "cuDNN": ("torch", "PyTorch without TF32 on the first GPU of CUDA, and cuBLAS"),
    "CLBlast": ("", "`CLBlastSgemm` and `CLBlastSconvgemm`, on the same device"),
    "tinygrad": ("tinygrad", "a `TinyJit` on the same device, without its search (BEAM)"),
    "onnxruntime": (
        "onnxruntime onnx",
        "a model on the CPU, inputs and outputs bound; layers with what follows in its own "
        "blocked layout",
    ),
    "ONNX Runtime": ("onnxruntime onnx", "`MatMulNBits`, sums of floats"),
    "ONNX Runtime, integers": ("onnxruntime onnx", "`MatMulNBits`, rows rounded to 8 bits"),
    "PyTorch, float32": ("torch", "`linear` of the weight as floats"),
    "openvino": ("openvino onnx", "the exported model in f32 for latency, one stream"),
    "inductor": ("torch", "`torch.compile`; of inference with frozen weights"),
}


@cache
def missing(name: str) -> str:
    """Return why a contender is not here; nothing where it is."""
    packages, _ = _PEERS.get(name, ("", ""))
    absent = [p for p in packages.split() if importlib.util.find_spec(p) is None]
    if absent:
        return f"{' and '.join(absent)} not installed"
    if name == "CLBlast" and clblast.library() is None:
        return "libclblast not installed"
    if name == "tinygrad":
        return tiny_grad.refusal()
    if name == "cuDNN":
        import torch

        return "" if torch.cuda.is_available() else "PyTorch finds no GPU here"
    return ""


def remark(name: str) -> str:
    """Return what a contender calls, for the notes; nothing of ours."""
    return _PEERS.get(name, ("", ""))[1]
