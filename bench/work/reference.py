"""Matrix products and convolutions in NumPy, one matrix product a position of the kernel.

They take small whole numbers, whose sums float32 holds exactly in any order; so whoever computes
the same must arrive at the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clprim.tune.networks import ACTIVATIONS, Layer

Array = np.ndarray[Any, np.dtype[np.float32]]


def gemm(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the product of two matrices, each taken as it is or transposed."""
    return (a.T if transpose_a else a) @ (b.T if transpose_b else b)


def conv_forward(x: Array, w: Array, layer: Layer) -> Array:
    """Return the result of a layer: x ``(N, C, H, W)``, w ``(F, C/groups, K, K)``."""
    y = np.zeros((len(x), layer.filters, layer.result_size, layer.result_size), np.float32)
    x = _padded(x, layer)
    for channels, filters in _groups(layer):
        for here, window in _windows(layer):
            taken = x[:, channels][(..., *window)]
            product = np.tensordot(w[filters][(..., *here)], taken, axes=(1, 1))
            y[:, filters] += product.transpose(1, 0, 2, 3)
    return y


def conv_followed(x: Array, w: Array, bias: Array, *summand: Array, layer: Layer) -> Array:
    """Return the result of a layer with its bias, a summand and what follows."""
    y = conv_forward(x, w, layer) + bias
    for more in summand:
        y += more
    _, least, greatest = ACTIVATIONS[layer.activation]
    return np.clip(y, np.float32(least), np.float32(greatest))


def conv_input(w: Array, grad: Array, layer: Layer) -> Array:
    """Return the gradient of a layer by its input, from that by its result."""
    shape = (len(grad), layer.channels, layer.size, layer.size)
    dx = _padded(np.zeros(shape, np.float32), layer)
    for channels, filters in _groups(layer):
        for here, window in _windows(layer):
            product = np.tensordot(w[filters][(..., *here)], grad[:, filters], axes=(0, 1))
            dx[:, channels][(..., *window)] += product.transpose(1, 0, 2, 3)
    inner = slice(layer.padding, layer.padding + layer.size)
    return dx[:, :, inner, inner]


def conv_weight(x: Array, grad: Array, layer: Layer) -> Array:
    """Return the gradient of a layer by its weight, from that by its result."""
    shape = (layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel)
    dw = np.zeros(shape, np.float32)
    x = _padded(x, layer)
    for channels, filters in _groups(layer):
        for here, window in _windows(layer):
            taken = x[:, channels][(..., *window)]
            images = (0, 2, 3)
            dw[filters][(..., *here)] = np.tensordot(grad[:, filters], taken, axes=(images, images))
    return dw


def _padded(x: Array, layer: Layer) -> Array:
    edge = (layer.padding, layer.padding)
    return np.pad(x, ((0, 0), (0, 0), edge, edge))


def _groups(layer: Layer) -> Iterator[tuple[slice, slice]]:
    """Yield every group's channels and filters."""
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
    for group in range(layer.groups):
        yield (
            slice(group * channels, (group + 1) * channels),
            slice(group * filters, (group + 1) * filters),
        )


def _windows(layer: Layer) -> Iterator[tuple[tuple[int, int], tuple[slice, slice]]]:
    """Yield every position in the kernel and what of the padded input it meets."""
    reach, step = layer.stride * (layer.result_size - 1) + 1, layer.dilation
    for row in range(layer.kernel):
        for column in range(layer.kernel):
            yield (
                (row, column),
                (
                    slice(row * step, row * step + reach, layer.stride),
                    slice(column * step, column * step + reach, layer.stride),
                ),
            )
