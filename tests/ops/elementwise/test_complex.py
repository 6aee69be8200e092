"""Functions of complex numbers that have strings of their own, beside NumPy in complex128."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

FUNCTIONS = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "expm1": np.expm1, "log1p": np.log1p,
    "log2": np.log2, "log10": np.log10, "exp2": np.exp2, "sinc": np.sinc, "abs": np.abs,
    "sign": np.sign, "rsqrt": lambda z: 1 / np.sqrt(z), "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
}  # fmt: skip
# On both sides of each cut.
CUTS = [complex(x, y) for x in (2, -2, 0.5) for y in (0.0, -0.0)]
CUTS += [complex(x, y) for y in (2, -2, 0.5) for x in (0.0, -0.0)]


@pytest.mark.usefixtures("device", "unoptimised")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_equal_numpys(name):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, 300)) * np.exp(rng.normal(size=(2, 300)))
    z = np.complex64([*(z[0] + 1j * z[1]), *CUTS, 1e-10 + 1e-9j])
    if name == "sinc":
        z = z[np.abs(z - np.round(z)) > 1e-2]
    found = getattr(ops, name)(cp.asarray(z)).get()
    wanted = FUNCTIONS[name](z.astype(np.complex128))
    assert found.dtype == (np.float32 if name == "abs" else np.complex64)
    assert np.all(np.abs(found - wanted) <= 3e-6 * np.abs(wanted))


@pytest.mark.parametrize("name", "asin acos atan asinh acosh atanh".split())
def test_infinite_numbers_and_nan_are_those_of_the_standard(device, name):
    """NumPy's are C99's: parts that are numbers, their signs, and NaN."""
    ends = [np.inf, -np.inf, 2.0, -2.0, 0.0, np.nan]
    z = np.array([complex(x, y) for x in ends for y in ends], np.complex64)
    found = getattr(ops, name)(cp.asarray(z)).get()
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](z.astype(np.complex128))
    for f, w in ((found.real, wanted.real), (found.imag, wanted.imag)):
        np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-30)


def test_slopes_are_numbers_beside_infinite_ones(device):
    z = np.complex64([0.5 + 0.25j, -2 + 1j])
    for name, slope in (("asin", 1 / np.sqrt(1 - z * z)), ("atanh", 1 / (1 - z * z))):
        step = cp.value_and_grad(lambda z, name=name: getattr(ops, name)(z).real.sum(), wrt=0)
        _, found = step(cp.asarray(z))
        np.testing.assert_allclose(found.get(), slope.conj(), rtol=1e-4)
