"""Products by sub-groups: exact sums for every size of sub-group, form, direction and tail.

A CPU whose compiler has the extensions runs what a GPU would run.
"""

import dataclasses

import numpy as np
import pytest
from conv_reference import conv2d, conv2d_input, conv2d_weight, conv_transpose2d
from lanes import of_size
from support import BFLOAT16, Guard, equal, numbers, same_bits

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.errors import DefinitionError
from clprim.plan.product import splits, sub_groups
from clprim.plan.product.sub_groups import SubGroupTile


@pytest.fixture
def lanes(device):
    """A device with sub-groups that lanes pass values in."""
    if not device.traits.sub_groups:
        pytest.skip("the device has no sub-groups whose size can be asked for")
    return device


@pytest.fixture(params=[8, 16])
def sized(request, lanes, monkeypatch):
    """A device with sub-groups of one size."""
    of_size(lanes, monkeypatch, request.param)
    return request.param


def small_tiles(monkeypatch):
    """Lets a sub-group keep few sums: some compilers take seconds for what it is meant to have."""

    def tiles(what, traits):
        size = max(traits.sub_groups) if len(traits.sub_groups) == 1 else 8
        along_depth = sub_groups._form(what).along == "depth"
        yield SubGroupTile(size, 4 if along_depth else size, size, 2)

    monkeypatch.setattr(sub_groups, "sub_group_tiles", tiles)


@pytest.fixture
def small(lanes, monkeypatch):
    """A device whose sub-groups keep few sums."""
    small_tiles(monkeypatch)
    Calls.forget()
    yield lanes
    Calls.forget()


def matmul(a, b, **options):
    return ops.matmul(a, b, algorithm="sub_groups", **options)


def check_product(m, k, n, form):
    ta, tb = form[0] == "T", form[1] == "T"
    a = numbers((k, m) if ta else (m, k), seed=m)
    b = numbers((n, k) if tb else (k, n), seed=n)
    found = matmul(cp.asarray(a), cp.asarray(b), transpose_a=ta, transpose_b=tb)
    equal(found, (a.T if ta else a) @ (b.T if tb else b), np.float32)


@pytest.mark.everywhere
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
def test_products_of_every_form(sized, form):
    for m, k, n in [(64, 64, 64), (67, 33, 130), (1, 300, 5), (5, 9, 1), (130, 7, 66)]:
        check_product(m, k, n, form)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize(("size", "blocks"), [(32, True), (16, False)])
def test_large_sub_groups_and_reads_by_lane(lanes, monkeypatch, size, blocks):
    of_size(lanes, monkeypatch, size, block_reads=blocks)
    small_tiles(monkeypatch)
    check_product(64, 64, 64, "NN")
    if size > 16:
        return
    check_product(35, 37, 41, "TN")
    x, w = numbers((1, 3, 7, 6)), numbers((5, 3, 3, 3), seed=1)
    for memory_format in ("contiguous", "channels_last"):
        a, b = (cp.asarray(t, memory_format=memory_format) for t in (x, w))
        equal(ops.conv2d(a, b, padding=1, algorithm="sub_groups"), conv2d(x, w, padding=1))


def test_batches(small):
    a, b = numbers((3, 2, 20, 32)), numbers((2, 32, 40), seed=1)
    equal(matmul(cp.asarray(a), cp.asarray(b)), a @ b, np.float32)


OPTIONS = {
    "same": {"padding": 1},
    "grouped": {"stride": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2), "groups": 2},
}


@pytest.mark.everywhere
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize(("channels", "option"), [(16, "same"), (32, "grouped"), (6, "grouped")])
def test_convolutions(sized, monkeypatch, memory_format, channels, option):
    small_tiles(monkeypatch)
    options = OPTIONS[option]
    groups = options.get("groups", 1)
    x, bias = numbers((2, channels, 11, 9)), numbers(8, seed=2)
    w = numbers((8, channels // groups, 3, 2 if groups == 2 else 3), seed=1)
    y = conv2d(x, w, bias, **options)
    grad = numbers(y.shape, seed=3)
    a, b, g = (cp.asarray(t, memory_format=memory_format) for t in (x, w, grad))
    how = {**options, "algorithm": "sub_groups"}
    equal(ops.conv2d(a, b, cp.asarray(bias), **how), y, np.float32)
    equal(ops.conv2d_input(x.shape, b, g, **how), conv2d_input(x.shape, w, grad, **options))
    equal(ops.conv2d_weight(a, w.shape, g, **how), conv2d_weight(x, w.shape, grad, **options))


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_many_channels(lanes, memory_format):
    # Sixteen at a time: taps outside, and channels in block reads.
    x, w = numbers((2, 32, 9, 8)), numbers((40, 32, 3, 3), seed=1)
    a, b = (cp.asarray(t, memory_format=memory_format) for t in (x, w))
    found = ops.conv2d(a, b, padding=1, algorithm="sub_groups")
    equal(found, conv2d(x, w, padding=1), np.float32)


def test_transposed_convolution(small):
    x, w = numbers((1, 4, 5, 6)), numbers((4, 2, 3, 3), seed=1)
    options = {"stride": 2, "padding": 1, "groups": 2}
    found = ops.conv_transpose2d(cp.asarray(x), cp.asarray(w), **options, algorithm="sub_groups")
    equal(found, conv_transpose2d(x, w, **options), np.float32)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
def test_halves(small, dtype):
    for size in (32, 33):
        a, b = numbers((9, size), dtype, high=4), numbers((size, size), dtype, seed=1)
        expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)
        equal(matmul(cp.asarray(a), cp.asarray(b)), expected, dtype)
    x, w = numbers((1, 16, 6, 5), dtype, high=3), numbers((4, 16, 3, 3), dtype, seed=1, high=3)
    expected = conv2d(x.astype(np.float32), w.astype(np.float32), padding=1).astype(dtype)
    for memory_format in ("contiguous", "channels_last"):
        a, b = (cp.asarray(t, memory_format=memory_format) for t in (x, w))
        equal(ops.conv2d(a, b, padding=1, algorithm="sub_groups"), expected, dtype)


def test_what_is_outside_does_not_spoil_sums(small):
    # Steps, rows and taps that are not there are 0, even where what is read instead is not finite.
    a, b = numbers((5, 9)), numbers((9, 7), seed=1)
    whole = np.full((8, 16), np.inf, np.float32)
    whole[:5, :9] = a
    equal(matmul(cp.asarray(whole)[:5, :9], cp.asarray(b)), a @ b)
    x, w = numbers((1, 16, 5, 4)), numbers((8, 16, 3, 3), seed=1)
    x[0, :, 0, 0] = np.nan
    for memory_format in ("contiguous", "channels_last"):
        given = cp.asarray(x, memory_format=memory_format)
        found = ops.conv2d(given, cp.asarray(w), padding=1, algorithm="sub_groups").get()
        expected = conv2d(x, w, padding=1)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_nothing_beside_the_result_is_written(small, memory_format):
    x, w = numbers((2, 16, 5, 7)), numbers((9, 16, 3, 3), seed=1)
    shape = (2, 9, 5, 7) if memory_format == "contiguous" else (2, 5, 7, 9)
    out = Guard(shape)
    array = out.array if memory_format == "contiguous" else out.array.transpose(0, 3, 1, 2)
    given = cp.asarray(x, memory_format=memory_format)
    ops.conv2d(given, cp.asarray(w), padding=1, out=array, algorithm="sub_groups")
    expected = conv2d(x, w, padding=1)
    out.check(expected if memory_format == "contiguous" else expected.transpose(0, 2, 3, 1))


def test_split_depth_repeats_to_the_bit(small):
    rng = np.random.default_rng(0)
    a, b = (cp.asarray(rng.standard_normal(s).astype(np.float32)) for s in ((5, 3000), (3000, 6)))
    with cp.profile() as profile:
        found = matmul(a, b)
    assert "matmul_finish" in [event.name for event in profile.events]
    assert same_bits(found, matmul(a, b))
    exact = a.get().astype(np.float64) @ b.get().astype(np.float64)
    magnitude = np.abs(a.get()).astype(np.float64) @ np.abs(b.get()).astype(np.float64)
    # Higham's bound of a sum of 3000 products, added in any order.
    assert np.all(np.abs(found.get() - exact) <= 3001 * 2.0**-24 * 1.01 * magnitude)


@pytest.mark.usefixtures("unoptimised")
def test_splits_of_taps(small, monkeypatch):
    monkeypatch.setattr(splits, "SHORTEST_CHAIN", 16)
    x, w = numbers((1, 32, 5, 4)), numbers((8, 32, 3, 3), seed=1)
    bias = numbers(8, seed=2)
    for memory_format in ("contiguous", "channels_last"):
        Calls.forget()
        a = cp.asarray(x, memory_format=memory_format)
        found = ops.conv2d(a, cp.asarray(w), cp.asarray(bias), padding=1, algorithm="sub_groups")
        equal(found, conv2d(x, w, bias, padding=1))


def test_epilogue_old_value_and_bias(small):
    a, b, bias, c = numbers((5, 48)), numbers((48, 6), seed=1), numbers(6), numbers((5, 6))
    old = numbers((5, 6), seed=9)
    out = Guard((5, 6))
    out.array[...] = cp.asarray(old)
    matmul(
        cp.asarray(a),
        cp.asarray(b),
        bias=cp.asarray(bias),
        epilogue="y0 = max(y0, 0) + x0;",
        epilogue_args=(cp.asarray(c),),
        out=out.array,
        beta=2,
    )
    out.check(np.maximum(a @ b + bias, 0) + c + 2 * old)


@pytest.mark.usefixtures("unoptimised")
def test_outputs_that_become_pixels(small):
    x, w = numbers((1, 16, 4, 5)), numbers((8, 16, 1, 1), seed=1)
    for memory_format in ("contiguous", "channels_last"):
        given = cp.asarray(x, memory_format=memory_format)
        found = ops.conv2d(given, cp.asarray(w), depth_to_space=2, algorithm="sub_groups")
        assert "sub_groups" in ops.conv2d.algorithms(given, cp.asarray(w), depth_to_space=2)
        whole = ops.conv2d(given, cp.asarray(w), depth_to_space=2, algorithm="panels")
        equal(found, whole.get(), np.float32)


def test_what_it_needs_is_told(device, monkeypatch):
    planned = dataclasses.replace(device.traits, sub_groups=())
    monkeypatch.setitem(device.__dict__, "traits", planned)
    Calls.forget()
    with pytest.raises(DefinitionError, match="it needs float32 sums and sub-groups that pass"):
        matmul(cp.asarray(numbers((4, 4))), cp.asarray(numbers((4, 4))))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_epilogues_know_where_they_are(small, memory_format):
    x, w = numbers((2, 16, 5, 6)), numbers((8, 16, 3, 3), seed=1)
    given = cp.asarray(x, memory_format=memory_format)
    epilogue = "y0 = y0 + 100 * coord(1) + index + size(2);"
    found = ops.conv2d(given, cp.asarray(w), padding=1, epilogue=epilogue, algorithm="sub_groups")
    y = conv2d(x, w, padding=1)
    channel = 100 * np.arange(8).reshape(8, 1, 1)
    equal(found, y + channel + np.arange(y.size).reshape(y.shape) + y.shape[2], np.float32)
