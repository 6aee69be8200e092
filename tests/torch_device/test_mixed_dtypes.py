"""Operands of several dtypes: results are in that of PyTorch's promotion, or refused as there."""

import pytest

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402, F401

F = torch.nn.functional
KINDS = [torch.float32, torch.float16, torch.float64, torch.int64]
PAIRS = [(a, b) for a in KINDS for b in KINDS if a.is_floating_point or b.is_floating_point]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"])
def test_losses_of_two_dtypes(name):
    for kinds in PAIRS:
        host = [torch.tensor(v).to(k) for v, k in zip(([1.5, 4], [3, 1.25]), kinds, strict=True)]
        if name == "huber_loss" and not host[0].is_floating_point():
            continue  # in the input's dtype, which PyTorch refuses too
        wanted = getattr(F, name)(*host)
        found = getattr(F, name)(*[t.to("opencl") for t in host])
        torch.testing.assert_close(found.cpu(), wanted, rtol=2e-3, atol=0)


def test_a_weight_does_not_decide_the_dtype_of_a_cross_entropy():
    x, w = torch.tensor([0.25, 0.5]), torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = F.binary_cross_entropy(x.to("opencl"), x.to("opencl"), w.to("opencl"))
    torch.testing.assert_close(found.cpu(), F.binary_cross_entropy(x, x, w))


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.add_(y),
        lambda x, y: x.mul_(0.5),
        lambda x, y: x.div_(2),
        lambda x, y: x.rsqrt_(),
        lambda x, y: torch.atan2(x, y, out=x),
        lambda x, y: torch.exp(y, out=x),
        lambda x, y: torch.maximum(x, y, out=x),
    ],
)
def test_integers_do_not_take_what_they_cannot_hold(write):
    x, y = torch.tensor([4], device="opencl"), torch.tensor([0.5], device="opencl")
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        write(x, y)
    assert x.tolist() == [4]
