"""Pages of bandwidth: element by element, and sums along axes."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

import clprim as cp
from bench.case import (
    Call,
    Case,
    Data,
    Host,
    Make,
    Options,
    Page,
    Shape,
    elements,
    into,
    marked,
    times,
    whole,
)

MI = 1 << 20
_W = 2.0  # w0, wherever there is one
_ONE = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
_TWO = {"init": "reduce_y0 = 0; reduce_y1 = 0;", "step": "reduce_y0 += y0; reduce_y1 += y1;"}


def _plain(array: cp.Array) -> Any:
    """Return the same memory as an array of PyOpenCL's own class, with its own operators."""
    import pyopencl.array as cl_array

    return cl_array.Array(
        array.queue, array.shape, array.dtype, allocator=array.allocator, data=array.base_data
    )


# --- y0 = x0 * w0 + x1 ---------------------------------------------------------------------------


def axpb() -> Any:
    return cp.Pointwise("y0 = x0 * w0 + x1;", name="axpb")


def axpb_numpy(data: Data) -> Call:
    """Two passes, the second one in place."""
    x, b = data.host
    y = np.zeros(x.shape, np.float32)

    def call() -> Host:
        np.multiply(x, np.float32(_W), out=y)
        return np.add(y, b, out=y)

    return call


def axpb_torch(data: Data) -> Call:
    import torch

    x, b = data.torch
    y = torch.zeros(x.shape)
    return lambda: torch.add(b, x, alpha=_W, out=y)


def axpb_pyopencl(data: Data) -> Call:
    """One pass; it does not broadcast, but a single element can be indexed."""
    from pyopencl.elementwise import ElementwiseKernel

    x, b = map(_plain, data.device)
    z, where = x._new_like_me(), "0" if b.size == 1 else "i"
    arguments = "float *z, const float *x, const float *b, float w"
    kernel = ElementwiseKernel(x.context, arguments, f"z[i] = x[i] * w + b[{where}]")

    def call() -> Any:
        kernel(z, x, b, np.float32(_W))
        return z

    return call


def axpb_arrays(data: Data) -> Call | None:
    """Two passes, with memory from clprim's pool; it broadcasts numbers only."""
    x, b = map(_plain, data.device)
    scalar = np.float32(_W)
    return (lambda: x * scalar + b) if x.shape == b.shape else None


AXPB: dict[str, Make] = {
    "NumPy": axpb_numpy, "PyTorch": axpb_torch, "PyOpenCL": axpb_pyopencl, "cl.array": axpb_arrays,
}  # fmt: skip


def pointwise_cases(args: Options) -> list[Case]:
    n = 64 << 10 if args.quick else 64 * MI
    size = f"{n >> 10} Ki" if args.quick else f"{n // MI} Mi"
    found = []
    for title, count in (("x1: 1 float", 1), (f"x1: {size} floats", n)):
        nbytes = 4 * (2 * n + count)
        found.append(
            Case(f"y0 = x0*w0 + x1, {size} floats", title, nbytes,
                 lambda count=count: Data(whole((n,)), whole((count,), seed=1)),
                 {"clprim": lambda data: into(axpb(), *data.device, _W), **AXPB},
                 limit="copy", nbytes=nbytes)
        )  # fmt: skip
    return found


# --- sums ----------------------------------------------------------------------------------------


def _sum_torch(axes: tuple[int, ...], data: Data) -> Call:
    (x,) = data.torch
    return lambda: x.sum(dim=axes)


def _sum_pyopencl(data: Data) -> Call:
    from pyopencl.reduction import ReductionKernel

    x = _plain(data.device[0]).reshape(-1)
    kernel = ReductionKernel(
        x.context, np.float32, neutral="0", reduce_expr="a + b", map_expr="x[i]",
        arguments="const float *x",
    )  # fmt: skip
    return lambda: kernel(x)


def _sum_arrays(data: Data) -> Call:
    import pyopencl.array as cl_array

    x = _plain(data.device[0]).reshape(-1)
    return lambda: cl_array.sum(x)


def _sum(shape: Shape, axes: tuple[int, ...], group: str) -> Case:
    written = elements(shape) // elements([shape[axis] for axis in axes])
    makers: dict[str, Make] = {
        "clprim": lambda data: into(cp.Reduction("y0 = x0;", **_ONE), *data.device, axis=axes),
        "NumPy": lambda data: lambda: data.host[0].sum(axis=axes),
        "PyTorch": partial(_sum_torch, axes),
    }
    if written == 1:  # these have no axes
        makers |= {"PyOpenCL": _sum_pyopencl, "cl.array": _sum_arrays}
    # Summing along an axis of length 1 writes as much as it reads: that is a copy.
    limit = "copy" if all(shape[axis] == 1 for axis in axes) else "read"
    nbytes = 4 * (elements(shape) + written)
    axis = f"axis {axes[0] if len(axes) == 1 else axes}"
    return Case(group, f"{times(*shape)}, {axis}", nbytes, lambda: Data(whole(shape)), makers,
                limit=limit, nbytes=nbytes)  # fmt: skip


def _whole(shape: Shape, memory_format: str = "") -> Data:
    return Data(whole(shape, memory_format))


def _moments(shape: Shape, memory_format: str) -> Case:
    axes, nbytes = (0, 2, 3), 4 * (elements(shape) + 2 * shape[1])

    def numpy(data: Data) -> Call:
        (x,) = data.host
        return lambda: (x.sum(axis=axes), (x * x).sum(axis=axes))

    def torch(data: Data) -> Call:
        """Mean and variance instead: what the sums are wanted for."""
        import torch

        return marked(partial(torch.var_mean, *data.torch, dim=axes), differs=True)

    operator = cp.Reduction("y0 = x0; y1 = x0 * x0;", **_TWO)
    makers: dict[str, Make] = {
        "clprim": lambda data: into(operator, *data.device, axis=axes),
        "NumPy": numpy,
        "PyTorch": torch,
    }
    data = partial(_whole, shape, memory_format)
    group = f"Σx, Σx² over {axes} of {shape}"
    return Case(group, memory_format, nbytes, data, makers, limit="read", nbytes=nbytes)


def reduce_cases(args: Options) -> list[Case]:
    quick = args.quick
    moments, shape = (2, 4, 14, 14) if quick else (32, 64, 112, 112), (64, 128, 56, 56)
    shape = (4, 8, 7, 7) if quick else shape
    found = [_moments(moments, f) for f in ("contiguous", "channels_last")]
    pairs = (*combinations(range(4), 1), *combinations(range(4), 2))
    found += [_sum(shape, reduced, f"Σx of {shape}") for reduced in pairs]
    n = 64 << 10 if quick else 16 * MI
    size = f"{n >> 10} Ki" if quick else f"{n // MI} Mi"
    for pair in ((1, n), (n, 1)):
        found += [_sum(pair, (axis,), f"Σx of 1×{size} and {size}×1") for axis in (0, 1)]
    group = "Σx at sizes 2ⁿ±1"
    for power in (10,) if quick else (16, 20, 24, 26):
        found += [_sum(((1 << power) + d,), (0,), group) for d in (-1, 1)]
    planes = ((4095, 4097), (4097, 4095), (63, (1 << 19) + 1), ((1 << 19) - 1, 65))
    for plane in ((31, 65),) if quick else planes:
        found += [_sum(plane, (axis,), group) for axis in (0, 1)]
    return found


_SHARE = (
    "`share`: of the best kernel that copies or only reads as many bytes, by the device's clock. "
    "GB/s counts every input and every result once. PyTorch's call beside Σx, Σx² is "
    "`torch.var_mean`: what they are wanted for."
)
PAGES = {
    "pointwise": Page(
        "Pointwise: bandwidth next to a copy", "GB/s", pointwise_cases, (), _SHARE, keep=False
    ),
    "reduce": Page(
        "Reductions: bandwidth next to a read-only kernel", "GB/s", reduce_cases, (), _SHARE,
        keep=False,
    ),
}  # fmt: skip
