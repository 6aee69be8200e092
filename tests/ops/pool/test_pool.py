"""Pooling, forward and backward, against PyTorch."""

import numpy as np
import pytest
from support import BFLOAT16, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

FORMATS = ["contiguous", "channels_last"]


def image(shape, memory_format="contiguous", dtype=np.float32, seed=0):
    """Whole numbers, equal ones among them, on the device and as a tensor of float64."""
    a = numbers(shape, dtype, seed=seed)
    return cp.asarray(a, memory_format=memory_format), torch.tensor(a.astype(np.float64))


def check(found, expected, x=None, exact=True):
    assert found.shape == tuple(expected.shape)
    if x is not None and x.ndim == 4:
        wanted = [np.argsort(s.strides, kind="stable").tolist() for s in (found, x)]
        assert 1 in found.shape or wanted[0] == wanted[1]
    a, b = found.get().astype(np.float64), expected.detach().numpy()
    if exact:
        np.testing.assert_array_equal(a, b)
    else:
        # Of float32 eight roundings: powers of a window are added up, and a root is taken.
        unit = {2: 2.0**-8}.get(found.dtype.itemsize, 2.0**-21)
        np.testing.assert_allclose(a, b, rtol=unit, atol=unit)


def gradient(function, t, *args, **options):
    """PyTorch's gradient of the sum of g · function, and g, of whole numbers."""
    t = t.clone().requires_grad_()
    y = function(t, *args, **options)
    y = y[0] if isinstance(y, tuple) else y
    g = torch.tensor(numbers(tuple(y.shape), np.float64, seed=3))
    y.backward(g)
    return g, t.grad


MAX = [
    ((2, 3, 9, 11), (3, 2, 1)),
    ((2, 3, 9, 11), ((2, 3), (3, 1), (1, 0), (2, 1), True)),
    ((3, 8, 7), (2, None, 0, 1, True)),
]


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(("shape", "args"), MAX, ids=str)
def test_max_pool2d(device, shape, args, memory_format):
    if len(shape) == 3 and memory_format == "channels_last":
        pytest.skip("has no channels-last format")
    x, t = image(shape, memory_format)
    y, indices = ops.max_pool2d(x, *args, return_indices=True)
    expected, chosen = F.max_pool2d(t, *args, return_indices=True)
    check(y, expected, x)
    check(indices, chosen, x)
    check(ops.max_pool2d(x, *args), expected, x)
    g, dx = gradient(F.max_pool2d, t, *args)
    grad = cp.asarray(g.numpy().astype(np.float32))
    check(ops.max_pool2d_backward(grad, x, *args, indices=indices), dx, x)
    check(ops.max_pool2d_backward(grad, x, *args), dx, x)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, BFLOAT16, np.int8, np.uint64, bool])
def test_max_pool_of_other_dtypes(device, dtype):
    a = numbers((1, 2, 6, 5), dtype)
    y = ops.max_pool2d(cp.asarray(a), 3, 2, 1)
    assert y.dtype == np.dtype(dtype)
    check(y, F.max_pool2d(torch.tensor(a.astype(np.float64)), 3, 2, 1))


def test_max_pool_of_nan_and_infinities(device):
    a = np.full((1, 1, 5, 6), -np.inf, np.float32)
    a[0, 0, 1, 2], a[0, 0, 4, 0], a[0, 0, 3, 5] = np.nan, np.inf, 7
    t = torch.tensor(a)
    for dilation in (1, 2):
        y, indices = ops.max_pool2d(cp.asarray(a), 2, 1, 1, dilation, return_indices=True)
        expected, chosen = F.max_pool2d(t, 2, 1, 1, dilation, return_indices=True)
        np.testing.assert_array_equal(y.get(), expected)
        np.testing.assert_array_equal(indices.get(), chosen)


def test_max_pool_in_one_and_three_dimensions(device):
    x, t = image((2, 3, 14))
    check(ops.max_pool1d(x, 3, 2, 1), F.max_pool1d(t, 3, 2, 1))
    g, dx = gradient(F.max_pool1d, t, 3, 2, 1)
    check(ops.max_pool1d_backward(cp.asarray(g.numpy().astype("f")), x, 3, 2, 1), dx)
    x, t = image((2, 3, 5, 6, 7))
    y, indices = ops.max_pool3d(x, (2, 3, 2), 2, (1, 1, 0), return_indices=True)
    expected, chosen = F.max_pool3d(t, (2, 3, 2), 2, (1, 1, 0), return_indices=True)
    check(y, expected)
    check(indices, chosen)
    g, dx = gradient(F.max_pool3d, t, (2, 3, 2), 2, (1, 1, 0))
    grad = cp.asarray(g.numpy().astype("f"))
    check(ops.max_pool3d_backward(grad, x, (2, 3, 2), 2, (1, 1, 0), indices=indices), dx)


AVG = [
    ((2, 3, 9, 11), (3, 2, 1), {}),
    ((2, 3, 9, 11), ((2, 3), (2, 1), (1, 1), True, False), {}),
    ((2, 3, 8, 8), (2,), {}),
    ((3, 8, 7), (3, 2, 1, True), {"divisor_override": 5}),
]


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(("shape", "args", "options"), AVG, ids=str)
def test_avg_pool2d(device, shape, args, options, memory_format):
    if len(shape) == 3 and memory_format == "channels_last":
        pytest.skip("has no channels-last format")
    x, t = image(shape, memory_format)
    check(ops.avg_pool2d(x, *args, **options), F.avg_pool2d(t, *args, **options), x, exact=False)
    g, dx = gradient(F.avg_pool2d, t, *args, **options)
    grad = cp.asarray(g.numpy().astype(np.float32))
    check(ops.avg_pool2d_backward(grad, x, *args, **options), dx, x, exact=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, BFLOAT16])
def test_avg_pool_of_other_dtypes(device, dtype):
    a = numbers((1, 2, 6, 5), dtype)
    y = ops.avg_pool2d(cp.asarray(a), 3, 2, 1)
    assert y.dtype == np.dtype(dtype)
    check(y, F.avg_pool2d(torch.tensor(a.astype(np.float64)), 3, 2, 1), exact=False)


def test_avg_pool_in_one_and_three_dimensions(device):
    x, t = image((2, 3, 14))
    check(ops.avg_pool1d(x, 3, 2, 1), F.avg_pool1d(t, 3, 2, 1), exact=False)
    g, dx = gradient(F.avg_pool1d, t, 3, 2, 1)
    grad = cp.asarray(g.numpy().astype("f"))
    check(ops.avg_pool1d_backward(grad, x, 3, 2, 1), dx, exact=False)
    x, t = image((2, 3, 5, 6, 7))
    args = ((2, 3, 2), 2, (1, 1, 0))
    check(ops.avg_pool3d(x, *args), F.avg_pool3d(t, *args), exact=False)
    g, dx = gradient(F.avg_pool3d, t, *args)
    grad = cp.asarray(g.numpy().astype("f"))
    check(ops.avg_pool3d_backward(grad, x, *args), dx, exact=False)


def test_what_is_outside_of_a_window_does_not_leak(device):
    a = np.ones((1, 1, 4, 5), np.float32)
    a[..., 0, 0], a[..., 3, 4] = np.nan, np.inf
    y = ops.avg_pool2d(cp.asarray(a), 3, 1, 1).get()
    np.testing.assert_array_equal(y, F.avg_pool2d(torch.tensor(a), 3, 1, 1))


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("size", [(3, 4), 1, (7, None)], ids=str)
def test_adaptive_pools(device, size, memory_format):
    x, t = image((2, 5, 7, 9), memory_format)
    size_ = (7, 9) if size == (7, None) else size
    check(ops.adaptive_avg_pool2d(x, size), F.adaptive_avg_pool2d(t, size_), x, exact=False)
    g, dx = gradient(F.adaptive_avg_pool2d, t, size_)
    grad = cp.asarray(g.numpy().astype("f"))
    check(ops.adaptive_avg_pool2d_backward(grad, x), dx, x, exact=False)
    y, indices = ops.adaptive_max_pool2d(x, size, return_indices=True)
    expected, chosen = F.adaptive_max_pool2d(t, size_, return_indices=True)
    check(y, expected, x)
    check(indices, chosen, x)
    check(ops.adaptive_max_pool2d(x, size), expected, x)
    g, dx = gradient(F.adaptive_max_pool2d, t, size_)
    grad = cp.asarray(g.numpy().astype("f"))
    check(ops.adaptive_max_pool2d_backward(grad, x, indices), dx, x)


def test_adaptive_pools_of_channels_last_keep_the_format(device):
    x, _ = image((2, 5, 7, 9), "channels_last")
    assert ops.adaptive_avg_pool2d(x, 1).strides == (20, 4, 20, 20)


def test_adaptive_pools_in_one_and_three_dimensions(device):
    x, t = image((3, 14))
    check(ops.adaptive_avg_pool1d(x, 4), F.adaptive_avg_pool1d(t, 4), exact=False)
    check(ops.adaptive_max_pool1d(x, 4), F.adaptive_max_pool1d(t, 4))
    x, t = image((2, 2, 4, 5, 6))
    check(ops.adaptive_avg_pool3d(x, 3), F.adaptive_avg_pool3d(t, 3), exact=False)
    check(ops.adaptive_max_pool3d(x, (2, 3, 1)), F.adaptive_max_pool3d(t, (2, 3, 1)))
    g, dx = gradient(F.adaptive_avg_pool3d, t, 3)
    grad = cp.asarray(g.numpy().astype("f"))
    check(ops.adaptive_avg_pool3d_backward(grad, x), dx, exact=False)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(device, p):
    x, t = image((2, 3, 7, 8))
    x, t = x * x, t * t
    for args in [(2,), (3, 2, True)]:
        check(ops.lp_pool2d(x, p, *args), F.lp_pool2d(t, p, *args), exact=False)
    check(ops.lp_pool1d(x[0], p, 3), F.lp_pool1d(t[0], p, 3), exact=False)
    check(ops.lp_pool3d(x, p, 2), F.lp_pool3d(t, p, 2), exact=False)


PAIRS = [((3, 2), (2, 1), ((1, 2), (0, 1)), 1), ((2, 3), 1, ((0, 2), (3, 1)), (3, 2))]


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize(("size", "stride", "pads", "dilation"), PAIRS, ids=str)
def test_pools_of_borders_before_and_behind(device, size, stride, pads, dilation, up):
    a = np.random.default_rng(1).standard_normal((2, 3, 8, 9)).astype("f")
    x, t = cp.asarray(a), torch.tensor(a.astype(float))
    steps, apart = (v if isinstance(v, tuple) else (v, v) for v in (stride, dilation))
    around = [n for pair in pads[::-1] for n in pair]
    more = [0, 0, 0, 0]
    if up:  # what a last window needs beyond the border
        for d in (0, 1):
            n = a.shape[2 + d] + sum(pads[d])
            rest = n - (size[d] - 1) * apart[d] - 1
            more[3 - 2 * d] = (
                -rest % steps[d] if n - pads[d][1] > -(-rest // steps[d]) * steps[d] else 0
            )

    def taken(values, fill):
        wide = F.pad(F.pad(values, around, value=fill), more, value=fill)
        columns = F.unfold(wide, size, apart, 0, steps).reshape(6, size[0] * size[1], -1)
        h, w = ((wide.shape[2 + d] - (size[d] - 1) * apart[d] - 1) // steps[d] + 1 for d in (0, 1))
        return columns.reshape(2, 3, size[0] * size[1], h, w)

    given = {"padding": pads, "dilation": dilation, "ceil_mode": up}
    where = torch.arange(72.0, dtype=torch.float64).reshape(1, 1, 8, 9).expand(2, 3, 8, 9)
    windows = taken(t, 0)
    inside = taken(torch.ones_like(t), 0)
    greatest, chosen = torch.where(inside > 0, windows, -torch.inf).max(2)
    y, indices = ops.max_pool2d(x, size, stride, return_indices=True, **given)
    check(y, greatest, exact=False)
    check(indices, taken(where, 0).gather(2, chosen[:, :, None])[:, :, 0])
    mean = ops.avg_pool2d(x, size, stride, count_include_pad=False, **given)
    check(mean, windows.sum(2) / inside.sum(2), exact=False)
    padded = F.pad(torch.ones(1, 1, 8, 9, dtype=torch.float64), around, value=1.0)
    columns = F.unfold(F.pad(padded, more), size, apart, 0, steps).sum(1)
    counted = columns.reshape(1, 1, *greatest.shape[2:])
    mean = ops.avg_pool2d(x, size, stride, count_include_pad=True, **given)
    check(mean, windows.sum(2) / counted, exact=False)
    for p in (1, 2, 3.0):
        norm = windows.abs().pow(p).sum(2).pow(1 / p)
        check(ops.lp_pool2d(x, p, size, stride, absolute=True, **given), norm, exact=False)


def test_gradients_of_borders_before_and_behind(device):
    a = np.random.default_rng(1).standard_normal((1, 2, 8, 9)).astype("f")
    x = cp.asarray(a)
    size, stride, pads, dilation = PAIRS[1]
    given = {"padding": pads, "dilation": dilation}
    calls = [
        (ops.max_pool2d, ops.max_pool2d_backward, (), {}),
        (ops.avg_pool2d, ops.avg_pool2d_backward, (), {"count_include_pad": False}),
        *((ops.lp_pool2d, ops.lp_pool2d_backward, (p,), {"absolute": True}) for p in (1, 2, 3)),
    ]
    for call, back, before, more in calls:
        y = call(x, *before, size, stride, **given, **more)
        g = np.random.default_rng(2).standard_normal(y.shape).astype("f")
        found = back(cp.asarray(g), x, *before, size, stride, **given, **more).get()
        for place in [(0, 0, 0, 0), (0, 1, 3, 4), (0, 1, 7, 8)]:
            ends = []
            for step in (1e-3, -1e-3):
                b = a.astype(float)
                b[place] += step
                options = {**given, **more}
                ends.append((call(cp.asarray(b), *before, size, stride, **options).get() * g).sum())
            slope = (ends[0] - ends[1]) / 2e-3
            np.testing.assert_allclose(found[place], slope, rtol=1e-3, atol=1e-4)


def test_max_unpool(device):
    x, t = image((2, 3, 9, 10))
    for args in [(2,), (3, 2, 1)]:
        y, indices = ops.max_pool2d(x, *args, return_indices=True)
        expected, chosen = F.max_pool2d(t, *args, return_indices=True)
        back = F.max_unpool2d(expected, chosen, *args, output_size=t.shape)
        check(ops.max_unpool2d(y, indices, *args, output_size=x.shape), back)
        check(ops.max_unpool2d(y, indices, *args, output_size=(9, 10)), back)
    for n, shape in ((1, (2, 3, 9)), (3, (2, 2, 4, 6, 5))):
        x3, t3 = image(shape)
        name = f"max_pool{n}d"
        y, indices = getattr(ops, name)(x3, 2, return_indices=True)
        expected, chosen = getattr(F, name)(t3, 2, return_indices=True)
        unpool = {1: ops.max_unpool1d, 3: ops.max_unpool3d}[n]
        back = getattr(F, f"max_unpool{n}d")(expected, chosen, 2, output_size=shape)
        check(unpool(y, indices, 2, output_size=shape), back)
    y, indices = ops.max_pool2d(x, 2, return_indices=True)
    assert ops.max_unpool2d(y, indices, 2).shape == (2, 3, 8, 10)


def test_views_and_results_into_memory_that_is_there(device):
    a = numbers((2, 6, 9, 22), np.float32)
    x, t = cp.asarray(a)[:, ::2, ::-1, 1::2], torch.tensor(a[:, ::2, ::-1, 1::2].astype(float))
    expected = F.max_pool2d(t, 2)
    y = cp.zeros((2, 3, 4, 10))[..., ::2]
    assert ops.max_pool2d(x, 2, out=y) is y
    check(y, expected)
    with pytest.raises(cp.ShapeError, match="overlaps"):
        ops.max_pool2d(x, 1, out=x)


def test_no_images(device):
    x = cp.zeros((0, 3, 6, 6))
    assert ops.max_pool2d(x, 2).shape == (0, 3, 3, 3)
    assert ops.avg_pool2d(x, 2).shape == (0, 3, 3, 3)
    assert ops.adaptive_avg_pool2d(x, 1).shape == (0, 3, 1, 1)


def test_the_same_bits_every_time(device):
    x = cp.asarray(np.random.default_rng(0).standard_normal((2, 3, 16, 17)).astype("f"))
    g = cp.asarray(np.random.default_rng(1).standard_normal((2, 3, 8, 9)).astype("f"))
    first = ops.max_pool2d_backward(g, x, 3, 2, 1).get()
    for _ in range(3):
        np.testing.assert_array_equal(ops.max_pool2d_backward(g, x, 3, 2, 1).get(), first)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.max_pool2d(x[0, 0], 2), "ShapeError", "expected x of 4 dimensions"),
        (lambda x: ops.max_pool2d(x, (1, 2, 3)), "ShapeError", r"kernel_size=\(1, 2, 3\)"),
        (lambda x: ops.max_pool2d(x, 0), "ShapeError", "kernel_size=0: expected a number or 2"),
        (lambda x: ops.max_pool2d(x, 2, 1, 2), "ShapeError", "more than half of kernel_size=2"),
        (
            lambda x: ops.max_pool2d(x, 2, 1, ((1, 2), (0, 0))),
            "ShapeError",
            "as wide as kernel",
        ),
        (lambda x: ops.max_pool2d(x, 9), "ShapeError", "has no window"),
        (lambda x: ops.max_pool2d(x, 2.0), "ShapeError", "kernel_size=2.0"),
        (lambda x: ops.max_pool2d(x.get(), 2), "DTypeError", "cp.asarray"),
        (lambda x: ops.avg_pool2d(x.astype(np.int32), 2), "DTypeError", "floating dtype"),
        (lambda x: ops.avg_pool2d(x, 2, divisor_override=0), "ShapeError", "divisor_override=0"),
        (lambda x: ops.avg_pool2d_backward(x, x, 2), "ShapeError", r"expected \(1, 2, 3, 3\)"),
        (lambda x: ops.max_pool2d_backward(x[..., ::2, ::2], x, 2, indices=x), "DTypeError", "64"),
        (lambda x: ops.adaptive_avg_pool2d(x, 0), "ShapeError", "output_size=0"),
        (lambda x: ops.adaptive_max_pool2d(x, (1, 2, 3)), "ShapeError", "output_size="),
        (lambda x: ops.max_unpool2d(x, x, 2), "DTypeError", "indices of int64"),
        (
            lambda x: ops.max_unpool2d(x, x.astype(np.int64), 2, output_size=(99, 12)),
            "ShapeError",
            "less than a stride",
        ),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((1, 2, 6, 6)))


LP = [((2, 3, 9, 8), (2.0, (3, 2), (2, 1))), ((3, 7, 8), (3.5, 3, 2, True)), ((2, 4, 9), (1, 2))]


@pytest.mark.parametrize(("shape", "args"), LP, ids=str)
def test_the_gradient_of_p_norms(device, shape, args):
    x = np.random.default_rng(0).uniform(0.5, 2, shape).astype(np.float32)
    ndim = 1 if args[0] == 1 else 2
    theirs = {1: F.lp_pool1d, 2: F.lp_pool2d}[ndim]
    ours = {1: ops.lp_pool1d_backward, 2: ops.lp_pool2d_backward}[ndim]
    g, expected = gradient(theirs, torch.tensor(x.astype(np.float64)), *args)
    grad = cp.asarray(g.numpy().astype(np.float32))
    a = cp.asarray(x)
    found = ours(grad, a, *args)
    np.testing.assert_allclose(found.get(), expected.numpy(), rtol=2e-5, atol=2e-5)
    assert not ours(grad, a * 0, *args).get().any()


def test_the_gradient_of_what_is_put_back(device):
    x, t = image((2, 3, 8, 6), "channels_last")
    _, indices = ops.max_pool2d(x, 2, return_indices=True)
    z, chosen = F.max_pool2d(t, 2, return_indices=True)
    g, expected = gradient(F.max_unpool2d, z, chosen, 2)
    grad = cp.asarray(g.numpy().astype(np.float32))
    check(ops.max_unpool2d_backward(grad, indices), expected)
    line, there = image((3, 9), seed=1)[0], np.array([[8, 0], [5, 2], [-1, 9]])
    found = ops.max_unpool1d_backward(line, cp.asarray(there)).get()
    np.testing.assert_array_equal(found[:2], np.take_along_axis(line.get()[:2], there[:2], 1))
    assert not found[2].any()
    with pytest.raises(cp.ShapeError, match="indices have shape"):
        ops.max_unpool2d_backward(grad[:1], indices)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_epilogues(device, memory_format):
    x, t = image((2, 3, 9, 8), memory_format)
    bias = numbers((3, 1, 1), seed=5)
    text = {"epilogue": "y0 = max(y0 + x0, 0);", "epilogue_args": (cp.asarray(bias),)}
    b = torch.tensor(bias.astype(np.float64))
    check(ops.max_pool2d(x, 3, 2, 1, **text), F.relu(F.max_pool2d(t, 3, 2, 1) + b), x)
    y, indices = ops.max_pool2d(x, 3, 2, 1, return_indices=True, **text)
    expected, chosen = F.max_pool2d(t, 3, 2, 1, return_indices=True)
    check(y, F.relu(expected + b), x)
    check(indices, chosen, x)
    found = ops.avg_pool2d(x, (2, 4), 1, (0, 1), False, False, **text)
    check(found, F.relu(F.avg_pool2d(t, (2, 4), 1, (0, 1), False, False) + b), x, exact=False)
    for name, args in [("adaptive_avg_pool2d", (1,)), ("adaptive_avg_pool2d", ((4, 3),)),
                       ("adaptive_max_pool2d", ((4, 3),)), ("lp_pool2d", (2, 3, 2, True)),
                       ("lp_pool2d", (3, 3, 2))]:  # fmt: skip
        expected = F.relu(getattr(F, name)(t.abs(), *args) + b)
        found = getattr(ops, name)(ops.abs(x), *args, **text)
        check(found, expected, x, exact=False)
        out = cp.empty(found.shape)
        scaled = {"epilogue": "y0 = y0 * w0 + x0;", "epilogue_args": (x[:1, :, :1, :1], 2.5)}
        assert getattr(ops, name)(ops.abs(x), *args, out=out, **scaled) is out
        check(out, getattr(F, name)(t.abs(), *args) * 2.5 + t[:1, :, :1, :1], exact=False)
        with pytest.raises(cp.DefinitionError, match=f"{name} epilogue"):
            getattr(ops, name)(x, *args, epilogue="y0 = z;")
    y, indices = ops.adaptive_max_pool2d(x, (4, 3), True, **text)
    expected, chosen = F.adaptive_max_pool2d(t, (4, 3), True)
    check(y, F.relu(expected + b), x)
    check(indices, chosen, x)
    y, indices = cp.empty(y.shape), cp.empty(y.shape, np.int64)
    ops.adaptive_max_pool2d(x, (4, 3), True, out=(y, indices))
    check(y, expected)
    check(indices, chosen)
    with pytest.raises(cp.DefinitionError, match="max_pool2d epilogue"):
        ops.max_pool2d(x, 2, epilogue="y0 = z;")
    with pytest.raises(cp.ShapeError, match="does not broadcast"):
        ops.avg_pool2d(x, 2, epilogue="y0 = x0;", epilogue_args=x)


@pytest.mark.parametrize(
    ("call", "settings"),
    [
        (ops.max_pool2d, [(3, s, p, 1, up) for s in (1, 2, 5) for p in (0, 1) for up in (0, 1)]),
        (ops.max_pool2d, [(3, 1, 1, 2), (3, 2, 0, 3), (3, 3, ((1, 0),) * 2, 2)]),
        (ops.avg_pool2d, [(3, 2, p, up) for p in (1, ((0, 1), (1, 0))) for up in (0, 1)]),
        (ops.unfold, [(3, d, p, s) for d in (1, 2) for p in (0, 1, 2) for s in (1, 2, 3)]),
        (lambda x, *args: ops.fold(ops.unfold(x, *args), (13, 12), *args),
         [(3, 1, p, 2) for p in (0, 1, ((2, 0), (0, 1)))]),
    ],
    ids=["max", "dilated", "avg", "unfold", "fold"],
)  # fmt: skip
def test_other_settings_compile_nothing(device, call, settings):
    x, _ = image((2, 3, 13, 12))
    call(x, *settings[0])
    before = cp.stats()
    for args in settings[1:]:
        call(x, *args)
    built = cp.stats() - before
    assert built.builds + built.disk_hits == 0
