"""Where operands and results of `ops.conv2d` may lie: strides, `out=`, `beta=`, packed weights."""

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, algorithms, upload
from conv_reference import check_close
from odd_memory import PLACES, has_format
from support import BFLOAT16, Guard, equal, numbers, same_bits

import clprim as cp
from clprim import ops

HALVES = [np.dtype(np.float16), BFLOAT16]


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_result_has_the_memory_format_of_the_input(device, memory_format):
    x, w = numbers((2, 5, 9, 8)), numbers((6, 5, 3, 3), seed=1)
    for weight_format in FORMATS:
        found = ops.conv2d(upload(x, memory_format), upload(w, weight_format))
        assert has_format(found, memory_format)
        equal(found, reference.conv2d(x, w))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)], ids=str)
def test_any_strides_of_the_input(device, some, place, kernel):
    w = numbers((18, 7, *kernel), seed=1)
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)):  # as NCHW, and as NHWC
        host = numbers((2, 7, 9, 21)).transpose(order)
        placed, x = PLACES[place](host)
        back = np.argsort(order)
        placed, x = placed.transpose(back), x.transpose(*back.tolist())
        expected = reference.conv2d(placed, w, padding=(1, 0))
        b = cp.asarray(w)
        for name in ["auto", *some(algorithms(x, b, padding=(1, 0)), 2)]:
            equal(ops.conv2d(x, b, padding=(1, 0), algorithm=name), expected)


@pytest.mark.parametrize("place", PLACES)
def test_any_strides_of_the_weights(device, place):
    x = numbers((2, 7, 9, 10))
    w, b = PLACES[place](numbers((18, 7, 3, 2), seed=1))
    bias, c = PLACES["every second"](numbers((18,), seed=2))
    expected = reference.conv2d(x, w, bias, stride=2)
    for memory_format in FORMATS:
        equal(ops.conv2d(upload(x, memory_format), b, c, stride=2), expected)
    equal(ops.conv2d(cp.asarray(x), ops.pack_weight(b), c, stride=2), expected)


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
def test_out_is_written_and_nothing_beside(device, memory_format):
    x, w, bias = numbers((2, 5, 9, 20)), numbers((18, 5, 3, 3), seed=1), numbers((18,), seed=2)
    expected = reference.conv2d(x, w, bias)
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
    for name in ["auto", *algorithms(a, b)]:
        for step in (1, 2):
            out = Guard(expected.shape, step=step)
            assert ops.conv2d(a, b, c, out=out.array, algorithm=name) is out.array
            out.check(expected)
        for order in ((0, 2, 3, 1), (3, 0, 1, 2)):
            turned = Guard(tuple(expected.shape[d] for d in order))
            view = turned.array.transpose(*np.argsort(order).tolist())
            ops.conv2d(a, b, c, out=view, algorithm=name)
            turned.check(expected.transpose(order))
        out = upload(np.full_like(expected, 77, np.float32), memory_format)
        ops.conv2d(a, b, c, out=out[:, ::-1, :, ::-1], algorithm=name)
        equal(out, expected[:, ::-1, :, ::-1])


@pytest.mark.usefixtures("unoptimised")
def test_old_values_are_added_once_where_tiles_overlap(device):
    # The last tile of a line of 19 ends with the line, and 18 outputs end within a vector.
    x, w = numbers((1, 5, 9, 21)), numbers((18, 5, 3, 3), seed=1)
    expected = reference.conv2d(x, w) + 3
    a, b = upload(x, "channels_last"), cp.asarray(w)
    for name in algorithms(a, b):
        out = upload(np.full(expected.shape, 3, np.float32), "channels_last")
        ops.conv2d(a, b, out=out, beta=1, algorithm=name)
        equal(out, expected)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_out_may_be_channels_of_a_larger_array(device, memory_format):
    # What concatenation without a copy is.
    x, w, v = numbers((2, 5, 9, 10)), numbers((7, 5, 1, 1), seed=1), numbers((17, 5, 3, 3), seed=2)
    a = upload(x, memory_format)
    whole = upload(np.full((2, 26, 9, 10), 77, np.float32), memory_format)
    ops.conv2d(a, cp.asarray(w), out=whole[:, :7])
    ops.conv2d(a, cp.asarray(v), padding=1, out=whole[:, 7:24])
    parts = [reference.conv2d(x, w), reference.conv2d(x, v, padding=1), np.full((2, 2, 9, 10), 77)]
    equal(whole, np.concatenate(parts, axis=1))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_an_input_may_be_channels_of_a_larger_array(device, memory_format):
    x, w = numbers((2, 26, 9, 10)), numbers((18, 13, 3, 3), seed=1)
    part = upload(x, memory_format)[:, 7:20]
    for name in ["auto", *algorithms(part, cp.asarray(w))]:
        found = ops.conv2d(part, cp.asarray(w), algorithm=name)
        equal(found, reference.conv2d(x[:, 7:20], w))


# --- beta -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
def test_beta_adds_to_what_is_there(device, memory_format):
    x, w, bias = numbers((2, 5, 9, 20)), numbers((18, 5, 3, 3), seed=1), numbers((18,), seed=2)
    exact = reference.conv2d(x, w, bias)
    old = numbers(exact.shape, seed=3)
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
    for name in ["auto", *algorithms(a, b)]:
        for beta in (1, 0.5):
            out = upload(old, memory_format)
            assert ops.conv2d(a, b, c, out=out, beta=beta, algorithm=name) is out
            equal(out, exact + beta * old)
        out = upload(np.full(old.shape, np.nan, np.float32), memory_format)
        equal(ops.conv2d(a, b, c, out=out, beta=0, algorithm=name), exact)


# --- packed weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("groups", [1, 2, "C"])
def test_packed_weights_give_the_same_bits(device, groups, memory_format):
    draw = np.random.default_rng(0).standard_normal
    c, k, groups = (34, 34, 34) if groups == "C" else (14, 26, groups)
    for kernel, stride, padding in (((1, 1), 1, 0), ((3, 3), 1, 1), ((5, 2), 2, 0)):
        x = draw((2, c, 11, 13)).astype(np.float32)
        w = draw((k, c // groups, *kernel)).astype(np.float32)
        a, b = upload(x, memory_format), cp.asarray(w)
        packed = ops.pack_weight(b, groups=groups)
        options = {"stride": stride, "padding": padding, "groups": groups}
        plain = ops.conv2d(a, b, **options)
        assert same_bits(ops.conv2d(a, packed, **options), plain)
        assert same_bits(ops.conv2d(a[:1], packed, **options), ops.conv2d(a[:1], b, **options))
        exact = reference.conv2d(x, w, **options)
        size = reference.conv2d(np.abs(x), np.abs(w), **options)
        check_close(plain, exact, size, w[0].size, np.float32)


def test_packed_weights_are_a_copy(device):
    x, w = numbers((2, 5, 9, 8)), numbers((6, 5, 3, 3), seed=1)
    b = cp.asarray(w)
    packed = ops.pack_weight(b)
    b.fill(7)
    for memory_format in FORMATS:
        equal(ops.conv2d(upload(x, memory_format), packed), reference.conv2d(x, w))


# --- Oclgrind ---


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_small_halves_into_the_middle_of_an_array(device, dtype, memory_format):
    x, w = numbers((1, 3, 5, 6), dtype), numbers((5, 3, 3, 2), dtype, seed=1)
    expected = reference.conv2d(x, w, padding=1)
    a, b = upload(x, memory_format), cp.asarray(w)
    for name in algorithms(a, b, padding=1):
        out = Guard(expected.shape, dtype, fill=2)
        ops.conv2d(a, b, padding=1, out=out.array, beta=2, algorithm=name)
        out.check((expected + 4).astype(dtype))


def test_a_view_of_channels_last_images_gives_their_format(device):
    x = upload(numbers((2, 8, 6, 4)), "channels_last")
    one, w = cp.full((8,), 1.0), cp.full((8, 8, 1, 1), 1.0)
    planes = cp.full((8, 1, 3, 3), 1.0)
    for view in (x, x[:, :, ::-1], x[:, :, :, ::-1], x[:, :, ::2]):
        results = (
            ops.relu(view),
            ops.conv2d(view, w),
            ops.conv2d(view, planes, padding=1, groups=8),
            ops.conv_transpose2d(view, w),
            ops.depth_to_space(view, 2),
            ops.batch_norm(view, one, one),
        )
        for y in results:
            assert y.strides == cp.empty(y.shape, memory_format="channels_last").strides
