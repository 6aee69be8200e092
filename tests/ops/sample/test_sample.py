"""Images in another size and at the positions of a grid, against PyTorch."""

import numpy as np
import pytest
from support import BFLOAT16, equal, numbers, same_bits

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

FORMATS = ["contiguous", "channels_last"]
# Weights are products of a few factors, each rounded, and results sums of up to 16 of them.
TOLERANCE = 64 * 2.0**-24


def image(shape, dtype=np.float32, seed=0, memory_format=None):
    a = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return a, cp.asarray(a, memory_format=memory_format)


def close(found, expected, tolerance=TOLERANCE):
    expected = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    assert found.shape == expected.shape
    a = found.get().astype(np.float64)
    np.testing.assert_allclose(a, expected, rtol=tolerance, atol=8 * tolerance)


def lies_as(x, memory_format):
    """Checks strides, but of dimensions of one element, which do not matter."""
    wanted = cp.empty(x.shape, memory_format=memory_format).strides
    for n, found, expected in zip(x.shape, x.strides, wanted, strict=True):
        assert n == 1 or found == expected


RESIZED = [
    ("nearest", {}, {"size": (11, 5)}),
    ("nearest", {}, {"scale_factor": (0.6, 1.7)}),
    # As large, and twice as large: PyTorch's factors then are 1 and 2 (on its CPU).
    ("nearest", {}, {"scale_factor": (1.1, 2.1)}),
    ("nearest", {}, {"size": (40, 30)}),
    ("nearest-exact", {}, {"size": (3, 20)}),
    ("bilinear", {}, {"size": (11, 5)}),
    ("bilinear", {}, {"scale_factor": (0.6, 1.7)}),
    ("bilinear", {"recompute_scale_factor": True}, {"scale_factor": (0.6, 1.7)}),
    ("bilinear", {"align_corners": True}, {"size": (1, 13)}),
    ("bicubic", {}, {"scale_factor": 2}),
    ("bicubic", {"align_corners": True}, {"size": (5, 12)}),
    ("area", {}, {"size": (3, 4)}),
]


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(("mode", "options", "size"), RESIZED, ids=str)
def test_interpolate(device, mode, options, size, memory_format):
    a, x = image((2, 3, 7, 9), memory_format=memory_format)
    t = torch.tensor(a, requires_grad=True)
    expected = F.interpolate(t, mode=mode, **options, **size)
    y = ops.interpolate(x, mode=mode, **options, **size)
    close(y, expected)
    lies_as(y, memory_format)
    g = torch.tensor(numbers(tuple(expected.shape)))
    expected.backward(g)
    grad = cp.asarray(g.numpy(), memory_format=memory_format)
    dx = ops.interpolate_backward(grad, (2, 3, 7, 9), size.get("scale_factor"), mode, **options)
    close(dx, t.grad, 4 * TOLERANCE)
    lies_as(dx, memory_format)


@pytest.mark.parametrize(
    ("shape", "mode", "size"),
    [
        ((2, 3, 9), "linear", {"size": 14}),
        ((2, 3, 9), "nearest", {"scale_factor": 0.5}),
        ((2, 3, 9), "area", {"size": 4}),
        ((1, 2, 4, 5, 6), "trilinear", {"size": (7, 3, 8)}),
        ((1, 2, 4, 5, 6), "nearest", {"scale_factor": 1.5}),
    ],
    ids=str,
)
def test_interpolate_of_other_dimensions(device, shape, mode, size):
    a, x = image(shape)
    t = torch.tensor(a, requires_grad=True)
    expected = F.interpolate(t, mode=mode, **size)
    close(ops.interpolate(x, mode=mode, **size), expected)
    g = torch.tensor(numbers(tuple(expected.shape)))
    expected.backward(g)
    found = ops.interpolate_backward(cp.asarray(g.numpy()), shape, size.get("scale_factor"), mode)
    close(found, t.grad, 4 * TOLERANCE)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias(device, mode):
    a, x = image((2, 3, 13, 17))
    for size in ({"size": (5, 6)}, {"scale_factor": 1.5}):
        expected = F.interpolate(torch.tensor(a), mode=mode, antialias=True, **size)
        close(ops.interpolate(x, mode=mode, antialias=True, **size), expected, 4 * TOLERANCE)


def test_interpolate_of_other_dtypes(device):
    for dtype in (np.uint8, np.int64, bool):
        a = numbers((1, 2, 3, 4), dtype)
        equal(ops.interpolate(cp.asarray(a), scale_factor=2), a.repeat(2, 2).repeat(2, 3), dtype)
    for dtype, unit in ((np.float16, 2.0**-11), (BFLOAT16, 2.0**-8), (np.float64, 2.0**-48)):
        a, x = image((1, 2, 5, 6), dtype)
        t = torch.tensor(a.astype(np.float64))
        y = ops.interpolate(x, (7, 9), mode="bilinear")
        assert y.dtype == np.dtype(dtype)
        close(y, F.interpolate(t, (7, 9), mode="bilinear"), unit)


def test_interpolate_of_views_into_memory_that_is_there(device):
    a, x = image((2, 6, 5, 12))
    part, view = a[:, ::2, ::-1, 1::2], x[:, ::2, ::-1, 1::2]
    y = cp.zeros((2, 3, 10, 24))[..., ::2]
    assert ops.interpolate(view, scale_factor=2, mode="bilinear", out=y) is y
    close(y, F.interpolate(torch.tensor(part.copy()), scale_factor=2, mode="bilinear"))


SAMPLED = [((2, 3, 6, 7), (2, 4, 5, 2), mode) for mode in ("bilinear", "nearest", "bicubic")] + [
    ((1, 2, 4, 5, 6), (1, 3, 4, 2, 3), "bilinear")
]


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("shape", "places", "mode"), SAMPLED, ids=str)
def test_grid_sample(device, shape, places, mode, padding):
    a, x = image(shape)
    g = 1.5 * np.random.default_rng(1).standard_normal(places).astype(np.float32)
    g.flat[:2] = (1e30, -1e12) if padding != "reflection" else (9, -11)
    for corners in (False, True):
        expected = F.grid_sample(torch.tensor(a), torch.tensor(g), mode, padding, corners)
        found = ops.grid_sample(x, cp.asarray(g), mode, padding, corners)
        # A position is a difference of numbers of the image's size.
        close(found, expected, 16 * TOLERANCE)


def test_a_grid_without_numbers_reads_zeros(device):
    x = cp.full((1, 1, 3, 3), 1.0)
    for value in (np.nan, np.inf):
        grid = cp.full((1, 2, 2, 2), value)
        for mode in ("bilinear", "nearest"):
            equal(ops.grid_sample(x, grid, mode), np.zeros((1, 1, 2, 2)))


def test_grid_sample_keeps_the_format(device):
    a, x = image((1, 4, 5, 6), memory_format="channels_last")
    g = np.random.default_rng(1).uniform(-1, 1, (1, 3, 2, 2)).astype(np.float32)
    y = ops.grid_sample(x, cp.asarray(g), align_corners=False)
    close(y, F.grid_sample(torch.tensor(a), torch.tensor(g), align_corners=False))
    assert y.strides == cp.empty(y.shape, memory_format="channels_last").strides


@pytest.mark.parametrize("ndim", [2, 3])
def test_affine_grid(device, ndim):
    size = (2, 3, *(4, 5, 6)[:ndim])
    a, theta = image((2, ndim, ndim + 1))
    for corners in (False, True):
        t = torch.tensor(a, requires_grad=True)
        expected = F.affine_grid(t, size, corners)
        close(ops.affine_grid(theta, size, corners), expected)
        g = torch.tensor(numbers(tuple(expected.shape)))
        expected.backward(g)
        found = ops.affine_grid_backward(cp.asarray(g.numpy()), size, corners)
        np.testing.assert_allclose(found.get(), t.grad.numpy(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (ops.interpolate, "ShapeError", "size or scale_factor"),
        (lambda x: ops.interpolate(x, 2, 2), "ShapeError", "size or scale_factor"),
        (lambda x: ops.interpolate(x, (1, 2, 3)), "ShapeError", "a number or 2"),
        (lambda x: ops.interpolate(x, 0), "ShapeError", "at least 1"),
        (lambda x: ops.interpolate(x, scale_factor=0.1), "ShapeError", "at least 1 element"),
        (lambda x: ops.interpolate(x, 2, mode="linear"), "DefinitionError", "for 3 dimensions"),
        (lambda x: ops.interpolate(x, 2, mode="cubic"), "DefinitionError", "is unknown"),
        (lambda x: ops.interpolate(x, 2, align_corners=True), "DefinitionError", "align_corners"),
        (lambda x: ops.interpolate(x, 2, antialias=True), "DefinitionError", "antialias"),
        (lambda x: ops.interpolate(x[0, 0], 2), "ShapeError", "3, 4 or 5 dimensions"),
        (
            lambda x: ops.interpolate(x.astype(np.int32), 2, mode="bilinear"),
            "DTypeError",
            "floating-point",
        ),
        (lambda x: ops.interpolate_backward(x, (1, 1, 2, 2), 3.0), "ShapeError", "does not fit"),
        (
            lambda x: ops.interpolate_backward(x, (1, 2, 2, 2), 3.0),
            "ShapeError",
            r"expected \(1, 2, 6, 6\)",
        ),
        (lambda x: ops.grid_sample(x, x), "ShapeError", r"expected \(1, H, W, 2\)"),
        (lambda x: ops.grid_sample(x, x[..., :2], "cubic"), "DefinitionError", "mode='cubic'"),
        (
            lambda x: ops.grid_sample(x, x[..., :2], padding_mode="wrap"),
            "DefinitionError",
            "padding_mode='wrap'",
        ),
        (lambda x: ops.affine_grid(x, (1, 1, 2, 2)), "ShapeError", r"expected \(1, 2, 3\)"),
        (lambda x: ops.affine_grid(x, (1, 2)), "ShapeError", r"\(N, C, H, W\)"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((1, 2, 4, 4)))


GRIDS = [
    ("bilinear", "zeros", False),
    ("bilinear", "border", True),
    ("bilinear", "reflection", False),
    ("bilinear", "reflection", True),
    ("nearest", "border", False),
    ("bicubic", "zeros", True),
    ("bicubic", "reflection", False),
]


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(("mode", "padding", "corners"), GRIDS, ids=str)
def test_the_gradients_of_grid_sample(device, mode, padding, corners, memory_format):
    a, x = image((2, 3, 5, 6), memory_format=memory_format)
    g = np.random.default_rng(1).uniform(-1.6, 1.6, (2, 7, 4, 2)).astype(np.float32)
    tx = torch.tensor(a.astype(np.float64), requires_grad=True)
    tg = torch.tensor(g.astype(np.float64), requires_grad=True)
    expected = F.grid_sample(tx, tg, mode, padding, corners)
    up = numbers(tuple(expected.shape))
    expected.backward(torch.tensor(up.astype(np.float64)))
    arguments = cp.asarray(up), x, cp.asarray(g), mode, padding, corners
    dx, dg = ops.grid_sample_backward(*arguments)
    close(dx, tx.grad, 16 * TOLERANCE)
    lies_as(dx, memory_format)
    # Positions are rounded to 2^-24 of the image's size; cubic slopes are differences.
    close(dg, tg.grad, 64 * TOLERANCE)
    again = ops.grid_sample_backward(*arguments)
    assert all(same_bits(f, s) for f, s in zip(again, (dx, dg), strict=True))


def test_the_gradients_of_volumes_read_by_a_grid(device):
    a, x = image((2, 2, 4, 5, 3))
    g = np.random.default_rng(1).uniform(-1.3, 1.3, (2, 3, 2, 4, 3)).astype(np.float32)
    tx = torch.tensor(a.astype(np.float64), requires_grad=True)
    tg = torch.tensor(g.astype(np.float64), requires_grad=True)
    expected = F.grid_sample(tx, tg, align_corners=False)
    up = numbers(tuple(expected.shape))
    expected.backward(torch.tensor(up.astype(np.float64)))
    dx, dg = ops.grid_sample_backward(cp.asarray(up), x, cp.asarray(g))
    close(dx, tx.grad, 16 * TOLERANCE)
    close(dg, tg.grad, 64 * TOLERANCE)
    with pytest.raises(cp.ShapeError, match="grad has shape"):
        ops.grid_sample_backward(cp.asarray(up[:1]), x, cp.asarray(g))


@pytest.mark.parametrize(
    ("mode", "size", "corners"),
    [("bilinear", (5, 21), False), ("bicubic", (4, 6), False), ("bilinear", (1, 4), True)],
    ids=str,
)
def test_the_gradient_of_antialiased_images(device, mode, size, corners):
    a, x = image((2, 3, 13, 17))
    t = torch.tensor(a.astype(np.float64), requires_grad=True)
    options = {"mode": mode, "align_corners": corners, "antialias": True}
    expected = F.interpolate(t, size, **options)
    close(ops.interpolate(x, size, **options), expected, 4 * TOLERANCE)
    up = numbers(tuple(expected.shape))
    expected.backward(torch.tensor(up.astype(np.float64)))
    dx = ops.interpolate_backward(cp.asarray(up), a.shape, **options)
    close(dx, t.grad, 4 * TOLERANCE)
