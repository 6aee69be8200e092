"""`ops.conv_transpose2d` against a sum over taps in float64, and against PyTorch."""

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, covering, upload
from conv_reference import check_close
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_memory import PLACES, has_format
from support import BFLOAT16, equal, numbers, same_bits

import clprim as cp
from clprim import ops

REALS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]


def fits(options):
    """Whether the padding added at one side stays below the stride or the dilation."""
    extra, stride, dilation = (
        reference.both(options[name]) for name in ("output_padding", "stride", "dilation")
    )
    return all(extra[n] < max(stride[n], dilation[n]) for n in (0, 1))


FACTORS = {
    "kernel": [(1, 1), (2, 2), (3, 3), (4, 4), (5, 2)],
    "stride": [1, 2, 3, (2, 1)],
    "padding": [0, 1, (2, 0)],
    "output_padding": [0, 1, (1, 0), 2],
    "dilation": [1, 2],
    "groups": [1, 2],
    "memory_format": FORMATS,
    "algorithm": ["panels", "tiles"],
}
GRID = [row for row in covering(FACTORS, 3) if fits(row)]


@pytest.mark.usefixtures("unoptimised")
def test_the_grid(device, some):
    bias = numbers((34,), seed=2)
    for row in some(GRID, 9):
        options = dict(row)
        memory_format, algorithm = options.pop("memory_format"), options.pop("algorithm")
        x = numbers((2, 6, 5, 7))
        w = numbers((6, 34 // row["groups"], *options.pop("kernel")), seed=1)
        expected = reference.conv_transpose2d(x, w, bias, **options)
        if not expected.size:
            continue
        a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
        found = ops.conv_transpose2d(a, b, c, **options, algorithm=algorithm)
        assert found.shape == expected.shape, row
        np.testing.assert_array_equal(found.get(), expected, err_msg=str(row))
        assert has_format(found, memory_format)


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
def test_any_transposed_convolution(device, some, memory_format):
    """Drawn, the same ones every time."""
    pairs = st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 4), st.integers(1, 4)))

    @settings(max_examples=len(some(range(24), 9)), derandomize=True, deadline=None)
    @given(
        n=st.integers(1, 3),
        groups=st.sampled_from([1, 1, 2, 3]),
        channels=st.integers(1, 20),
        outputs=st.integers(1, 20),
        size=st.tuples(st.integers(1, 9), st.integers(1, 20)),
        kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
        stride=pairs,
        dilation=pairs,
        padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
        extra=st.tuples(st.integers(0, 3), st.integers(0, 3)),
        with_bias=st.booleans(),
    )
    def run(
        n, groups, channels, outputs, size, kernel, stride, dilation, padding, extra, with_bias
    ):
        options = {"stride": stride, "padding": padding, "output_padding": extra}
        options |= {"dilation": dilation, "groups": groups}
        x = numbers((n, channels * groups, *size), seed=1)
        w = numbers((channels * groups, outputs, *kernel), seed=2)
        shape = reference.transposed_shape(x.shape, w.shape, **options)
        if not fits(options) or min(shape) < 1:
            return
        bias = numbers((outputs * groups,), seed=3) if with_bias else None
        found = ops.conv_transpose2d(
            upload(x, memory_format), cp.asarray(w), upload(bias), **options
        )
        equal(found, reference.conv_transpose2d(x, w, bias, **options), np.float32)

    run()


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("channels", [(1, 1), (3, 7), (13, 17), (40, 1), (70, 33)], ids=str)
def test_channel_tails(device, channels, memory_format):
    c, k = channels
    options = {"stride": 2, "padding": 1, "output_padding": 1}
    x, w = numbers((1, c, 6, 5)), numbers((c, k, 3, 3), seed=1)
    found = ops.conv_transpose2d(upload(x, memory_format), cp.asarray(w), **options)
    equal(found, reference.conv_transpose2d(x, w, **options))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_group_for_every_channel(device, memory_format):
    x, w, bias = numbers((2, 18, 6, 5)), numbers((18, 1, 4, 4), seed=1), numbers((18,), seed=2)
    options = {"stride": 2, "padding": 1, "groups": 18}
    a = upload(x, memory_format)
    found = ops.conv_transpose2d(a, cp.asarray(w), cp.asarray(bias), **options)
    equal(found, reference.conv_transpose2d(x, w, bias, **options))
    two = numbers((18, 2, 4, 4), seed=3)
    equal(
        ops.conv_transpose2d(a, cp.asarray(two), **options),
        reference.conv_transpose2d(x, two, **options),
    )


@pytest.mark.parametrize("place", PLACES)
def test_any_strides(device, place):
    options = {"stride": 2, "padding": 1}
    x, a = PLACES[place](numbers((2, 6, 5, 7)))
    w, b = PLACES[place](numbers((6, 9, 3, 3), seed=1))
    equal(ops.conv_transpose2d(a, b, **options), reference.conv_transpose2d(x, w, **options))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_nothing_to_convolve(device, memory_format):
    w, bias = numbers((6, 9, 3, 3)), numbers((9,), seed=1)
    x = cp.zeros((0, 6, 5, 7), memory_format=memory_format)
    found = ops.conv_transpose2d(x, cp.asarray(w), stride=2)
    equal(found, np.zeros((0, 9, 11, 15)), np.float32)
    # Strides beyond the kernel leave gaps that no input reaches: the bias alone.
    x = numbers((1, 6, 2, 3))
    found = ops.conv_transpose2d(
        upload(x, memory_format), cp.asarray(w), cp.asarray(bias), stride=5
    )
    expected = reference.conv_transpose2d(x, w, bias, stride=5)
    equal(found, expected)
    assert (expected[:, :, 3] == bias[:, None]).all()


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_dtypes(device, dtype, memory_format):
    draw = np.random.default_rng(0).standard_normal
    x, w, bias = (draw(s).astype(dtype) for s in ((2, 20, 5, 6), (20, 9, 4, 4), (9,)))
    options = {"stride": 2, "padding": 1}
    exact = reference.conv_transpose2d(x, w, bias, **options)
    size = reference.conv_transpose2d(*(np.abs(np.float64(h)) for h in (x, w, bias)), **options)
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
    found = ops.conv_transpose2d(a, b, c, **options)
    check_close(found, exact, size, 20 * 4 + 1, dtype)
    assert same_bits(ops.conv_transpose2d(a, b, c, **options), found)


def test_it_is_the_gradient_of_a_convolution(device):
    x, w = numbers((2, 6, 5, 7)), numbers((6, 9, 3, 3), seed=1)
    a, b = cp.asarray(x), cp.asarray(w)
    found = ops.conv_transpose2d(a, b, stride=2, padding=1, output_padding=1)
    same = ops.conv2d_input(found.shape, b, a, stride=2, padding=1)
    equal(same, found.get())


def test_against_pytorch(device):
    torch = pytest.importorskip("torch")
    x, w, bias = numbers((2, 6, 5, 7)), numbers((6, 4, 3, 3), seed=1), numbers((8,), seed=2)
    options = {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2, "dilation": 2}
    theirs = torch.nn.functional.conv_transpose2d(*map(torch.from_numpy, (x, w, bias)), **options)
    for memory_format in FORMATS:
        found = ops.conv_transpose2d(
            upload(x, memory_format), cp.asarray(w), cp.asarray(bias), **options
        )
        equal(found, theirs.numpy())


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
def test_small(device, memory_format):
    x, w, bias = numbers((1, 4, 3, 4)), numbers((4, 3, 3, 2), seed=1), numbers((6,), seed=2)
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}
    found = ops.conv_transpose2d(
        upload(x, memory_format), cp.asarray(w), cp.asarray(bias), **options
    )
    equal(found, reference.conv_transpose2d(x, w, bias, **options))
