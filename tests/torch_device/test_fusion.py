"""Fused networks give what the networks do, with fewer kernels."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402


class Block(nn.Module):
    """A residual block, and a convolution that two others read."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv3, self.relu = nn.Conv2d(4, 6, 1), nn.ReLU()

    def forward(self, x):
        x = self.relu(self.norm1(self.conv1(x)))
        x = self.relu(self.norm2(self.conv2(x)) + x)
        y = self.conv3(x)
        return torch.relu(y) + y


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", ["SiLU", "Sigmoid", "Hardswish", "Hardsigmoid", "ReLU6"])
def test_activations_run_in_the_convolution(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 6, 1), getattr(nn, name)(), nn.Dropout(0.5)).eval()
    nn.init.normal_(model[0].weight, std=2)
    x = torch.randn(2, 4, 6, 5)
    fused = ct.fuse(model.to("opencl"))
    assert [n.target for n in fused.graph.nodes if n.op.startswith("call")] == ["0_fused"]
    expected = model.cpu()(x)
    torch.testing.assert_close(fused(x.to("opencl")).cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("unoptimised")
def test_packed_weights_follow_the_weight():
    model = nn.Sequential(nn.Conv2d(4, 6, 1, bias=False)).eval().to("opencl")
    fused, x = ct.fuse(model), torch.randn(2, 4, 6, 5).to("opencl")
    once = fused(x).cpu()
    with torch.no_grad():
        next(fused.parameters()).mul_(2)
    assert torch.equal(fused(x).cpu(), 2 * once)
    fused.load_state_dict({n: p / 2 for n, p in fused.state_dict().items()})
    assert torch.equal(fused(x).cpu(), once)
    assert torch.equal(copy.deepcopy(fused)(x).cpu(), once)
    with torch.inference_mode():
        assert torch.equal(fused(x).cpu(), once)


@pytest.mark.usefixtures("unoptimised")
def test_a_residual_block():
    torch.manual_seed(0)
    model = Block()
    for norm in (model.norm1, model.norm2):
        nn.init.uniform_(norm.running_var, 0.5, 2)
        nn.init.normal_(norm.running_mean)
        nn.init.normal_(norm.bias)
    model.eval()
    x = torch.randn(2, 4, 6, 5)
    expected = model.double()(x.double()).detach()
    fused = ct.fuse(model.float().to("opencl"))
    there = x.to("opencl", memory_format=torch.channels_last)
    ct.fallback("error")
    try:
        found = fused(there)
        with cp.profile() as p:
            fused(there)
    finally:
        ct.fallback("warn")
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-5)
    assert found.is_contiguous(memory_format=torch.channels_last)
    targets = [n.target for n in fused.graph.nodes if n.op.startswith("call")]
    assert targets[:3] == ["conv1_fused", "conv2_fused", "conv3_fused"]
    assert not any(t in ("norm1", "norm2", "add") for t in targets[:3])
    assert not any("norm" in event.name for event in p.events)
    # On the CPU the same network runs as PyTorch's own parts.
    torch.testing.assert_close(fused.cpu()(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_a_network_in_training_mode_is_refused():
    with pytest.raises(cp.DefinitionError, match="expected a network in eval mode"):
        ct.fuse(Block())


class Branches(nn.Module):
    """Two convolutions whose results are channels of one tensor, and one that is used twice."""

    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(3, 2, 1, ceil_mode=True)
        self.a, self.b = nn.Conv2d(4, 6, 1), nn.Conv2d(4, 5, 3, padding=1)
        self.c, self.d = nn.Conv2d(11, 3, 1), nn.Conv2d(11, 3, 1)

    def forward(self, x):
        x = self.pool(x)
        y = torch.cat([torch.relu(self.a(x)), self.b(x)], 1)
        c, d = self.c(y), self.d(y)
        return torch.cat((c, d, y), dim=1) + torch.cat([d, c, y * c.sum()], dim=1)


# What puts arrays side by side: a copy of each, or one kernel of all.
MOVES = {"copy", "pieces"}


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_convolutions_write_into_their_concatenation(order):
    torch.manual_seed(0)
    model = Branches().eval()
    x = torch.randn(2, 4, 7, 10)
    expected = model(x).detach()
    model = model.to("opencl")
    fused, there = ct.fuse(model), x.to("opencl").contiguous(memory_format=order)
    found = fused(there)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    # Of three concatenations one has nothing but convolutions that nobody else reads.
    kinds = [type(fused.get_submodule(n.target)).__name__ for n in fused.graph.nodes
             if n.op == "call_module"]  # fmt: skip
    assert kinds.count("FusedConcat") == 1 and kinds.count("FusedMaxPool2d") == 1
    with cp.profile() as p:
        fused(there)
        before = sum(event.name in MOVES for event in p.events)
        model(there)
    copies = sum(event.name in MOVES for event in p.events)
    assert copies - before > before  # the plain network moves two more parts
    # With other images, with gradients and on the CPU it is PyTorch's own.
    smaller = x[:1, :, 1:, 2:]
    torch.testing.assert_close(
        fused(smaller.to("opencl")).cpu(), model.cpu()(smaller), rtol=1e-5, atol=1e-5
    )
    with_gradient = x.to("opencl").requires_grad_()
    fused(with_gradient).sum().backward()
    host = x.clone().requires_grad_()
    model(host).sum().backward()
    torch.testing.assert_close(with_gradient.grad.cpu(), host.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fused.cpu()(x), expected, rtol=1e-5, atol=1e-5)
