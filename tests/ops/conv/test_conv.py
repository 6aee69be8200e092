"""`ops.conv2d` against a sum over taps in float64: every strategy, both memory formats, exact."""

import itertools

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FACTORS, FORMATS, LAYERS, PAIRS, THREES, algorithms, make_case, upload
from conv_reference import check_close
from hypothesis import given, settings
from hypothesis import strategies as st
from support import BFLOAT16, Guard, equal, numbers, same_bits, wide

import clprim as cp
from clprim import ops

REALS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]
HALVES = [np.dtype(np.float16), BFLOAT16]


def check(case, names=None, dtype=np.float32):
    """Runs one case, by its own strategy or by several, and compares every element."""
    x, w, bias = case.operands(dtype)
    expected = reference.conv2d(x, w, bias, **case.options).astype(dtype)
    a, b, c = upload(x, case.memory_format), upload(w, case.memory_format), cp.asarray(bias)
    for name in names or [case.strategy]:
        found = ops.conv2d(a, b, c, **case.options, algorithm=name)
        assert found.shape == case.y_shape, f"{case}, {name}"
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(wide(found.get()), wide(expected), err_msg=f"{case}, {name}")


# --- the grid -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("kernel", FACTORS["kernel"], ids=str)
def test_factors_in_every_combination(device, some, kernel):
    for row in some(PAIRS, 6) + some(THREES, 9):
        if row["kernel"] == kernel:
            check(make_case(**row))


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
def test_any_convolution(device, some, memory_format):
    """Drawn, the same ones every time: what the grid does not have."""
    pads = st.one_of(st.integers(0, 4), st.tuples(*[st.integers(0, 4)] * 2))
    pads = st.one_of(pads, st.tuples(*[st.integers(0, 5)] * 4))
    pairs = st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 4), st.integers(1, 4)))

    @settings(max_examples=len(some(range(24), 5)), derandomize=True, deadline=None)
    @given(
        n=st.integers(1, 3),
        groups=st.sampled_from([1, 1, 1, 2, 3, 5]),
        channels=st.integers(1, 40),
        outputs=st.integers(1, 40),
        kernel=st.tuples(st.integers(1, 6), st.integers(1, 6)),
        more=st.tuples(st.integers(0, 9), st.integers(0, 20)),
        stride=pairs,
        dilation=pairs,
        padding=pads,
        data=st.data(),
    )
    def run(n, groups, channels, outputs, kernel, more, stride, dilation, padding, data):
        top, bottom, left, right = reference.four(padding)
        d = reference.both(dilation)
        height = max(1, d[0] * (kernel[0] - 1) + 1 - top - bottom) + more[0]
        width = max(1, d[1] * (kernel[1] - 1) + 1 - left - right) + more[1]
        x = numbers((n, channels * groups, height, width), seed=1)
        w = numbers((outputs * groups, channels, *kernel), seed=2)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        a, b = upload(x, memory_format), upload(w, data.draw(st.sampled_from(FORMATS)))
        name = data.draw(st.sampled_from(["auto", *algorithms(a, b, **options)]))
        found = ops.conv2d(a, b, **options, algorithm=name)
        equal(found, reference.conv2d(x, w, **options), np.float32)

    run()


def layers(some, first):
    """Every layer in one format or the other: its name, arrays, arguments and result."""
    for number, (layer, (x_shape, w_shape, options)) in enumerate(some(list(LAYERS.items()), 4)):
        x, w, bias = (numbers(s, seed=n) for n, s in enumerate((x_shape, w_shape, w_shape[:1])))
        arrays = upload(x, FORMATS[(number + first) % 2]), upload(w), cp.asarray(bias)
        yield layer, arrays, options, reference.conv2d(x, w, bias, **options)


@pytest.mark.optimised
def test_layers_of_networks(device, some):
    for layer, arrays, options, expected in layers(some, 0):
        found = ops.conv2d(*arrays, **options).get()
        np.testing.assert_array_equal(found, expected, err_msg=layer)


@pytest.mark.usefixtures("unoptimised")
def test_layers_of_networks_by_every_strategy(device, some):
    for layer, arrays, options, expected in layers(some, 1):
        if expected.size * arrays[1][0].size > 3e7:
            continue  # slow as they are written, and others have their kernels
        for name in algorithms(*arrays[:2], **options):
            found = ops.conv2d(*arrays, **options, algorithm=name).get()
            np.testing.assert_array_equal(found, expected, err_msg=f"{layer}, {name}")


def test_the_strategies_have_names(device):
    x, w = cp.zeros((2, 16, 8, 8)), cp.zeros((16, 16, 3, 3))
    names = ops.conv2d.algorithms(x, w, padding=1)
    assert {"panels", "tiles"} <= set(names)  # a CPU's, and a GPU's
    assert len(set(names)) == len(names)
    assert all(isinstance(name, str) for name in names)
    assert "auto" not in names
    assert ops.conv2d.algorithms(x, w, None, 1, 1) == names  # as the call takes them
    with pytest.raises(TypeError, match="strides"):
        ops.conv2d.algorithms(x, w, strides=1)


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
def test_nothing_to_convolve(device, memory_format):
    w, bias = numbers((6, 5, 3, 3)), numbers((6,), seed=1)
    b, c = cp.asarray(w), cp.asarray(bias)
    found = ops.conv2d(cp.zeros((0, 5, 9, 8), memory_format=memory_format), b, c)
    equal(found, np.zeros((0, 6, 7, 6)), np.float32)
    found = ops.conv2d(cp.zeros((2, 5, 9, 8), memory_format=memory_format), b[:0])
    equal(found, np.zeros((2, 0, 7, 6)), np.float32)
    # A sum of nothing is 0, or the bias.
    x = cp.zeros((2, 0, 9, 8), memory_format=memory_format)
    equal(ops.conv2d(x, b[:, :0], c), np.broadcast_to(bias[:, None, None], (2, 6, 7, 6)))
    out = cp.full((2, 6, 7, 6), np.nan, memory_format=memory_format)
    equal(ops.conv2d(x, b[:, :0], out=out), np.zeros((2, 6, 7, 6)))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_one_kernel_for_all_sizes(device, memory_format):
    # The same arrays grow and shrink between calls: nothing of a call stays for the next one.
    w = numbers((20, 9, 3, 3), seed=1)
    b = ops.pack_weight(cp.asarray(w))
    for n, height, width in ((1, 3, 3), (3, 40, 5), (1, 5, 70), (2, 3, 3), (3, 40, 5)):
        x = numbers((n, 9, height, width), seed=width)
        equal(ops.conv2d(upload(x, memory_format), b), reference.conv2d(x, w))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_same_bits_on_every_run(device, memory_format):
    draw = np.random.default_rng(0).standard_normal
    a = upload(draw((1, 200, 6, 7)).astype(np.float32), memory_format)
    b = cp.asarray(draw((9, 200, 3, 3)).astype(np.float32))
    for name in ["auto", *algorithms(a, b)]:
        first = ops.conv2d(a, b, algorithm=name)
        for _ in range(3):
            assert same_bits(ops.conv2d(a, b, algorithm=name), first)


# --- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REALS[1:], ids=str)
def test_dtypes_are_exact_on_whole_numbers(device, some, dtype):
    for row in some(PAIRS[::9], 3):
        check(make_case(**row), dtype=dtype)


@pytest.mark.optimised
def test_dtypes_are_as_accurate_as_their_format(device, some):
    draw = np.random.default_rng(0).standard_normal
    for dtype, memory_format in some(list(zip(REALS, FORMATS * 2, strict=True)), 2):
        x, w, bias = (draw(s).astype(dtype) for s in ((2, 40, 9, 8), (18, 40, 3, 3), (18,)))
        exact = reference.conv2d(x, w, bias, padding=1)
        size = reference.conv2d(*(np.abs(np.float64(h)) for h in (x, w, bias)), padding=1)
        a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
        for name in algorithms(a, b, padding=1):
            found = ops.conv2d(a, b, c, padding=1, algorithm=name)
            check_close(found, exact, size, w[0].size + 1, dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_of_halves_run_in_single_precision(device, dtype):
    x = np.ones((1, 2048, 3, 3), dtype)
    x[:, 0] = 2000
    b = cp.asarray(np.ones((3, 2048, 1, 1), dtype))
    for memory_format in FORMATS:
        a = upload(x, memory_format)
        for name in ["auto", *algorithms(a, b)]:
            found = ops.conv2d(a, b, algorithm=name)
            equal(found, np.full((1, 3, 3, 3), 4047).astype(dtype), dtype)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_nan_stays_where_it_is(device, memory_format):
    # Padding is 0, not what lies beyond the row; one NaN reaches the outputs that read it, no more.
    x, w = numbers((2, 3, 8, 9)), numbers((18, 3, 3, 3), seed=1, low=1)
    x[1, 2, 0, 8] = np.nan
    expected = np.isnan(reference.conv2d(x, w, padding=1))
    assert expected.sum() == 18 * 4
    a, b = upload(x, memory_format), cp.asarray(w)
    for name in ["auto", *algorithms(a, b, padding=1)]:
        found = ops.conv2d(a, b, padding=1, algorithm=name).get()
        np.testing.assert_array_equal(np.isnan(found), expected)


# --- one dimension --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        ({}, 1),
        ({"padding": 1}, 3),
        ({"stride": 2, "padding": 2, "dilation": 2}, 5),
        ({"groups": 3, "padding": 1}, 3),
        ({"groups": 6, "padding": 7}, 4),
    ],
    ids=str,
)
def test_conv1d(device, options, kernel):
    groups = options.get("groups", 1)
    x, bias = numbers((2, 6, 37)), numbers((18,), seed=2)
    w = numbers((18, 6 // groups, kernel), seed=1)
    flat = {**options, "padding": (0, options.get("padding", 0))}
    flat |= {"stride": (1, options.get("stride", 1)), "dilation": (1, options.get("dilation", 1))}
    expected = reference.conv2d(x[:, :, None], w[:, :, None], bias, **flat)[:, :, 0]
    b, c = cp.asarray(w), cp.asarray(bias)
    equal(ops.conv1d(cp.asarray(x), b, c, **options), expected, np.float32)
    channels_last = cp.asarray(x.transpose(0, 2, 1).copy()).transpose(0, 2, 1)
    found = ops.conv1d(channels_last, b, c, **options)
    equal(found, expected)
    backwards = cp.asarray(x[..., ::-1].copy())[..., ::-1]
    residual = numbers(expected.shape, seed=3)
    out = Guard(expected.shape)
    found = ops.conv1d(
        backwards,
        b,
        c,
        **options,
        epilogue="y0 = max(y0 + x0, 0);",
        epilogue_args=(cp.asarray(residual),),
        out=out.array,
    )
    assert found is out.array
    out.check(np.maximum(expected + residual, 0))


# --- other devices' strategies, and Oclgrind ------------------------------------------------------


def test_planned_for_other_devices(traits, some):
    names = ["panels" if traits.is_cpu else "tiles"]
    for row in some(PAIRS[:: 6 if traits.is_cpu else 3], 3):
        check(make_case(**row), names)


SMALL = [
    {"kernel": (3, 3), "groups": 1, "channels": 3, "outputs": 17, "padding": "same"},
    {"kernel": (1, 1), "groups": 1, "channels": 17, "outputs": 7, "padding": "none"},
    {"kernel": (3, 1), "groups": "C", "channels": 7, "outputs": 1, "padding": "four"},
    {"kernel": (2, 2), "groups": 2, "channels": 3, "outputs": 3, "padding": "beyond"},
]


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("small", SMALL, ids=lambda row: f"{row['kernel']}, groups {row['groups']}")
def test_small(traits, small, memory_format):
    for step, strategy in itertools.product((1, 2), ("panels", "tiles", "auto")):
        row = {"stride": step, "dilation": step, "extent": "small", "batch": 2}
        row |= {"memory_format": memory_format, "strategy": strategy}
        check(make_case(**row, **small))
