"""Operators from strings on tensors, with derived gradients; graphs of PyTorch's compiler."""

import pytest

torch = pytest.importorskip("torch")

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402

pytestmark = pytest.mark.usefixtures("strict")


def test_an_elementwise_string_is_differentiable():
    swoosh = ct.operator(cp.Pointwise("y0 = x0 * x1 / (1 + exp(-w0 * x0));"))
    x, b = torch.randn(4, 5), torch.randn(5)
    ours = [t.to("opencl").requires_grad_() for t in (x, b)]
    host = [t.double().requires_grad_() for t in (x, b)]
    found = swoosh(*ours, 2.0)
    expected = host[0] * host[1] / (1 + torch.exp(-2 * host[0]))
    torch.testing.assert_close(
        found.detach().cpu().double(), expected.detach(), rtol=1e-5, atol=1e-6
    )
    found.sum().backward()
    expected.sum().backward()
    for a, b in zip(ours, host, strict=True):
        torch.testing.assert_close(a.grad.cpu().double(), b.grad, rtol=1e-5, atol=1e-5)


def test_a_reduction_is_differentiable_along_its_axes():
    norm = ct.operator(
        cp.Reduction(
            "y0 = x0 * x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;",
            finalize="y0 = sqrt(reduce_y0);",
        )
    )  # fmt: skip
    x = torch.randn(3, 7)
    ours, host = x.to("opencl").requires_grad_(), x.double().requires_grad_()
    norm(ours, axis=1).sum().backward()
    host.norm(dim=1).sum().backward()
    torch.testing.assert_close(ours.grad.cpu().double(), host.grad, rtol=1e-5, atol=1e-6)


def test_gradients_of_its_gradients_are_refused_not_left_out():
    cube = ct.operator(cp.Pointwise("y0 = x0 * x0 * x0;"))
    x = torch.ones(3, device="opencl", requires_grad=True)
    (slope,) = torch.autograd.grad((cube(x) + x * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no gradients in PyTorch"):
        slope.sum().backward()


def test_what_is_no_operator_is_refused():
    with pytest.raises(cp.DTypeError, match="expected a Pointwise or a Reduction, got str"):
        ct.operator("y0 = x0;")


def test_a_compiled_graph_runs_on_the_device():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    model = model.to("opencl")
    x = torch.randn(3, 4).to("opencl")
    expected = model(x).detach().cpu()
    found = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(found.detach().cpu(), expected)
    found.sum().backward()
    assert model[0].weight.grad.device.type == "opencl"
