"""Special functions near poles, below zero and at both ends, against what mpmath says."""

import math

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("strict")

inf, nan = math.inf, math.nan

DIGAMMA = {
    -1e-6: 999999.425, -1e-30: 9.99999997e29, -0.5: 0.036489974, -1000.5: 6.90875482,
    1e-30: -9.99999997e29, 1e30: 69.0775528, inf: inf, -2: nan, 0.0: -inf,
}  # fmt: skip
POLYGAMMA = {
    1: {-1e-6: 1.00000001e12, -0.5: 8.9348022, -2.25: 19.3794105, 0.25: 17.1973292, 1e10: 1e-10,
        1e30: 1e-30, inf: 0, -3: inf},
    2: {-1000.5: -9.98002747e-7, -1000.25: 124.025106, -2.25: 123.89695, 0.25: -129.32774,
        1e5: -1.00001e-10, inf: 0},
    4: {-1000.25: 24481.5748, -2.25: 24481.4799, 0.25: -24584.3754, 50: -9.99039821e-7},
    40: {20: -4.30146691e-6, 50: -3.26103509e-22, 100: -2.47553944e-34, inf: 0},
}  # fmt: skip
BESSEL = {
    "i0": {1: 1.26606588, 25: 5.77456061e9, -91: 1.38927141e38, 1e38: inf, -inf: inf},
    "i1": {1: 0.565159104, 25: 5.65786513e9, -91: -1.38161684e38, -1e38: -inf, inf: inf},
    "i0e": {1: 0.465759608, 1e38: 3.98942287e-20, -1e38: 3.98942287e-20, inf: 0},
    "i1e": {1: 0.207910415, 1e38: 3.98942287e-20, -1e38: -3.98942287e-20, -inf: 0},
}  # fmt: skip
ZETA = {
    (2, 1): math.pi**2 / 6, (2, 1e30): 1e-30, (2, inf): 0, (3, -0.5): 0.414398322, (1, 2): inf,
    (0, 0): nan, (0.5, -1): nan, (2.5, -0.5): nan, (2, -1): inf, (inf, 2): 0, (nan, 1): nan,
}  # fmt: skip


def _close(found, values):
    expected = torch.tensor([*values], dtype=torch.float64)
    found = found.detach().cpu().double()
    torch.testing.assert_close(found, expected, rtol=4e-6, atol=1e-9, equal_nan=True)
    tiny = expected.abs() < 1e-9
    torch.testing.assert_close(found[tiny], expected[tiny], rtol=4e-5, atol=1e-38)


def test_digamma_and_the_gradient_of_lgamma():
    x = torch.tensor([*DIGAMMA]).to("opencl").requires_grad_()
    _close(torch.digamma(x), DIGAMMA.values())
    torch.lgamma(x).backward(torch.ones_like(x))
    _close(x.grad, DIGAMMA.values())


@pytest.mark.parametrize("n", POLYGAMMA)
def test_polygamma(n):
    x = torch.tensor([float(v) for v in POLYGAMMA[n]]).to("opencl")
    _close(torch.polygamma(n, x), POLYGAMMA[n].values())


@pytest.mark.parametrize("name", BESSEL)
def test_bessel(name):
    x = torch.tensor([float(v) for v in BESSEL[name]]).to("opencl")
    _close(getattr(torch.special, name)(x), BESSEL[name].values())


def test_zeta():
    order, at = torch.tensor([*ZETA], dtype=torch.float32).to("opencl").unbind(1)
    _close(torch.special.zeta(order, at), ZETA.values())
