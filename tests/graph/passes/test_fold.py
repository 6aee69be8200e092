"""Affine maps behind convolutions go into weights and biases, other maps do not."""

import numpy as np
import pytest
from support import numbers

import clprim as cp
from clprim import ops
from clprim.graph.passes.affine import is_affine

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
        assert not any("fold" in note for note in compiled.graph(x, w, s).notes)


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
