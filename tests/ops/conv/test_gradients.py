"""Gradients of `ops.conv2d`: adjoint identities in whole numbers, a reference, and PyTorch."""

from functools import partial

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FACTORS, FORMATS, PAIRS, THREES, algorithms, make_case, upload
from conv_reference import check_close
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_memory import PLACES
from support import BFLOAT16, Guard, equal, numbers, same_bits, wide

import clprim as cp
from clprim import ops

REALS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]


def inner(a, b):
    """The sum of all products, exact."""
    products = wide(a) * wide(b)
    return int(products.sum())


def uploaded(case, dtype=np.float32):
    """Input, weights and gradient of a case, on the host and on the device."""
    x, w, _ = case.operands(dtype)
    grad = numbers(case.y_shape, dtype, seed=7)
    a, g = upload(x, case.memory_format), upload(grad, case.memory_format)
    return (x, w, grad), (a, cp.asarray(w), g)


def check(case, names=None, dtype=np.float32):
    """Runs both gradients of a case, by its own strategy or by several, against the reference."""
    (x, w, grad), (a, b, g) = uploaded(case, dtype)
    flows = wide(reference.conv2d_input(x.shape, w, grad, **case.options).astype(dtype))
    weights = wide(reference.conv2d_weight(x, w.shape, grad, **case.options).astype(dtype))
    for name in names or [case.strategy]:
        where = f"{case}, {name}"
        found = ops.conv2d_input(x.shape, b, g, **case.options, algorithm=name)
        assert (found.shape, found.dtype) == (x.shape, x.dtype)
        np.testing.assert_array_equal(wide(found.get()), flows, err_msg=f"input, {where}")
        found = ops.conv2d_weight(a, w.shape, g, **case.options, algorithm=name)
        assert (found.shape, found.dtype) == (w.shape, w.dtype)
        np.testing.assert_array_equal(wide(found.get()), weights, err_msg=f"weight, {where}")


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("kernel", FACTORS["kernel"], ids=str)
def test_factors_in_every_combination(device, some, kernel):
    # Half of the pairs; the next test has the others.
    for row in some(PAIRS[::2], 7) + some(THREES[::6], 7):
        if row["kernel"] == kernel:
            check(make_case(**row))


@pytest.mark.usefixtures("unoptimised")
def test_a_gradient_is_an_adjoint(device, some):
    # ⟨conv(x, w), g⟩ = ⟨x, input(w, g)⟩ = ⟨w, weight(x, g)⟩, without a reference.
    for row in some(PAIRS[1::2], 8):
        case = make_case(**row)
        (x, w, grad), (a, b, g) = uploaded(case)
        how = {**case.options, "algorithm": case.strategy}
        # With a bias of zeros, for which the tests of `conv2d` compile the same kernel.
        product = inner(ops.conv2d(a, b, cp.zeros(len(w)), **how).get(), grad)
        flows = ops.conv2d_input(x.shape, b, g, **how)
        weights = ops.conv2d_weight(a, w.shape, g, **how)
        assert (inner(x, flows.get()), inner(w, weights.get())) == (product, product), str(case)


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
def test_any_gradient(device, some, memory_format):
    """Drawn, the same ones every time: what the grid does not have."""
    pairs = st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 4), st.integers(1, 4)))
    pads = st.one_of(st.tuples(*[st.integers(0, 5)] * 4), st.tuples(*[st.integers(0, 4)] * 2))

    @settings(max_examples=len(some(range(12), 3)), derandomize=True, deadline=None)
    @given(
        n=st.integers(1, 3),
        groups=st.sampled_from([1, 1, 2, 3]),
        channels=st.integers(1, 20),
        outputs=st.integers(1, 20),
        kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
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
        grad = numbers(reference.out_shape(x.shape, w.shape, stride, padding, dilation), seed=3)
        a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
        name = data.draw(st.sampled_from(["auto", *algorithms(a, b, **options)]))
        found = ops.conv2d_input(x.shape, b, g, **options, algorithm=name)
        equal(found, reference.conv2d_input(x.shape, w, grad, **options))
        found = ops.conv2d_weight(a, w.shape, g, **options, algorithm=name)
        equal(found, reference.conv2d_weight(x, w.shape, grad, **options))

    run()


@pytest.mark.parametrize("memory_format", FORMATS)
def test_inputs_that_no_output_reads_get_no_gradient(device, memory_format):
    # A stride beyond the kernel skips rows and columns; the last ones are left over.
    w, grad = numbers((18, 5, 2, 2), seed=1, low=1), numbers((1, 18, 3, 3), seed=2, low=1)
    expected = reference.conv2d_input((1, 5, 11, 12), w, grad, stride=4)
    assert not expected[:, :, 2:4].any()
    assert not expected[..., 10:].any()
    g = upload(grad, memory_format)
    equal(ops.conv2d_input((1, 5, 11, 12), cp.asarray(w), g, stride=4), expected)
    out = upload(np.full(expected.shape, np.nan, np.float32), memory_format)
    found = ops.conv2d_input((1, 5, 11, 12), cp.asarray(w), g, stride=4, out=out)
    assert found is out
    equal(out, expected)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("shape", "w_shape"),
    [((8, 3, 40, 41), (5, 3, 3, 3)), ((2, 70, 9, 9), (65, 70, 3, 3))],
    ids=str,
)
def test_long_sums_and_large_batches(device, shape, w_shape, memory_format):
    # A gradient of the weights adds up over all positions of all images: the sum that is cut.
    x, w = numbers(shape, seed=1), numbers(w_shape, seed=2)
    grad = numbers(reference.out_shape(shape, w_shape), seed=3)
    a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
    weights = reference.conv2d_weight(x, w_shape, grad)
    flows = reference.conv2d_input(shape, w, grad)
    equal(ops.conv2d_input(shape, b, g), flows)
    for name in algorithms(a, b):
        equal(ops.conv2d_weight(a, w_shape, g, algorithm=name), weights)


# --- write and accumulate -------------------------------------------------------------------------

OPTIONS = {"stride": 2, "padding": (1, 0, 2, 1)}
SHAPE, WEIGHTS = (2, 5, 9, 12), (18, 5, 3, 3)


def operands(dtype=np.float32):
    x, w = numbers(SHAPE, dtype, seed=1), numbers(WEIGHTS, dtype, seed=2)
    y = reference.out_shape(SHAPE, WEIGHTS, **OPTIONS)
    return x, w, numbers(y, dtype, seed=3)


def both(memory_format, x, w, grad, **options):
    """Each gradient, by each strategy, as a function of `out=` and `beta=`; what it should be."""
    a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
    options = options or OPTIONS
    flows = reference.conv2d_input(x.shape, w, grad, **options)
    weights = reference.conv2d_weight(x, w.shape, grad, **options)
    pairs = []
    for name in algorithms(a, b, **options):
        how = {**options, "algorithm": name}
        pairs.append((partial(ops.conv2d_input, x.shape, b, g, **how), flows))
        pairs.append((partial(ops.conv2d_weight, a, w.shape, g, **how), weights))
    return pairs


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
def test_out_is_written_and_nothing_beside(device, memory_format):
    for gradient, expected in both(memory_format, *operands()):
        for step in (1, 2):
            out = Guard(expected.shape, step=step)
            assert gradient(out=out.array) is out.array
            out.check(expected)
        turned = Guard(tuple(expected.shape[d] for d in (0, 2, 3, 1)))
        gradient(out=turned.array.transpose(0, 3, 1, 2))
        turned.check(expected.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_what_is_there_is_not_read_when_written(device, memory_format):
    for gradient, expected in both(memory_format, *operands()):
        for beta in ({}, {"beta": 0}, {"beta": 0.0}):
            for out_format in FORMATS:
                out = cp.full(expected.shape, np.nan, np.float32, memory_format=out_format)
                gradient(out=out, **beta)
                equal(out, expected)


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("beta", [1, 0.5, -2])
def test_accumulate(device, beta, memory_format):
    for gradient, expected in both(memory_format, *operands()):
        old = numbers(expected.shape, seed=5)
        for out_format in FORMATS:
            out = upload(old, out_format)
            assert gradient(out=out, beta=beta) is out
            equal(out, expected + beta * old)
        once, twice = upload(old, memory_format), upload(old, memory_format)
        gradient(out=once, beta=beta)
        gradient(out=twice, beta=beta)
        assert same_bits(once, twice)


def test_accumulating_parts_of_a_batch_is_the_whole(device):
    x, w, grad = operands()
    expected = reference.conv2d_weight(x, w.shape, grad, **OPTIONS)
    for memory_format in FORMATS:
        a, g = upload(x, memory_format), upload(grad, memory_format)
        out = cp.zeros(w.shape)
        for n in range(2):
            ops.conv2d_weight(a[n : n + 1], w.shape, g[n : n + 1], **OPTIONS, out=out, beta=1)
        equal(out, expected)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_same_bits_on_every_run(device, memory_format):
    draw = np.random.default_rng(0).standard_normal
    x, w = (draw(s).astype(np.float32) for s in ((4, 19, 20, 21), (17, 19, 3, 3)))
    grad = draw((4, 17, 20, 21)).astype(np.float32)
    for gradient, _ in both(memory_format, x, w, grad, padding=1):
        first = gradient()
        for _ in range(4):
            assert same_bits(gradient(), first)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_any_strides(device, place):
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)):  # as NCHW, and as NHWC
        back = np.argsort(order)

        def placed(host, order=order, back=back):
            h, d = PLACES[place](host.transpose(order))
            return h.transpose(back), d.transpose(*back.tolist())

        x, w, grad = operands()
        (x, a), (w, b), (grad, g) = placed(x), PLACES[place](w), placed(grad)
        expected = reference.conv2d_input(x.shape, w, grad, **OPTIONS)
        equal(ops.conv2d_input(x.shape, b, g, **OPTIONS), expected)
        expected = reference.conv2d_weight(x, w.shape, grad, **OPTIONS)
        equal(ops.conv2d_weight(a, w.shape, g, **OPTIONS), expected)


def test_input_and_gradient_in_different_formats(device):
    x, w, grad = operands()
    expected = reference.conv2d_weight(x, w.shape, grad, **OPTIONS)
    for x_format in FORMATS:
        for grad_format in FORMATS:
            a, g = upload(x, x_format), upload(grad, grad_format)
            equal(ops.conv2d_weight(a, w.shape, g, **OPTIONS), expected)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_nothing_to_add(device, memory_format):
    w = numbers((6, 5, 3, 3))
    x, g = (cp.zeros(s, memory_format=memory_format) for s in ((0, 5, 9, 8), (0, 6, 7, 6)))
    equal(ops.conv2d_weight(x, w.shape, g), np.zeros(w.shape), np.float32)
    equal(ops.conv2d_input(x.shape, cp.asarray(w), g), np.zeros(x.shape), np.float32)
    old = numbers(w.shape, seed=1)
    out = cp.asarray(old)
    ops.conv2d_weight(x, w.shape, g, out=out, beta=0.5)
    equal(out, 0.5 * old)
    equal(ops.conv2d_weight(x, w.shape, g, out=cp.full(w.shape, np.nan)), np.zeros(w.shape))


# --- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REALS[1:], ids=str)
def test_dtypes_are_exact_on_whole_numbers(device, some, dtype):
    for row in some(PAIRS[::18], 2):
        check(make_case(**row), dtype=dtype)


def test_dtypes_are_as_accurate_as_their_format(device, some):
    draw = np.random.default_rng(0).standard_normal
    for dtype, memory_format in some(list(zip(REALS, FORMATS * 2, strict=True)), 2):
        x, w = (draw(s).astype(dtype) for s in ((2, 13, 20, 21), (18, 13, 3, 3)))
        grad = draw((2, 18, 20, 21)).astype(dtype)
        sizes = both(memory_format, *(np.abs(np.float64(h)) for h in (x, w, grad)), padding=1)
        pairs = both(memory_format, x, w, grad, padding=1)
        # Strategies differ by dtype; the gradients in the input and in the weight take turns.
        for n, (gradient, exact) in enumerate(pairs):
            size = sizes[n % 2][1]
            terms = 18 * 9 if exact.shape == x.shape else 2 * 20 * 21
            check_close(gradient(), exact, size, terms, dtype)


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"padding": (2, 1), "dilation": 2},
        {"stride": (2, 1), "padding": 3, "groups": 2},
        {"padding": 1, "groups": 6},
    ],
    ids=str,
)
def test_against_pytorch(device, options, memory_format):
    torch = pytest.importorskip("torch")
    x, w = numbers((2, 6, 9, 11)), numbers((12, 6 // options.get("groups", 1), 3, 3), seed=1)
    bias = numbers((12,), seed=2)
    tensors = [torch.from_numpy(h).requires_grad_() for h in (x, w, bias)]
    y = torch.nn.functional.conv2d(*tensors, **options)
    grad = numbers(tuple(y.shape), seed=3)
    y.backward(torch.from_numpy(grad))
    a, b, g = upload(x, memory_format), cp.asarray(w), upload(grad, memory_format)
    equal(ops.conv2d(a, b, cp.asarray(bias), **options), y.detach().numpy())
    equal(ops.conv2d_input(x.shape, b, g, **options), tensors[0].grad.numpy())
    equal(ops.conv2d_weight(a, w.shape, g, **options), tensors[1].grad.numpy())
    equal(ops.sum(g, (0, 2, 3)), tensors[2].grad.numpy())


# --- other devices' strategies, and Oclgrind ------------------------------------------------------


def test_planned_for_other_devices(traits, some):
    names = ["panels" if traits.is_cpu else "tiles"]
    for row in some(PAIRS[:: 24 if traits.is_cpu else 12], 2):
        check(make_case(**row), names)


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("groups", [1, 2])
def test_small(traits, groups, memory_format):
    x, w = numbers((2, 4, 5, 6), seed=1), numbers((6, 4 // groups, 3, 2), seed=2)
    options = {"stride": 2, "padding": (1, 0, 2, 1), "groups": groups}
    grad = numbers(reference.out_shape(x.shape, w.shape, 2, (1, 0, 2, 1)), seed=3)
    for gradient, expected in both(memory_format, x, w, grad, **options):
        out = Guard(expected.shape, fill=3)
        gradient(out=out.array)
        out.check(expected)
        gradient(out=out.array, beta=2)
        out.check(3 * expected)
