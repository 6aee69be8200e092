"""Windows unfolded and put back, sampling at coordinates, channels shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import full
from clprim.torch.agreeing import agrees
from clprim.torch.copying import duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel


@kernel("unfold_backward")
def _unfold_backward(
    grad: Array, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> Any:
    shape = tuple(input_sizes)
    if not shape:
        return grad.reshape(())
    dim %= len(shape)
    zeros = full(shape, 0, grad.dtype)
    if not grad.size:
        return zeros
    # Element j of window i came from i * step + j.
    windows = grad.shape[dim]
    order = [d for d in range(grad.ndim - 1) if d <= dim] + [grad.ndim - 1]
    order += [d for d in range(grad.ndim - 1) if d > dim]
    moved = duplicate(grad.transpose(*order), "contiguous")
    moved = moved.reshape((*shape[:dim], windows * size, *shape[dim + 1 :]))
    expr = "(typeof_y0)(index / {a} * {b} + index % {a})"
    index = apply(expr, size, step, kind=torch.int64, shape=(windows * size,))
    return ops.index_add(zeros, dim, index, moved)


@kernel("unfold_copy")
def _unfold_copy(x: Array, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        return duplicate(x.reshape(1), "contiguous")[:size]
    dim %= x.ndim
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return duplicate(view_of(x, shape, strides, x.offset), "contiguous")


def _unpool(x: Array, indices: Array, output_size: Sequence[int]) -> Any:
    rank = len(output_size)
    planes = x.shape[: x.ndim - rank]
    shape = (*planes, *output_size)
    count, area = int(np.prod(planes)), int(np.prod(output_size))
    if indices.shape != x.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({x.shape}) but got "
            f"indices tensor with shape: {indices.shape}"
        )
    if not x.size:
        return full(shape, 0, x.dtype)
    lines = duplicate(x, "contiguous").reshape((count, -1))
    places = duplicate(indices, "contiguous").reshape((count, -1))
    low, high = int(ops.amin(places).get()), int(ops.amax(places).get())
    if low < 0 or high >= area:
        raise RuntimeError(
            f"Found an invalid max index: {high if high >= area else low} (output volumes are of "
            f"size {'x'.join(map(str, output_size))}"
        )
    return ops.scatter(full((count, area), 0, x.dtype), 1, places, lines).reshape(shape)


@kernel("max_unpool2d")
def _unpool2d(x: Array, indices: Array, output_size: Sequence[int]) -> Any:
    if indices.dtype != np.dtype(np.int64) or len(output_size) != 2 or x.ndim not in (3, 4):
        raise RuntimeError(
            "max_unpool2d: expected images, indices of int64 and an output size of two numbers"
        )
    return _unpool(x, indices, output_size)


@kernel("max_unpool3d")
def _unpool3d(x: Array, indices: Array, output_size: Any, stride: Any, padding: Any) -> Any:
    if indices.dtype != np.dtype(np.int64) or len(output_size) != 3 or x.ndim not in (4, 5):
        raise RuntimeError(
            "max_unpool3d: expected volumes, indices of int64 and an output size of three numbers"
        )
    if len(stride) != 3 or len(padding) != 3 or min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    return _unpool(x, indices, output_size)


for _n in (2, 3):
    agrees(f"grid_sampler_{_n}d", ops.grid_sample)
    agrees(f"grid_sampler_{_n}d_backward", ops.grid_sample_backward, without="output_mask")


@kernel("channel_shuffle", lies=contiguous)
def _channel_shuffle(x: Array, groups: int) -> Any:
    if x.ndim < 3 or groups <= 0 or x.shape[1] % groups:
        raise RuntimeError(
            f"channel_shuffle: expected channels that divide into {groups} groups, got {x.shape}"
        )
    return ops.channel_shuffle(x, groups)
