"""Gradients that a user writes, and `check_gradient`."""

import numpy as np
import pytest
from support import numbers

import clprim as cp

POWER = "y0 = 1; for (int i = 0; i < w0; ++i) y0 *= x0;"


def test_a_gradient_by_hand_is_taken(device):
    f = cp.Pointwise(POWER, gradient="gx0 = gy0 * w0 * y0 / x0;")
    x = numbers((3, 4), low=1)
    found = f.gradient()(cp.asarray(x), 3, grad=1.0)
    np.testing.assert_allclose(found.get(), 3 * x**2, rtol=1e-6)
    saved = f.gradient(saves="y0")(cp.asarray(x), 3, grad=1.0, saved=f(cp.asarray(x), 3))
    np.testing.assert_allclose(saved.get(), 3 * x**2, rtol=1e-6)
    assert str(f.gradient()) == "gx0 = gy0 * w0 * y0 / x0;"


def test_by_hand_what_was_broadcast_is_summed_and_some_are_left_out(device):
    f = cp.Pointwise("y0 = x0 * x1; y1 = x1;", gradient="gx0 = gy0 * x1; gx1 = gy0 * x0 + gy1;")
    a, b, grad = numbers((3, 4)), numbers((4,), seed=1), numbers((3, 4), seed=2)
    ga, gb = f.gradient()(cp.asarray(a), cp.asarray(b), grad=(cp.asarray(grad), None))
    np.testing.assert_array_equal(ga.get(), grad * b)
    np.testing.assert_array_equal(gb.get(), (grad * a).sum(0))
    one = f.gradient("x1")(cp.asarray(a), cp.asarray(b), grad=(None, 1.0))
    np.testing.assert_array_equal(one.get(), [3.0] * 4)


def test_a_reduction_by_hand(device):
    f = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 = hypot(reduce_y0, y0);",
        combine="reduce_y0 = hypot(reduce_y0, other_y0);",
        gradient="gx0 = gy0 * x0 / y0;",
        check=True,
    )
    a = np.array([[3, 4], [6, 8]], np.float32)
    for axis, keep in ((1, False), (1, True), (0, False)):
        shape = f(cp.asarray(a), axis=axis, keepdims=keep).shape
        grad = numbers(shape, low=1)
        found = f.gradient()(cp.asarray(a), axis=axis, keepdims=keep, grad=cp.asarray(grad))
        whole = grad if keep else np.expand_dims(grad, axis)
        expected = whole * a / np.linalg.norm(a, axis=axis, keepdims=True)
        np.testing.assert_allclose(found.get(), expected, rtol=1e-6)


def test_a_wrong_one_is_found_when_it_is_defined(device):
    with pytest.raises(cp.ClprimError, match=r"of x0 at \(0, 0\) it is .*, but differences give"):
        cp.Pointwise("y0 = x0 * x0;", gradient="gx0 = gy0 * x0;", check=True)
    cp.Pointwise("y0 = x0 * x0;", gradient="gx0 = 2 * gy0 * x0;", check=True)


def test_words_that_are_no_gradient_are_refused():
    with pytest.raises(cp.DefinitionError, match="it assigns no gxN"):
        cp.Pointwise("y0 = x0;", gradient="y0 = x0;")
    with pytest.raises(cp.DefinitionError, match="names 'x1'"):
        cp.Pointwise("y0 = x0;", gradient="gx1 = gy0;")
    with pytest.raises(cp.DefinitionError, match="wrt=3 names 3; there are"):
        cp.Pointwise("y0 = x0;").gradient(wrt=3)
    with pytest.raises(cp.DefinitionError, match="unknown name 'grad'"):
        cp.Pointwise("y0 = x0;", gradient="gx0 = grad;")
    with pytest.raises(cp.DefinitionError, match="never assigns gx1, which is asked for"):
        cp.Pointwise("y0 = x0 + x1;", gradient="gx0 = gy0;").gradient("x1")
    with pytest.raises(cp.DefinitionError, match="expected a string"):
        cp.Pointwise("y0 = x0;", gradient=3)


def test_check_gradient(device):
    rng = np.random.default_rng(0)
    x, b = rng.uniform(0.5, 2, (3, 4)), rng.uniform(0.5, 2, (4,))
    f = cp.Pointwise("y0 = x0 * w0 + log(x1); y1 = x0 * x1;")
    cp.check_gradient(f, x, b, 2.0)
    cp.check_gradient(f, x, b, 2.0, wrt=("x1", "w0"))
    norm = cp.Reduction(
        "y0 = x0 * x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = sqrt(reduce_y0);",
    )
    cp.check_gradient(norm, x, axis=1)
    wrong = cp.Pointwise("y0 = x0 * x0;").gradient()
    with pytest.raises(cp.ClprimError, match="of x0 at"):
        cp.check_gradient(cp.Pointwise("y0 = x0 * x0 * x0;"), x, gradient=wrong)
    with pytest.raises(cp.DefinitionError, match="has no gradient"):
        cp.check_gradient(np.sin, x)
