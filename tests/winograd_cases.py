"""Winograd's convolutions where nothing is rounded, and which kernels a call runs."""

import conv_reference as reference
import numpy as np
from conv_cases import upload
from support import Guard, near_infinity, numbers, same_bits, wide

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


def check_store(memory_format, stride=1):
    """A bias, a string with an operand, and what was there."""
    x, w = numbers((2, 20, 6, 17)), 4 * numbers((24, 20, 3, 3), seed=1)
    bias = numbers((24,), seed=2)
    sums = reference.conv2d(x, w, bias, padding=1, stride=stride)
    other, old = numbers(sums.shape, seed=3), numbers(sums.shape, seed=4)
    out = upload(old, memory_format)
    with cp.options(convolution_error=EXACT):
        found = run(
            upload(x, memory_format),
            ops.pack_weight(upload(w)),
            upload(bias),
            padding=1,
            stride=stride,
            epilogue="y0 = max(y0 + x0, 0);",
            epilogue_args=(upload(other, memory_format),),
            out=out,
            beta=2,
        )
    assert found is out
    np.testing.assert_array_equal(out.get(), np.maximum(sums + other, 0) + 2 * old)


def check_pixels(memory_format, mode, stride=1):
    """Outputs that become pixels have the bits of a kernel of its own."""
    rng = np.random.default_rng(5)
    x = upload(rng.standard_normal((1, 20, 9, 14)).astype(np.float32), memory_format)
    w = upload(rng.standard_normal((36, 20, 3, 3)).astype(np.float32))
    bias = upload(rng.standard_normal(36).astype(np.float32))
    options = {"padding": 1, "stride": stride}
    plain = ops.depth_to_space(run(x, w, bias, **options), 3, mode)
    assert same_bits(run(x, w, bias, **options, depth_to_space=3, mode=mode), plain)


def check_views(memory_format, channels):
    """Some channels of a part of pictures, and results of other formats."""
    x, w = numbers((2, 20, 12, 40)), 4 * numbers((24, 20, 3, 3), seed=1)
    view = (slice(None), channels, slice(None, None, -1), slice(3, 30))
    count = x[view].shape[1]
    a, b = upload(x, memory_format)[view], upload(w)[:, :count]
    expected = reference.conv2d(x[view], w[:, :count], padding=1)
    planes, images = Guard((2, 24, 12, 27)), Guard((2, 12, 27, 24))
    strided = Guard((2, 24, 12, 27), step=2)
    with cp.options(convolution_error=EXACT):
        run(a, b, padding=1, out=planes.array)
        run(a, b, padding=1, out=images.array.transpose(0, 3, 1, 2))
        run(a, b, padding=1, out=strided.array)
    planes.check(expected)
    images.check(expected.transpose(0, 2, 3, 1))
    strided.check(expected)


def check_gradients(memory_format):
    """Gradients of the input, and transposed convolutions."""
    grad, w = numbers((2, 20, 8, 17)), 4 * numbers((20, 24, 3, 3), seed=1)
    expected = reference.conv2d_input((2, 24, 8, 17), w, grad, padding=1)
    g, packed = upload(grad, memory_format), ops.pack_weight(upload(w))
    with cp.options(convolution_error=EXACT):
        found = ops.conv2d_input((2, 24, 8, 17), packed, g, padding=1, algorithm="winograd")
        same = ops.conv_transpose2d(g, packed, padding=1, algorithm="winograd")
    np.testing.assert_array_equal(found.get(), expected)
    np.testing.assert_array_equal(same.get(), expected)


def check_bits(memory_format):
    """They repeat, and do not depend on the place in the batch."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 32, 11, 13)).astype(np.float32)
    w = upload(rng.standard_normal((32, 32, 3, 3)).astype(np.float32))
    batch = upload(np.repeat(x, 5, axis=0), memory_format)
    first = run(batch, w, padding=1).get()
    assert (first == first[:1]).all()
    assert (run(batch, w, padding=1).get() == first).all()
