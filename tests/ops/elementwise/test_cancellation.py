"""What would be the difference of two near numbers has its digits all the same."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

SMALL = np.float32([1e-20, 1e-5, -1e-3, 1e-3, 0.03, -0.2, 0.7, 0.999, 1.001, -3, 20])
DOWN = np.float32([-1e-3, -1, -5, -10, -15, -20, -50, -80])
HALF = np.float32([0.5, 0.5000001, 0.4999999, 0.501, 0.26, 0.24, 0.74, 0.76, 1e-6, 0.999999])


def tanhshrink(x):
    """x - tanh(x), of small numbers by its series."""
    series = x**3 / 3 - 2 * x**5 / 15 + 17 * x**7 / 315 - 62 * x**9 / 2835 + 1382 * x**11 / 155925
    return np.where(np.abs(x) < 0.1, series, x - np.tanh(x))


def logit(x):
    return np.log(x) - np.log1p(-x)


def slopes(text, x):
    return cp.Pointwise(text).gradient()(cp.asarray(x), grad=cp.full(x.size, 1.0)).get()


def close(found, exact, units=16):
    np.testing.assert_allclose(found, exact, rtol=units * 2.0**-24, atol=1e-43)


def test_values(device):
    close(ops.tanhshrink(cp.asarray(SMALL)).get(), tanhshrink(SMALL.astype(float)))
    close(ops.logit(cp.asarray(HALF)).get(), logit(HALF.astype(float)))
    close(ops.logit(cp.asarray(HALF), 1e-7).get(), logit(HALF.astype(float)))


def test_values_in_float64(device):
    if not device.traits.fp64:
        pytest.skip("no float64")
    x = np.array([0.2, 0.5, 0.9, 0.999])
    # 2 / (1 + exp(2 x)) is 1 - tanh(x), and 44 digits of it are not needed at 0.2.
    exact = x - np.tanh(x)
    np.testing.assert_allclose(ops.tanhshrink(cp.asarray(x)).get(), exact, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [
        ("tanhshrink", SMALL, lambda x: np.tanh(x) ** 2),
        ("softsign", np.float32([0, 1, -90, 1e4, -1e10]), lambda x: 1 / (1 + np.abs(x)) ** 2),
        ("elu", DOWN, np.exp),
        ("celu", DOWN, np.exp),
        ("selu", DOWN, lambda x: 1.0507009873554805 * 1.6732632423543772 * np.exp(x)),
        ("silu", DOWN, lambda x: np.exp(x) / (1 + np.exp(x)) * (1 + x / (1 + np.exp(x)))),
        ("sigmoid", DOWN, lambda x: np.exp(x) / (1 + np.exp(x)) ** 2),
    ],
)
def test_gradients(device, name, x, slope):
    given = ops.sigmoid(cp.asarray(x)) if name == "sigmoid" else cp.asarray(x)
    found = getattr(ops, f"{name}_backward")(cp.full(x.size, 1.0), given).get()
    close(found, slope(x.astype(np.float64)), 64)


def test_derived_slopes(device):
    close(slopes("y0 = expm1(x0);", DOWN), np.exp(DOWN.astype(float)))
    near = np.float32([0.9999, -0.99999, 0.5])
    exact = near.astype(float)
    close(slopes("y0 = asin(x0);", near), 1 / np.sqrt(1 - exact**2))
    close(slopes("y0 = acos(x0);", near), -1 / np.sqrt(1 - exact**2))
    close(slopes("y0 = atanh(x0);", near), 1 / (1 - exact**2))
    close(
        slopes("y0 = acosh(x0);", np.float32([1.0001, 2])),
        1 / np.sqrt(np.float32([1.0001, 2]).astype(float) ** 2 - 1),
    )
