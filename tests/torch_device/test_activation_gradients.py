"""Gradients of activations on the device, at kinks, bounds, infinities and NaN, like PyTorch's."""

import math

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised", "strict")

ACTIVATIONS = {
    "logit": torch.logit,
    "logit_between": lambda x: torch.logit(x, eps=0.125),
    "sigmoid": torch.sigmoid,  # from its result, as the next two
    "elu_in_place": lambda x: F.elu_(x.clone(), alpha=0.75),
    "selu_in_place": lambda x: F.selu_(x.clone()),
    "elu": lambda x: F.elu(x, alpha=0.75),
    "hardshrink": lambda x: F.hardshrink(x, 0.5),
    "softshrink": lambda x: F.softshrink(x, 0.5),
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_like_pytorch(name, dtype):
    special = [0, -0.0, 0.5, -0.5, 0.125, 0.875, 1, -1, 2, -20, math.inf, -math.inf]
    # About NaN PyTorch's vectors, and what they leave of an array, differ among the others.
    special += [math.nan] * (name in ("logit", "sigmoid", "tanh"))
    x = torch.cat([torch.tensor(special), torch.linspace(-3, 3, 31), torch.rand(20)]).to(dtype)
    grad = torch.linspace(-2, 2, len(x)).to(dtype)
    found = []
    for device in ("opencl", "cpu"):
        leaf = x.to(device).detach().clone().requires_grad_()
        ACTIVATIONS[name](leaf).backward(grad.to(device))
        found.append(leaf.grad.cpu().double())
    unit = 2e-6 if dtype is torch.float32 else 4e-3
    torch.testing.assert_close(*found, rtol=unit, atol=unit / 8, equal_nan=True)


@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_slopes_where_the_result_is_nearly_settled(name):
    """Of x, not of the result, which has rounded to -alpha there."""
    x = torch.tensor([-5.0, -15.0, -17.0, -40.0, -80.0])
    found = []
    for leaf in (x.to("opencl").requires_grad_(), x.double().requires_grad_()):
        getattr(F, name)(leaf).sum().backward()
        found.append(leaf.grad.cpu().double())
    torch.testing.assert_close(*found, rtol=1e-5, atol=0)


def test_the_slope_of_abs_is_0_where_there_is_none():
    x = torch.tensor([math.nan, 0.0, -0.0, 2.0, -math.inf], device="opencl", requires_grad=True)
    x.abs().sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 1, -1]


def test_gradients_without_dimensions():
    # That of logsigmoid comes with a buffer of one dimension and no elements.
    for function in (torch.nn.functional.logsigmoid, torch.nn.functional.hardtanh):
        x = torch.tensor(0.5, device="opencl", requires_grad=True)
        function(x).backward()
        expected = torch.tensor(0.5, requires_grad=True)
        function(expected).backward()
        torch.testing.assert_close(x.grad.cpu(), expected.grad)
