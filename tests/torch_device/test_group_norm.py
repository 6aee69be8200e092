"""Group norms: gradients in the memory format of images, of gradients, and under transforms."""

import copy

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.torch  # noqa: E402
from clprim.runtime.device import current_device  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")
D = "opencl"


def gradients(x, weight, bias, slopes):
    """Of the result and, where there are several slopes, of statistics."""
    given = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
    n, c, *size = x.shape
    found = torch.ops.aten.native_group_norm(*given, n, c, size[0] * size[1], 2, 1e-5)
    # In the image alone, then in all.
    (dx,) = torch.autograd.grad(found[: len(slopes)], given[:1], slopes, retain_graph=True)
    return dx, *torch.autograd.grad(found[: len(slopes)], given, slopes)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("statistics", [False, True])
def test_gradients(last, statistics):
    shapes = ((2, 4, 3, 5), (4,), (4,), (2, 4, 3, 5)) + ((2, 2), (2, 2)) * statistics
    x, weight, bias, *slopes = (torch.randn(s, dtype=torch.float64) for s in shapes)
    expected = gradients(x, weight, bias, slopes)
    how = {"memory_format": torch.channels_last} if last else {}
    there = x.float().to(D, **how)
    weight, bias, *slopes = (t.float().to(D) for t in (weight, bias, *slopes))
    slopes[0] = slopes[0].to(**how)
    with cp.profile() as p:
        found = gradients(there, weight, bias, slopes)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu().double(), b, rtol=1e-4, atol=1e-5)
    if not statistics:
        assert found[0].stride() == found[1].stride() == there.stride()
        # Of the clones of arguments alone.
        assert sum("copy" in event.name for event in p.events) <= 3


@pytest.mark.parametrize("affine", [False, True])
def test_gradients_have_gradients(affine):
    if not current_device().traits.fp64:
        pytest.skip("no double")
    x = torch.randn(2, 4, 3, 2, dtype=torch.float64).to(D).requires_grad_()
    more = [torch.randn(4, dtype=torch.float64).to(D).requires_grad_() for _ in range(2 * affine)]
    function = lambda x, *more: F.group_norm(x, 2, *more)  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, *more), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, *more), fast_mode=True)


@pytest.mark.filterwarnings("ignore:.*jit.script:DeprecationWarning")
def test_transforms():
    weight, bias, x, t = (
        torch.randn(4),
        torch.randn(4),
        torch.randn(2, 4, 2, 2),
        torch.randn(2, 4, 2, 2),
    )
    function = lambda x: F.group_norm(x, 2, weight.to(x), bias.to(x))  # noqa: E731
    for transform in (torch.func.grad, torch.func.hessian):
        expected, found = (transform(lambda t: function(t).sin().sum())(a) for a in (x, x.to(D)))
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-4)
    expected = torch.func.jvp(function, (x,), (t,))
    found = torch.func.jvp(function, (x.to(D),), (t.to(D),))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)
    each = torch.func.vmap(torch.func.grad(lambda x: function(x).sin().sum()))
    more = torch.randn(3, 2, 4, 2, 2)
    torch.testing.assert_close(each(more.to(D)).cpu(), each(more), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("last", [False, True])
def test_compiled(last):
    torch.compiler.reset()
    how = {"memory_format": torch.channels_last} if last else {}
    layers = nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 4, 1)
    model = nn.Sequential(*layers).to(D).to(**how)
    other, grads = copy.deepcopy(model), []
    for net in (model, torch.compile(other, backend="clprim")):
        torch.manual_seed(0)
        x = torch.randn(2, 3, 6, 6).to(D, **how).requires_grad_()
        net(x).square().sum().backward()
        grads.append([x.grad, *(p.grad for p in (model if net is model else other).parameters())])
    for found, wanted in zip(*grads[::-1], strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert found.stride() == wanted.stride()
