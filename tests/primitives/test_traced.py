"""Kernels from Python functions: the strings that they come to, and what they compute."""

import functools
import math

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim.errors import DefinitionError, DTypeError, ShapeError

pytestmark = pytest.mark.usefixtures("unoptimised")


STRINGS = [
    (lambda x, a: x / (1 + cp.exp(-a * x)), "y0 = x0 / (1 + exp(-x1 * x0));"),
    (lambda x: x * x + 1, "y0 = x0 * x0 + 1;"),
    (lambda x, y: x - (y - 1) - 2, "y0 = x0 - (x1 - 1) - 2;"),
    (lambda x, y: x / (y * 2) / 3, "y0 = x0 / (x1 * 2) / 3;"),
    (lambda x: -(x + 1) * -2.5, "y0 = -(x0 + 1) * -2.5;"),
    (lambda x: cp.where(x < 0, 0, x), "y0 = x0 < 0 ? 0 : x0;"),
    (lambda x: cp.maximum(x, 0), "y0 = x0 < 0 ? 0 : x0;"),
    (lambda x: np.sqrt(x) + np.tanh(x), "y0 = sqrt(x0) + tanh(x0);"),
    (lambda x: x**2 + x**0.5 + x**3, "y0 = x0 * x0 + sqrt(x0) + pow(x0, 3.0);"),
    (lambda x: (x, -x), "y0 = x0; y1 = -x0;"),
    (lambda x, n: (x >> 1) & n, "y0 = (x0 >> 1) & x1;"),
    (lambda x: (x > 0) & ~(x > 1) | (x == 5), "y0 = (x0 > 0 && !(x0 > 1)) || x0 == 5;"),
    (lambda x: cp.clip(x, 0, 6) / 6, "bool t0 = x0 < 0;"),
    (lambda x: abs(x) - round(x), "y0 = fabs(x0) - rint(x0);"),
    (lambda x: math.floor(x) + math.ceil(x), "y0 = floor(x0) + ceil(x0);"),
    (lambda x: x * math.inf - math.nan, "y0 = x0 * INFINITY - NAN;"),
    (lambda x: sum(x * k for k in range(1, 4)), "y0 = 0 + x0 * 1 + x0 * 2 + x0 * 3;"),
]


@pytest.mark.parametrize(("function", "string"), STRINGS, ids=[s for _, s in STRINGS])
def test_a_function_is_its_string(function, string):
    written = str(cp.elementwise(function))
    if "t0" in string:
        assert written.startswith("typeof_y0 t0 = x0 < 0 ? 0 : x0;")
    else:
        assert written == string


@cp.elementwise
def swoosh(x, a: float):
    """A smooth step."""
    return x / (1 + cp.exp(-a * x))


def test_the_same_kernel_as_of_the_string(device):
    x = cp.linspace(-3, 3, 7)
    by_hand = cp.Pointwise("y0 = x0 / (1 + exp(-w0 * x0));", name="swoosh")
    assert str(swoosh) == "y0 = x0 / (1 + exp(-w0 * x0));"
    assert repr(swoosh) == "<clprim.elementwise swoosh: y0 = x0 / (1 + exp(-w0 * x0));>"
    assert swoosh.__doc__ == "A smooth step."
    assert swoosh.pointwise().source(x, 2.0) == by_hand.source(x, 2.0)
    out = cp.zeros(7)
    assert swoosh(x, a=2.0, out=out) is out
    equal(out, by_hand(x, 2.0).get())
    assert str(swoosh.gradient("x0")) == str(by_hand.gradient("x0"))


def test_numbers_and_arrays_as_they_are_given(device):
    @cp.elementwise
    def line(a, x, b=1.0):
        return a * x + b

    x = cp.array([1.0, 2.0])
    equal(line(2.0, x), [3, 5])
    equal(line(x, x, b=0), [1, 4])
    equal(line(x, 3, 5.0), [8, 11])
    assert str(line.pointwise(2.0, x)._text) == "Pointwise 'y0 = w0 * x0 + w1;'"
    with pytest.raises(ShapeError, match=r"x is missing; expected \(a, x, b\)"):
        line(2.0)
    with pytest.raises(DTypeError, match="expected a number for b, got an array"):
        line(2.0, x, x)
    with pytest.raises(DTypeError, match=r"got ndarray: upload it with cp\.asarray"):
        line(2.0, np.ones(2))


def test_what_is_used_often_becomes_a_local(device):
    @cp.elementwise
    def mish(x):
        for _ in range(6):
            x = x * x - x
        return x

    assert len(str(mish)) < 300
    a = np.float32([0.5, 1.5])
    b = a
    for _ in range(6):
        b = b * b - b
    np.testing.assert_allclose(mish(cp.asarray(a)).get(), b, rtol=1e-4)


def test_extrema_keep_nan(device):
    @cp.elementwise
    def f(x, y):
        return cp.maximum(x, 0), cp.minimum(x, y), cp.clip(x, -1, 1), cp.where(cp.isnan(x), 7, y)

    a, b = np.float32([np.nan, 1, -3, 2]), np.float32([2, np.nan, 1, 1])
    found = [y.get() for y in f(cp.asarray(a), cp.asarray(b))]
    expected = np.maximum(a, 0), np.minimum(a, b), np.clip(a, -1, 1), np.where(np.isnan(a), 7, b)
    for y, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(y, e)


def test_truth_values_are_bool(device):
    @cp.elementwise
    def between(x, low, high):
        return (x > low) & (x < high)

    found = between(cp.arange(5), 1, 4)
    assert found.dtype == bool
    equal(found, [False, False, True, True, False])


def _endless(x):
    return _endless(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x > 0 else 0, r"x0 > 0 has one for every element: write cp\.where"),
        (lambda x: max(x, 0), r"cp\.minimum or cp\.maximum"),
        (lambda x: 0 < x < 1, r"write cp\.where"),
        (lambda x: math.exp(x) + 1, r"write cp\.exp\(x\) for math\.exp"),
        (lambda x: x[0], "it has no parts"),
        (lambda x: x.exp(), r"cp\.exp\(…\)"),
        (lambda x: np.i0(x) + 1, "write a string"),
        (lambda x: x + "a", "expected an element or a number, got str"),
        (lambda x: None, "returned NoneType"),
        (lambda *xs: xs[0], "stands for any number"),
        (lambda x, *, a=2.0: x * a, r"a=2\.0 can only be named"),
        (lambda x: functools.reduce(lambda a, b: a + b, [x] * 9000), "nested too deeply"),
        (_endless, "calls itself without end"),
    ],
    ids=range(13),
)
def test_what_has_no_string_is_refused(function, message):
    with pytest.raises(DefinitionError, match=message):
        cp.elementwise(function)


def test_integers_are_not_divided_as_c_would(device):
    @cp.elementwise
    def half(x):
        return x / 2

    equal(half(cp.array([1.0, 3.0])), [0.5, 1.5])
    with pytest.raises(DTypeError, match="elementwise half: / is for floats, got int64"):
        half(cp.arange(3))


def test_reductions_from_functions(device):
    x = cp.asarray(np.float32([[1, 2, 3], [4, 5, 9]]))

    @cp.reduction(init=0)
    def squares(total, x):
        return total + x * x

    @cp.reduction(init=(0, 0), finalize=lambda s, s2, count: s2 / count - (s / count) ** 2)
    def variance(s, s2, x):
        return s + x, s2 + x * x

    @cp.reduction(init="lowest_reduce_y0", combine=cp.maximum)
    def greatest(best, x):
        return cp.maximum(best, x)

    @cp.reduction(init=(0, 0), combine=lambda n, s, m, t: (n + m, s + t))
    def weighted(n, s, x, w: float):
        return n + 1, s + w * n * 0 + x

    assert isinstance(squares, cp.Reduction)
    equal(squares(x, axis=1), [14, 122])
    np.testing.assert_allclose(variance(x).get(), np.var(x.get()), rtol=1e-5)
    equal(greatest(x, axis=0), [4, 5, 9])
    equal(weighted(x, 2.0)[1], 24)
    with pytest.raises(DefinitionError, match="1 partial result and then elements"):
        cp.reduction(init=0)(lambda total: total)
    with pytest.raises(DefinitionError, match="expected 2 partial results, got 1"):
        cp.reduction(init=(0, 0))(lambda a, b, x: a + x)


def test_a_negative_zero_keeps_its_sign(device):
    x = cp.asarray(np.float32([1, -1, -0.0]))
    assert cp.elementwise(lambda x: x / -0.0)(x).get()[:2].tolist() == [-np.inf, np.inf]
    signed = (lambda x: cp.copysign(x, -0.0), lambda x: x + -0.0, lambda x: -0.0 - abs(x))
    for function in signed:
        assert np.signbit(cp.elementwise(function)(x).get()[-1])
    assert not np.signbit(cp.elementwise(lambda x: x + 0.0)(x).get()[-1])


def _of_divisor(by):
    """Remainder and quotient as functions of an element, and NumPy's."""
    number = np.float32(by)
    return (
        (lambda x: x % by, lambda x: np.remainder(x, number)),
        (lambda x: x // by, lambda x: np.floor_divide(x, number)),
    )


@pytest.mark.parametrize("by", [-2.0, 0.1, 0.0, -math.inf])
def test_quotients_rounded_down_are_those_of_arrays(device, by):
    host = np.float32([1, -1, 0, -0.0, 2.5, -7, 0.3, 1e8, -1e8, np.inf, -np.inf, np.nan, 6])
    x = cp.asarray(host)

    def bits(array):
        return np.where(np.isnan(array), 0, np.asarray(array, np.float32).view(np.uint32))

    for function, numpys in _of_divisor(by):
        found = bits(cp.elementwise(function)(x).get())
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, bits(numpys(host)))
        np.testing.assert_array_equal(found, bits(function(x).get()))


def test_a_remainder_has_its_slope_where_it_is_zero(device):
    slope = cp.elementwise(lambda x: x % 2.0).gradient()
    found = slope(cp.asarray(np.float32([0, 1, 2, -4, -3])), grad=cp.full(5, 1.0))
    assert found.get().tolist() == [1] * 5
