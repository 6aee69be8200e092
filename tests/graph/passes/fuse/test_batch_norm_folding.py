"""Affine maps behind convolutions go into weights and biases, other maps do not."""

import numpy as np
import pytest
from support import numbers

import clprim as cp
from clprim import ops
from clprim.graph.passes.fuse.affine import is_affine

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_a_batch_norm_goes_into_the_weight(groups, bias, memory_format):
    def layer(x, w, b, mean, var, gamma, beta):
        y = ops.conv2d(x, w, b if bias else None, padding=1, groups=groups)
        return ops.relu(ops.batch_norm(y, mean, var, gamma, beta))

    x, w, b, mean, var, gamma, beta = arrays((2, 8, 5, 6), (8, 8 // groups, 3, 3), *[(8,)] * 5)
    x, var = ops.contiguous(x, memory_format=memory_format), ops.abs(var) + 1
    given = x, w, b, mean, var, gamma, beta
    names = ("w", "b", "mean", "var", "gamma", "beta")
    compiled = cp.jit(layer, constants=names)
    expected = layer(*given).get()
    np.testing.assert_allclose(compiled(*given).get(), expected, rtol=1e-5, atol=1e-4)
    assert len(compiled.graph(*given).nodes) == 1
    assert compiled(*given).strides == layer(*given).strides
    # Another batch finds the weight again.
    more = cp.concatenate([x, x])
    np.testing.assert_allclose(
        compiled(more, *given[1:]).get(), np.concatenate([expected] * 2), rtol=1e-5, atol=1e-4
    )


def convolved(x, w, padding=0, stride=1, transposed=False):
    """A convolution of any rank in float64, or its transpose without padding."""
    x, w = (a.get().astype(np.float64) for a in (x, w))
    rank = x.ndim - 2
    if transposed:
        sizes = [(a - 1) * stride + b for a, b in zip(x.shape[2:], w.shape[2:], strict=True)]
        y = np.zeros((x.shape[0], w.shape[1], *sizes))
        for tap in np.ndindex(*w.shape[2:]):
            pairs = zip(tap, x.shape[2:], strict=True)
            ends = [slice(t, t + (a - 1) * stride + 1, stride) for t, a in pairs]
            y[(..., *ends)] += np.einsum("nc...,co->no...", x, w[(..., *tap)])
        return y
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank])
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=range(2, rank + 2))
    axes = [1, *range(rank + 2, 2 * rank + 2)], [1, *range(2, rank + 2)]
    return np.moveaxis(np.tensordot(seen, w, axes), -1, 1)


def normed(y, mean, var, gamma, beta):
    column = (1, -1, *[1] * (y.ndim - 2))
    told = (a.get().astype(np.float64).reshape(column) for a in (mean, var, gamma, beta))
    mean, var, gamma, beta = told
    return np.maximum((y - mean) / np.sqrt(var + 1e-5) * gamma + beta, 0)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize(
    ("operator", "size", "kernel"),
    [
        (ops.conv1d, (9,), (3,)),
        (ops.conv3d, (3, 4, 5), (3, 3, 3)),
        (ops.conv3d, (3, 4, 5), (1, 1, 1)),
        (ops.conv_transpose1d, (9,), (3,)),
    ],
)
def test_convolutions_of_rows_and_volumes_take_theirs_too(operator, size, kernel, images, last):
    transposed = operator is ops.conv_transpose1d
    how = {"stride": 2} if transposed else {"padding": kernel[0] // 2}

    def layer(x, w, b, mean, var, gamma, beta):
        return ops.relu(ops.batch_norm(operator(x, w, b, **how), mean, var, gamma, beta))

    weight = (4, 6, *kernel) if transposed else (6, 4, *kernel)
    x, w, b, mean, var, gamma, beta = arrays((images, 4, *size), weight, *[(6,)] * 5)
    if last:
        dims = range(x.ndim)
        x = x.transpose(0, *dims[2:], 1).copy().transpose(0, x.ndim - 1, *dims[1:-1])
    given = x, w, b, mean, ops.abs(var) + 1, gamma, beta
    compiled = cp.jit(layer, constants=("w", "b", "mean", "var", "gamma", "beta"))
    found, graph = compiled(*given), compiled.graph(*given)
    column = b.get().astype(np.float64).reshape(1, -1, *[1] * len(size))
    expected = normed(convolved(x, w, transposed=transposed, **how) + column, *given[3:])
    np.testing.assert_allclose(found.get(), expected, rtol=1e-5, atol=1e-4)
    assert found.strides == layer(*given).strides
    assert any("batch norm folding" in note for note in graph.notes)
    assert any("batch norm folding" in line for line in compiled.explain(*given).splitlines())
    # Planes of volumes are put side by side as channels first.
    nodes = [node.primitive for node in graph.nodes if node.primitive.what != "conv3d_planes"]
    assert {each.kind for each in nodes} == {"conv_transpose" if transposed else "conv"}


def test_a_transposed_convolution_takes_its_batch_norm_too():
    def layer(x, w, mean, var):
        return ops.batch_norm(ops.conv_transpose2d(x, w, stride=2), mean, var)

    x, w, mean, var = arrays((2, 4, 5, 6), (4, 6, 3, 3), (6,), (6,))
    given = x, w, mean, ops.abs(var) + 1
    compiled = cp.jit(layer, constants=("w", "mean", "var"))
    np.testing.assert_allclose(compiled(*given).get(), layer(*given).get(), rtol=1e-5, atol=1e-4)
    assert len(compiled.graph(*given).nodes) == 1


def test_what_varies_over_pixels_or_is_read_elsewhere_stays():
    def image(x, w, s):
        return ops.conv2d(x, w, padding=1) * s

    def twice(x, w, s):
        y = ops.conv2d(x, w, padding=1)
        return y * s, y

    x, w, one, all_ = arrays((2, 4, 5, 6), (4, 4, 3, 3), (4, 1, 1), (5, 6))
    for function, s in ((image, all_), (twice, one)):
        compiled = cp.jit(function, constants=("w", "s"))
        found, expected = compiled(x, w, s), function(x, w, s)
        if function is image:
            found, expected = (found,), (expected,)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.get(), b.get())
        assert not any("folding" in note for note in compiled.graph(x, w, s).notes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y0 = x0 * x1 + 2;", True),
        ("typeof_y0 d = x0 - x1; y0 = fma(d, x2, x3);", True),
        ("y0 = -(x0 / sqrt(x1)) + exp(x2);", True),
        ("y0 = x1 / x0;", False),
        ("y0 = x0 * x0;", False),
        ("y0 = floor(x0);", False),
        ("y0 = x0 > 0 ? x0 : 0;", False),
        ("y0 = (int)x0;", False),
        ("y0 = x1;", False),
        ("y0 = x0; if (x1 > 0) y0 = 3;", False),
    ],
)
def test_affine_maps_are_known(text, expected):
    snippet = cp.Pointwise(text + " (void)x0;" if "x0" not in text else text).definition.expr
    assert is_affine(snippet, "x0") is expected
