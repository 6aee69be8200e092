"""Device arrays that lie in memory in odd ways, amid values that must not be read."""

from __future__ import annotations

import numpy as np

import clprim as cp
from clprim.arrays.array import view_of


def _amid(shape, dtype):
    """What surrounds a view: NaN, which spreads also where it is multiplied by 0."""
    fill = 99 if np.dtype(dtype).kind in "biu" else np.nan
    return np.full(shape, fill, dtype)


def _sliced(host, index_of, grow):
    """A view of a larger array, made of NaN elsewhere."""
    around = _amid([grow(size) for size in host.shape], host.dtype)
    index = tuple(index_of(size) for size in host.shape)
    around[index] = host
    return host, cp.asarray(around)[index]


def _backwards(*axes):
    def place(host):
        index = [slice(None)] * host.ndim
        for axis in axes:
            index[axis] = slice(None, None, -1)
        return host, cp.asarray(np.ascontiguousarray(host[tuple(index)]))[tuple(index)]

    return place


def _permuted(move):
    def place(host):
        order = move(host.ndim)
        turned = cp.asarray(np.ascontiguousarray(host.transpose(order)))
        return host, turned.transpose(*np.argsort(order).tolist())

    return place


def _repeated(axis):
    def place(host):
        one = np.take(host, [0] if host.shape[axis] else [], axis=axis)
        return np.broadcast_to(one, host.shape), broadcast_to(cp.asarray(one), host.shape)

    return place


# Each makes of a host array (host array, device array): with another content where it repeats.
PLACES = {
    "offset": lambda a: _sliced(a, lambda s: slice(2, 2 + s), lambda s: s + 3),
    "every second": lambda a: _sliced(a, lambda s: slice(1, 1 + 2 * s, 2), lambda s: 2 * s + 1),
    "last axis backwards": _backwards(-1),
    "last two axes backwards": _backwards(-2, -1),
    "first axis backwards": _backwards(0),
    "last two axes swapped": _permuted(lambda n: [*range(n - 2), n - 1, n - 2]),
    "axes rotated": _permuted(lambda n: [*range(1, n), 0]),
    "first axis repeated": _repeated(0),
    "last axis repeated": _repeated(-1),
    "last axis but one repeated": _repeated(-2),
}


def broadcast_to(x, shape):
    """A view of a device array with strides of 0, as `numpy.broadcast_to` makes one."""
    missing = len(shape) - x.ndim
    strides = (0,) * missing + tuple(
        0 if size == 1 else stride for size, stride in zip(x.shape, x.strides, strict=True)
    )
    return view_of(x, tuple(shape), strides, x.offset)


def has_format(array, memory_format):
    """Whether an array lies in memory as a new one of this memory format does."""
    fresh = cp.empty(array.shape, array.dtype, memory_format=memory_format)
    return array.strides == fresh.strides
