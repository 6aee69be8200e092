"""Logarithms of sums: gradients far from 0, of gradients, and under transforms."""

import pytest

torch = pytest.importorskip("torch")
import clprim.torch  # noqa: E402, F401
from clprim.runtime.device import current_device  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")

OPERATORS = {
    "logsumexp": lambda t: torch.logsumexp(t, 1),
    "of several dimensions": lambda t: torch.logsumexp(t, (-1, 0), keepdim=True),
    "of all": lambda t: torch.logsumexp(t, (0, 1, 2)),
    "logcumsumexp": lambda t: torch.logcumsumexp(t, 1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_do_not_depend_on_a_shift(name):
    function = OPERATORS[name]
    x = torch.randint(-3, 4, (2, 5, 3), generator=torch.Generator().manual_seed(0)).double()
    x.requires_grad_()
    y = function(x)
    g = torch.randn_like(y)
    (expected,) = torch.autograd.grad(y, x, g)
    # float32 tells whole numbers apart at the first two, and at the last takes all for one.
    for shift in (0, 1e6, -1e6, -1e30):
        t = (x.detach() * (abs(shift) < 1e9) + shift).float().to("opencl").requires_grad_()
        (found,) = torch.autograd.grad(function(t), t, g.float().to("opencl"))
        if shift == -1e30:
            alike = torch.zeros_like(x, requires_grad=True)
            (expected,) = torch.autograd.grad(function(alike), alike, g)
        torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_have_gradients(name):
    if not current_device().traits.fp64:
        pytest.skip("no double")
    function = OPERATORS[name]
    x = torch.randn(2, 3, 3, dtype=torch.float64).to("opencl").requires_grad_()
    assert torch.autograd.gradcheck(function, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, x, fast_mode=True)


@pytest.mark.filterwarnings("ignore:.*jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", OPERATORS)
def test_transforms(name):
    function, x = OPERATORS[name], torch.randn(2, 3, 2)
    there, t = x.to("opencl"), torch.randn(2, 3, 2)
    for transform in (torch.func.grad, torch.func.hessian):
        expected, found = (transform(lambda t: function(t).sin().sum())(a) for a in (x, there))
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
    expected = torch.func.jvp(function, (x,), (t,))
    for a, b in zip(torch.func.jvp(function, (there,), (t.to("opencl"),)), expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


def test_numbers_and_infinities():
    x = torch.tensor(2.0, device="opencl", requires_grad=True)
    (torch.logsumexp(x, 0) + torch.logcumsumexp(x, 0)).backward()
    assert x.grad.item() == 2
    x = torch.tensor([[-torch.inf] * 2, [torch.inf, 0]], device="opencl", requires_grad=True)
    torch.logsumexp(x, 1).sum().backward()
    assert x.grad.tolist() == [[0, 0], [1, 0]]
