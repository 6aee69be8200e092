"""Convolutions in NumPy, one tap of the kernel after the other, and how far from them is right.

The direct sum over taps is slow and has no cases: stride, dilation, padding and groups are each one
index expression. Whole numbers below 2^53 come out exact, so the adjoints are checked by equality.
"""

from __future__ import annotations

import itertools

import numpy as np


def both(value):
    """An argument of both dimensions as a pair."""
    return (value, value) if isinstance(value, int) else tuple(value)


def four(padding):
    """``padding`` as (top, bottom, left, right)."""
    if not isinstance(padding, int) and len(padding) == 4:
        return tuple(padding)
    vertical, horizontal = both(padding)
    return (vertical, vertical, horizontal, horizontal)


def out_size(size, kernel, stride, dilation, before, after):
    """Positions of a kernel along one dimension."""
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


def out_shape(x_shape, w_shape, stride=1, padding=0, dilation=1):
    """Shape of the convolution of (N, C, H, W) with (K, C / groups, R, S)."""
    top, bottom, left, right = four(padding)
    s, d = both(stride), both(dilation)
    height = out_size(x_shape[2], w_shape[2], s[0], d[0], top, bottom)
    width = out_size(x_shape[3], w_shape[3], s[1], d[1], left, right)
    return (x_shape[0], w_shape[0], height, width)


def _taps(y_shape, w_shape, stride, dilation):
    """Every tap of the kernel, with the slices of the padded input that it meets, (…, P, Q)."""
    (sh, sw), (dh, dw) = both(stride), both(dilation)
    height, width = y_shape[2:]
    for r, s in itertools.product(range(w_shape[2]), range(w_shape[3])):
        rows = slice(r * dh, r * dh + (height - 1) * sh + 1, sh)
        columns = slice(s * dw, s * dw + (width - 1) * sw + 1, sw)
        yield r, s, (Ellipsis, rows, columns)


def _padded(x, padding):
    top, bottom, left, right = four(padding)
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))


def _grouped(array, axis, groups):
    """Splits an axis of channels in (groups, channels of a group)."""
    shape = array.shape
    return array.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _mix(weights, images):
    """Products of (groups, K, C) with (N, groups, C, P, Q) along the channels."""
    n, groups, _, height, width = images.shape
    flat = weights @ images.reshape(*images.shape[:3], height * width)
    return flat.reshape(n, groups, weights.shape[1], height, width)


def _joined(images):
    """(N, groups, C, P, Q) as (groups, C, N P Q)."""
    _, groups, channels, _, _ = images.shape
    return images.transpose(1, 2, 0, 3, 4).reshape(groups, channels, -1)


def conv2d(x, w, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    """The cross-correlation of (N, C, H, W) with (K, C / groups, R, S), exact for whole numbers."""
    x, w = np.float64(x), np.float64(w)
    shape = out_shape(x.shape, w.shape, stride, padding, dilation)
    y = _grouped(np.zeros(shape), 1, groups)
    inputs = _grouped(_padded(x, padding), 1, groups)
    weights = _grouped(w, 0, groups)
    for r, s, met in _taps(shape, w.shape, stride, dilation):
        y += _mix(weights[..., r, s], inputs[met])
    y = y.reshape(shape)
    return y if bias is None else y + np.float64(bias)[:, None, None]


def conv2d_input(x_shape, w, grad, *, stride=1, padding=0, dilation=1, groups=1):
    """The adjoint of `conv2d` in its first argument: what flows back to the input."""
    w, grad = np.float64(w), np.float64(grad)
    top, _, left, _ = four(padding)
    whole = _padded(np.zeros(x_shape), padding)
    split = _grouped(whole, 1, groups)
    weights, gradients = _grouped(w, 0, groups), _grouped(grad, 1, groups)
    for r, s, met in _taps(grad.shape, w.shape, stride, dilation):
        split[met] += _mix(weights[..., r, s].swapaxes(1, 2), gradients)
    return whole[:, :, top : top + x_shape[2], left : left + x_shape[3]]


def conv2d_weight(x, w_shape, grad, *, stride=1, padding=0, dilation=1, groups=1):
    """The adjoint of `conv2d` in its second argument: the gradient of the weights."""
    x, grad = np.float64(x), np.float64(grad)
    w = np.zeros(w_shape)
    split = _grouped(w, 0, groups)
    inputs, gradients = _grouped(_padded(x, padding), 1, groups), _grouped(grad, 1, groups)
    for r, s, met in _taps(grad.shape, w_shape, stride, dilation):
        split[..., r, s] = _joined(gradients) @ _joined(inputs[met]).swapaxes(1, 2)
    return w


def conv_transpose2d(
    x, w, bias=None, *, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """Every element of (N, C, H, W) adds its multiple of (C, K / groups, R, S) to the result."""
    shape = transposed_shape(x.shape, w.shape, stride, padding, output_padding, groups, dilation)
    y = conv2d_input(shape, w, x, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return y if bias is None else y + np.float64(bias)[:, None, None]


def transposed_shape(x_shape, w_shape, stride, padding, output_padding, groups, dilation):
    """Shape of a transposed convolution, as PyTorch's documentation gives it."""
    top, bottom, left, right = four(padding)
    height, width = (
        (size - 1) * s - before - after + d * (kernel - 1) + extra + 1
        for size, s, d, kernel, extra, before, after in zip(
            x_shape[2:],
            both(stride),
            both(dilation),
            w_shape[2:],
            both(output_padding),
            (top, left),
            (bottom, right),
            strict=True,
        )
    )
    return (x_shape[0], w_shape[1] * groups, height, width)


# --- tolerances -----------------------------------------------------------------------------------

UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
# The least normal number: below it a unit in the last place no longer shrinks.
SMALLEST = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


def check_close(result, expected, magnitude, terms, dtype=None):
    """Checks sums of ``terms`` products to what their dtype and length allow.

    `|Σ̂ − Σ| ≤ γₙ Σ|x||w|` with `γₙ = n u / (1 − n u)`, whatever the order of the sum (Higham, 3.5),
    where u is float32's, also for sums over float16; and half a unit of the result's own dtype
    when it is stored.

    Args:
        result: A device array.
        expected: In float64.
        magnitude: Σ|x||w|, of ``expected``'s shape.
        terms: Length of every sum.
        dtype: That the result must have; its own is taken if left out.
    """
    found = result.get()
    assert found.shape == expected.shape
    assert dtype is None or found.dtype == dtype
    name = found.dtype.name
    unit = UNITS["float64" if name == "float64" else "float32"]
    gamma = (terms + 2) * unit / (1 - (terms + 2) * unit)
    computed = gamma * magnitude
    stored = UNITS[name] * np.maximum(np.abs(expected) + computed, SMALLEST[name])
    error = np.abs(found.astype(np.float64) - expected)
    assert np.isfinite(found.astype(np.float64)).all()
    worst = np.argmax(error - computed - stored) if error.size else 0
    assert (error <= computed + stored).all(), (
        f"off by {error.flat[worst]:.3g}, allowed {(computed + stored).flat[worst]:.3g} "
        f"at {np.unravel_index(worst, error.shape)}"
    )
