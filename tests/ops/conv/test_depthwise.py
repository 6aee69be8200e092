"""Depthwise convolutions against slice, convolve, concatenate: every strategy, exact."""

import itertools

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, algorithms, upload
from conv_reference import check_close
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_memory import PLACES, has_format
from support import BFLOAT16, Guard, equal, numbers, same_bits

import clprim as cp
from clprim import ops
from clprim.plan.conv.family import CONVOLUTIONS

NAME = "depthwise"
HALVES = [np.dtype(np.float16), BFLOAT16]


def sliced(x, w, bias, **options):
    """The convolution of every channel by itself, one beside the other: the definition."""
    many = w.shape[0] // x.shape[1]
    return np.concatenate(
        [
            reference.conv2d(
                x[:, c : c + 1],
                w[c * many : (c + 1) * many],
                None if bias is None else bias[c * many : (c + 1) * many],
                **options,
            )
            for c in range(x.shape[1])
        ],
        axis=1,
    )


def check(x_shape, kernel, memory_format, *, many=1, dtype=np.float32, name="auto", **options):
    """Compares forward and both gradients, every element of them."""
    channels = x_shape[1]
    w_shape = (channels * many, 1, *kernel)
    x, w, bias = numbers(x_shape, dtype), numbers(w_shape, dtype, 1), numbers(w_shape[:1], dtype, 2)
    expected = sliced(x, w, bias, **options)
    grad = numbers(expected.shape, dtype, seed=3)
    a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
    options |= {"groups": channels}
    about = f"x {x_shape}, kernel {kernel}, {many} each, {options}, {memory_format}"
    found = {
        "forward": ops.conv2d(a, b, cp.asarray(bias), **options, algorithm=name),
        "input": ops.conv2d_input(x_shape, b, g, **options, algorithm=name),
        "weight": ops.conv2d_weight(a, w_shape, g, **options, algorithm=name),
    }
    right = {
        "forward": expected,
        "input": reference.conv2d_input(x_shape, w, grad, **options),
        "weight": reference.conv2d_weight(x, w_shape, grad, **options),
    }
    for part, result in found.items():
        assert result.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(
            np.float64(result.get()), right[part].astype(dtype), err_msg=f"{part}: {about}"
        )
    if min(x_shape[1:]) > 1:
        assert has_format(found["forward"], memory_format)


# --- the grid -------------------------------------------------------------------------------------

# Of MXNet's tests of the same, in one and two dimensions.
CHANNELS, SIZES, KERNELS, STRIDES, PADS = (1, 4, 16, 32, 64), (7, 32), (3, 5), (1, 2), (0, 1)
# Every third: any two values of two of them meet, and fewer kernels differ in a number only.
GRID = list(itertools.product(CHANNELS, SIZES, KERNELS, STRIDES, PADS))[::3]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_two_dimensions(device, some, kernel, memory_format):
    for channels, size, k, stride, pad in some(GRID, 6):
        if k == kernel:
            shape, options = (2, channels, size, size), {"stride": stride, "padding": pad}
            check(shape, (k, k), memory_format, **options)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_one_dimension(device, some, last):
    for channels, size, k, stride, pad in some(GRID, 6):
        x, w = numbers((2, channels, size)), numbers((channels, 1, k), seed=1)
        options = {"stride": (1, stride), "padding": (0, pad), "groups": channels}
        a = cp.asarray(x)
        if last:
            a = cp.asarray(x.transpose(0, 2, 1).copy()).transpose(0, 2, 1)
        expected = reference.conv2d(x[:, :, None], w[:, :, None], **options)
        found = ops.conv1d(a, cp.asarray(w), stride=stride, padding=pad, groups=channels)
        equal(found, expected[:, :, 0])
        # Gradients, which are those of images one pixel high, of fewer kernels.
        if k == (5 if last else 3) and channels > 4:
            options = {"stride": (1, stride), "padding": (0, pad)}
            check((2, channels, 1, size), (1, k), FORMATS[last], **options)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dilation", [2, 4, 8, 12, 24])
def test_dilation(device, some, dilation, memory_format):
    # DeepLab's: the result is as large as the input, which may be smaller than the kernel.
    sizes = ((33, 33), (7, 40), (14, 14))
    for height, width in some(sizes, 2):
        for stride in (1, 2):
            options = {"stride": stride, "padding": dilation, "dilation": dilation}
            check((1, 20, height, width), (3, 3), memory_format, **options)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    "kernel", [(1, 1), (2, 2), (4, 3), (7, 7), (1, 7), (5, 1), (31, 31)], ids=str
)
def test_kernels(device, some, kernel, memory_format):
    same = (kernel[0] // 2, kernel[1] // 2)
    forms = [(1, 0), (1, same), (2, same), (3, 0), ((1, 2), same)]
    if 7 in kernel:  # these are unrolled, so that every stride is another program
        forms = forms[1:3]
    else:  # each of them in one memory format of a kernel, and in the other of the next kernel
        forms = forms[(sum(kernel) + FORMATS.index(memory_format)) % 2 :: 2]
    for stride, padding in some(forms, len(forms)):
        height = max(1, kernel[0] - 2 * (padding != 0) * same[0]) + 8
        width = max(1, kernel[1] - 2 * (padding != 0) * same[1]) + 21
        check((2, 17, height, width), kernel, memory_format, stride=stride, padding=padding)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("channels", [1, 2, 3, 7, 13, 20, 24, 31])
def test_tails_of_channels(device, some, channels, memory_format):
    for stride in (1, 2):
        check((2, channels, 9, 15), (3, 3), memory_format, stride=stride, padding=1)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("many", [2, 3])
def test_multipliers(device, some, many, memory_format):
    for channels, stride, kernel in some(list(itertools.product((1, 5, 20), (1, 2), (3, 4))), 4):
        shape = (2, channels, 9, 21)
        check(shape, (kernel, kernel), memory_format, many=many, stride=stride, padding=1)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_pads(device, some, memory_format):
    pads = [(2, 0), (0, 3), (1, 0, 2, 3), (0, 2, 0, 0), (4, 4, 4, 4), (7, 6, 5, 9)]
    for padding, stride in some(list(itertools.product(pads, (1, 2))), 4):
        check((2, 18, 6, 19), (3, 3), memory_format, stride=stride, padding=padding)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_rows_longer_than_local_memory(device, memory_format):
    # A plane is cut in bands, or, where not even a tile fits, convolved without a copy.
    check((1, 2, 90, 300), (3, 3), memory_format, padding=1)
    check((1, 2, 90, 301), (5, 5), memory_format, padding=1)
    check((1, 1, 2, 40_000), (1, 3), memory_format, stride=(1, 2), padding=(0, 1))
    check((1, 3, 260, 70), (3, 3), memory_format, stride=2, padding=1)


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
def test_any_depthwise_convolution(device, some, memory_format):
    pair = st.one_of(st.integers(1, 3), st.tuples(st.integers(1, 4), st.integers(1, 4)))
    pads = st.one_of(st.integers(0, 4), st.tuples(*[st.integers(0, 5)] * 4))

    @settings(max_examples=len(some(range(40), 9)), derandomize=True, deadline=None)
    @given(
        n=st.integers(1, 3),
        channels=st.integers(1, 40),
        many=st.sampled_from([1, 1, 1, 2]),
        kernel=st.sampled_from([(3, 3), (5, 5), (2, 5), (1, 3), (6, 1)]),
        more=st.tuples(st.integers(0, 12), st.integers(0, 40)),
        stride=pair,
        dilation=pair,
        padding=pads,
    )
    def run(n, channels, many, kernel, more, stride, dilation, padding):
        top, bottom, left, right = reference.four(padding)
        d = reference.both(dilation)
        height = max(1, d[0] * (kernel[0] - 1) + 1 - top - bottom) + more[0]
        width = max(1, d[1] * (kernel[1] - 1) + 1 - left - right) + more[1]
        options = {"stride": stride, "dilation": dilation, "padding": padding}
        check((n, channels, height, width), kernel, memory_format, many=many, **options)

    run()


# --- dtypes ---------------------------------------------------------------------------------------


# Every kind of kernel once for every dtype: by columns, by channels, and where neither is unrolled.
KINDS = [
    ("contiguous", 1, 3),
    ("channels_last", 2, 3),
    ("contiguous", 2, 3),
    ("channels_last", 3, 2),
]


@pytest.mark.parametrize("dtype", [*HALVES, np.dtype(np.float64), np.dtype(np.int32)], ids=str)
def test_dtypes(device, some, dtype):
    for memory_format, stride, kernel in some(KINDS, 4):
        # Few small products: also a half holds their sums.
        check((1, 19, 7, 9), (kernel, kernel), memory_format, dtype=dtype, stride=stride, padding=1)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), *HALVES], ids=str)
def test_sums_run_in_single_precision_at_least(device, dtype, memory_format):
    draw = np.random.default_rng(0).standard_normal
    x, w = draw((1, 17, 40, 41)).astype(dtype), draw((17, 1, 3, 3)).astype(dtype)
    options = {"padding": 1, "groups": 17}
    exact = reference.conv2d(x, w, **options)
    size = reference.conv2d(np.abs(np.float64(x)), np.abs(np.float64(w)), **options)
    a, b = upload(x, memory_format), cp.asarray(w)
    check_close(ops.conv2d(a, b, **options), exact, size, 9, dtype)
    grad = draw(exact.shape).astype(dtype)
    exact = reference.conv2d_weight(x, w.shape, grad, **options)
    magnitudes = np.abs(np.float64(x)), np.abs(np.float64(grad))
    size = reference.conv2d_weight(magnitudes[0], w.shape, magnitudes[1], **options)
    found = ops.conv2d_weight(a, w.shape, upload(grad, memory_format), **options)
    check_close(found, exact, size, 40 * 41, dtype)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("stride", [1, 2])
def test_nan_stays_where_it_is(device, stride, memory_format):
    # Padding is 0, not what lies beside; one NaN reaches what it is part of, and nothing else.
    x, w = numbers((2, 18, 8, 9)), numbers((18, 1, 3, 3), seed=1, low=1)
    x[1, 2, 0, 8] = x[0, 17, 7, 0] = np.nan
    options = {"padding": 1, "stride": stride, "groups": 18}
    expected = np.isnan(reference.conv2d(x, w, **options))
    found = ops.conv2d(upload(x, memory_format), cp.asarray(w), **options).get()
    np.testing.assert_array_equal(np.isnan(found), expected)
    grad = numbers(expected.shape, seed=2, low=1)
    found = ops.conv2d_weight(
        upload(x, memory_format), w.shape, upload(grad, memory_format), **options
    )
    expected = np.isnan(reference.conv2d_weight(x, w.shape, grad, **options))
    np.testing.assert_array_equal(np.isnan(found.get()), expected)


# --- epilogues, results, gradients ----------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("stride", [1, 2])
def test_epilogues(device, stride, memory_format):
    x, w, bias = numbers((2, 20, 9, 14)), numbers((20, 1, 3, 3), seed=1), numbers((20,), seed=2)
    options = {"padding": 1, "stride": stride, "groups": 20}
    y = reference.conv2d(x, w, bias, **options)
    residual, scale = numbers(y.shape, seed=3), numbers((20, 1, 1), seed=4)
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
    r, s = upload(residual, memory_format), cp.asarray(scale)
    found = ops.conv2d(a, b, c, **options, epilogue="y0 = clamp(y0, 0, 6);")
    equal(found, np.clip(y, 0, 6))
    found = ops.conv2d(
        a, b, c, **options, epilogue="y0 = y0 * x0 + x1;", epilogue_args=(s, r), beta=0
    )
    equal(found, y * scale + residual)
    # One that looks at each element by itself, and adds to what is there.
    out = Guard(y.shape)
    ops.conv2d(
        a, b, c, **options, epilogue="if (y0 < 0) y0 = x0;", epilogue_args=r, out=out.array, beta=2
    )
    out.check(np.where(y < 0, residual, y) + 2 * 77)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_in_place_on_what_the_epilogue_reads(device, memory_format):
    # Each element is read and written once, also where vectors at the ends overlap.
    for channels, stride in ((20, 1), (20, 2), (17, 1)):
        x, w = numbers((2, channels, 10, 14)), numbers((channels, 1, 3, 3), seed=1)
        options = {"padding": 1, "stride": stride, "groups": channels}
        y = reference.conv2d(x, w, **options)
        old = numbers(y.shape, seed=2)
        out = upload(old, memory_format)
        ops.conv2d(
            upload(x, memory_format),
            cp.asarray(w),
            **options,
            epilogue="y0 = y0 + 3 * x0;",
            epilogue_args=(out,),
            out=out,
            beta=1,
        )
        equal(out, y + 4 * old)


REQUESTS = ("skip", "write", "accumulate")


@pytest.mark.everywhere
@pytest.mark.parametrize("memory_format", FORMATS)
def test_every_gradient_by_itself(device, memory_format):
    """All 27 combinations of not wanted, written and accumulated, as MXNet has them."""
    x, w = numbers((2, 20, 9, 14)), numbers((20, 1, 3, 3), seed=1)
    options = {"padding": 1, "stride": 2, "groups": 20}
    grad = numbers(reference.conv2d(x, w, **options).shape, seed=2)
    a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
    right = {
        "input": reference.conv2d_input(x.shape, w, grad, **options),
        "weight": reference.conv2d_weight(x, w.shape, grad, **options),
        "bias": grad.sum((0, 2, 3)),
    }
    calls = {
        "input": lambda **k: ops.conv2d_input(x.shape, b, g, **options, **k),
        "weight": lambda **k: ops.conv2d_weight(a, w.shape, g, **options, **k),
        "bias": lambda **k: ops.conv2d_bias(g, **k),
    }
    for requests in itertools.product(REQUESTS, repeat=3):
        guards = {part: Guard(right[part].shape) for part in calls}
        for request, (part, call) in zip(requests, calls.items(), strict=True):
            if request != "skip":
                call(out=guards[part].array, beta=int(request == "accumulate"))
        for request, (part, guard) in zip(requests, guards.items(), strict=True):
            if request == "skip":
                guard.check_untouched()
            else:
                guard.check(right[part] + 77 * (request == "accumulate"))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_old_values_are_not_read(device, memory_format):
    x, w = numbers((1, 17, 8, 14)), numbers((17, 1, 3, 3), seed=1)
    options = {"padding": 1, "groups": 17}
    a, b = upload(x, memory_format), cp.asarray(w)
    for call, shape in (
        (lambda out: ops.conv2d(a, b, **options, out=out), x.shape),
        (lambda out: ops.conv2d_input(x.shape, b, a, **options, out=out), x.shape),
        (lambda out: ops.conv2d_weight(a, w.shape, a, **options, out=out), w.shape),
    ):
        assert np.isfinite(call(cp.full(shape, np.nan)).get()).all()


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_same_bits_on_every_run(device, memory_format):
    draw = np.random.default_rng(0).standard_normal
    x, w, grad = (
        draw(s).astype(np.float32) for s in ((3, 33, 30, 29), (33, 1, 3, 3), (3, 33, 30, 29))
    )
    a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
    options = {"padding": 1, "groups": 33}
    for call in (
        lambda: ops.conv2d(a, b, **options),
        lambda: ops.conv2d_input(x.shape, b, g, **options),
        lambda: ops.conv2d_weight(a, w.shape, g, **options),
    ):
        first = call()
        for _ in range(3):
            assert same_bits(call(), first)


@pytest.mark.parametrize("place", PLACES)
def test_odd_memory(device, place):
    for stride in (1, 2):
        host, a = PLACES[place](numbers((2, 18, 9, 14)))
        w_host, b = PLACES[place](numbers((18, 1, 3, 3), seed=1))
        options = {"padding": 1, "stride": stride, "groups": 18}
        expected = reference.conv2d(host, w_host, **options)
        equal(ops.conv2d(a, b, **options), expected)
        grad_host, g = PLACES[place](numbers(expected.shape, seed=2))
        found = ops.conv2d_input(host.shape, b, g, **options)
        equal(found, reference.conv2d_input(host.shape, w_host, grad_host, **options))
        found = ops.conv2d_weight(a, w_host.shape, g, **options)
        equal(found, reference.conv2d_weight(host, w_host.shape, grad_host, **options))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_packed_weight(device, memory_format):
    x, w = numbers((2, 20, 8, 9)), numbers((20, 1, 3, 3), seed=1)
    array = cp.asarray(w)
    kept = ops.pack_weight(array, groups=20)
    array.fill(0)
    for padding in (1, 0):
        found = ops.conv2d(upload(x, memory_format), kept, padding=padding, groups=20)
        equal(found, reference.conv2d(x, w, padding=padding, groups=20))
    found = ops.conv2d_input(x.shape, kept, upload(x, memory_format), padding=1, groups=20)
    equal(found, reference.conv2d_input(x.shape, w, x, padding=1, groups=20))


# --- which calls take it --------------------------------------------------------------------------


def test_algorithms(device):
    x, w = cp.zeros((1, 6, 8, 8)), cp.zeros((6, 1, 3, 3))
    assert NAME in algorithms(x, w, groups=6)
    assert NAME in algorithms(x, cp.zeros((12, 1, 3, 3)), groups=6)
    assert NAME not in algorithms(x, cp.zeros((6, 2, 3, 3)), groups=3)
    assert NAME not in algorithms(x, cp.zeros((6, 6, 3, 3)))


def test_it_runs_by_itself(device, monkeypatch):
    planned = []
    plan = CONVOLUTIONS.plan

    def listen(*rest):
        planned.append(plan(*rest))
        return planned[-1]

    monkeypatch.setattr(CONVOLUTIONS, "plan", listen)
    x, w, grad = cp.zeros((1, 6, 11, 13)), cp.zeros((6, 1, 3, 3)), cp.zeros((1, 6, 9, 11))
    ops.conv2d(x, w, groups=6)
    ops.conv2d_input(x.shape, w, grad, groups=6)
    ops.conv_transpose2d(grad, w, groups=6)
    ops.conv2d_weight(x, w.shape, grad, groups=6)
    assert all(found.choice.strategy.startswith("depthwise/") for found in planned)
    assert [found.choice.strategy.count("weight") for found in planned] == [0, 0, 0, 1]
    planned.clear()
    ops.conv2d(x, w, groups=6, algorithm="panels")
    ops.conv2d(x, cp.zeros((6, 2, 3, 3)), groups=3)
    assert not any(found.choice.strategy.startswith("depthwise") for found in planned)


@pytest.mark.parametrize("name", ["depthwise"])
def test_refused_where_it_cannot_do_the_job(device, name):
    x, w = cp.zeros((1, 6, 8, 8)), cp.zeros((6, 2, 3, 3))
    out, grad = Guard((1, 6, 6, 6)), cp.zeros((1, 6, 6, 6))
    needs = r"depthwise.*groups=3.*\(6, 2, 3, 3\).*group for every channel"
    with pytest.raises(cp.DefinitionError, match=needs):
        ops.conv2d(x, w, groups=3, algorithm=name, out=out.array)
    with pytest.raises(cp.DefinitionError, match=needs):
        ops.conv2d_input(x.shape, w, grad, groups=3, algorithm=name)
    with pytest.raises(cp.DefinitionError, match=needs):
        ops.conv2d_weight(x, w.shape, grad, groups=3, algorithm=name)
    with pytest.raises(cp.DefinitionError):
        ops.matmul(cp.zeros((2, 2)), cp.zeros((2, 2)), algorithm=name)
    out.check_untouched()


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_same_as_other_algorithms(device, memory_format):
    x, w = numbers((2, 20, 9, 14)), numbers((40, 1, 3, 3), seed=1)
    a, b = upload(x, memory_format), cp.asarray(w)
    options = {"padding": 1, "groups": 20}
    expected = reference.conv2d(x, w, **options)
    for name in algorithms(a, b, **options):
        equal(ops.conv2d(a, b, **options, algorithm=name), expected)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_nothing_to_convolve(device, memory_format):
    w = cp.zeros((6, 1, 3, 3))
    x = cp.zeros((0, 6, 9, 8), memory_format=memory_format)
    equal(ops.conv2d(x, w, groups=6), np.zeros((0, 6, 7, 6)))
    equal(
        ops.conv2d_input((0, 6, 9, 8), w, cp.zeros((0, 6, 7, 6)), groups=6), np.zeros((0, 6, 9, 8))
    )
    found = ops.conv2d_weight(x, (6, 1, 3, 3), cp.zeros((0, 6, 7, 6)), groups=6)
    equal(found, np.zeros((6, 1, 3, 3)))


# --- other devices' strategies, and Oclgrind ------------------------------------------------------

SMALL = [
    ((2, 3, 5, 7), (3, 3), {"padding": 1}),
    ((1, 18, 6, 5), (3, 3), {"padding": 1, "stride": 2}),
    ((1, 5, 4, 19), (2, 3), {"padding": (1, 0, 2, 1), "dilation": (1, 2)}),
    ((2, 2, 7, 6), (5, 5), {"padding": 2, "stride": (1, 2)}),
    ((1, 5, 4, 5), (9, 9), {"padding": 4}),  # registers hold three rows of taps at a time
]


@pytest.mark.parametrize("memory_format", FORMATS)
def test_planned_for_other_devices(traits, some, memory_format):
    cases = [
        ((2, 3, 7, 9), {"many": 2, "padding": 1}),
        ((1, 33, 17, 20), {"padding": 1}),
        ((1, 9, 8, 70), {"stride": 2}),
    ]
    for shape, options in some(cases, 3):
        check(shape, (3, 3), memory_format, **options)


@pytest.mark.parametrize("traits", ["gpu"], indirect=True)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((3, 3), {"padding": 1}),
        ((3, 3), {"padding": 1, "stride": 2}),
        ((3, 3), {"padding": 0, "stride": (1, 3), "many": 2}),
        ((3, 3), {"padding": 5, "dilation": 5}),
        ((2, 5), {"padding": 3, "dilation": (3, 1), "many": 3}),
        ((4, 1), {"padding": (2, 0), "stride": (3, 2), "dilation": (1, 4)}),
        ((7, 7), {"padding": 3}),
        ((9, 9), {"padding": 4}),
        ((9, 5), {"padding": 7, "stride": 2}),
        ((3, 31), {"padding": (2, 30), "dilation": 2}),
        ((1, 50), {"padding": (0, 25)}),
    ],
    ids=str,
)
def test_windows(traits, some, kernel, options, memory_format):
    shapes = [(2, 9, 21, 26), (1, 33, 20, 19), (3, 1, 17, 40)]
    if kernel != (3, 3):  # by turns, and each in some memory format
        turn = sum(kernel) + FORMATS.index(memory_format)
        shapes = [shapes[turn % 3]]
    for shape in some(shapes, 2):
        check(shape, kernel, memory_format, **options)


@pytest.mark.parametrize("traits", ["gpu"], indirect=True)
@pytest.mark.parametrize("memory_format", FORMATS)
def test_windows_and_what_is_not_finite(traits, memory_format):
    # What no window of a result holds is of no account, whatever it is.
    x, w = numbers((1, 3, 10, 9)), numbers((3, 1, 3, 3), seed=1)
    x[:, :, -1], x[:, :, :, -2:] = np.nan, np.inf
    options = {"stride": 3, "groups": 3}
    grad = numbers((1, 3, 3, 2), seed=2)
    seen = x[..., :9, :6].copy()
    a = upload(x, memory_format)[:, :, :, :8]
    found = ops.conv2d(a, cp.asarray(w), **options)
    equal(found, reference.conv2d(seen, w, None, **options))
    g = upload(grad, memory_format)
    found = ops.conv2d_weight(a, w.shape, g, **options)
    equal(found, reference.conv2d_weight(seen, w.shape, grad, **options))


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("small", SMALL, ids=lambda row: f"{row[1]}, {row[2]}")
def test_small(traits, small, memory_format):
    shape, kernel, options = small
    check(shape, kernel, memory_format, **options)
    if small is SMALL[0]:
        check(shape, kernel, memory_format, many=2, **options)


@pytest.mark.everywhere
@pytest.mark.parametrize(("kernel", "size"), [(3, 14), (5, 14), (3, 15)])
def test_bits_depend_on_no_place_in_the_batch(device, kernel, size):
    """The first and the last plane lie at the ends of memory, where vectors may not reach."""
    image = np.random.default_rng(0).normal(size=(1, 8, size, size)).astype(np.float32)
    taps = np.random.default_rng(1).normal(size=(8, 1, kernel, kernel)).astype(np.float32)
    x = cp.asarray(np.repeat(image, 3, 0))
    y = ops.conv2d(x, cp.asarray(taps), padding=kernel // 2, groups=8).get()
    np.testing.assert_array_equal(y, np.repeat(y[1:2], 3, 0))
