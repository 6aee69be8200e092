"""Winograd's convolutions where nothing is rounded, and which kernels a call runs."""

import conv_reference as reference
import numpy as np
from conv_cases import upload
from support import near_infinity, numbers, wide

import clprim as cp
from clprim import ops

# With F(2 × 2, 3 × 3) and weights that are multiples of 4 nothing is rounded; this error admits no
# larger tile.
EXACT = 6e-7


def run(x, w, bias=None, **options):
    return ops.conv2d(x, w, bias, **options, algorithm="winograd")


def kernels_of(call):
    with cp.profile() as profile:
        call()
        cp.synchronize()
    return {event.name for event in profile.events}


def check_exact(x_shape, w_shape, memory_format="contiguous", dtype=np.float32, **options):
    x, w, bias = numbers(x_shape), 4 * numbers(w_shape, seed=1), numbers(w_shape[:1], seed=2)
    expected = reference.conv2d(x, w, bias, **options)
    huge = [] if dtype is np.float16 else [near_infinity(dtype)]
    for up, down in [(1, 1), *huge]:
        terms = (x.astype(dtype) * up, w.astype(dtype) * down, bias.astype(dtype) * (up * down))
        with cp.options(convolution_error=EXACT):
            a, *others = (array.astype(dtype) for array in terms)
            found = run(upload(a, memory_format), *map(upload, others), **options)
        assert found.strides == cp.empty(found.shape, dtype, memory_format=memory_format).strides
        np.testing.assert_array_equal(wide(found.get()), wide(expected.astype(dtype)) * (up * down))
