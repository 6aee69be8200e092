"""Fused networks give what the networks do, with fewer kernels."""

import copy
import pickle

import numpy as np
import pyopencl as cl
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised", "strict")
D = "opencl"


class Block(nn.Module):
    """A residual block, and a convolution that two others read."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv3, self.relu = nn.Conv2d(4, 6, 1), nn.ReLU()

    def forward(self, x, *, scale=1.0):
        x = self.relu(self.norm1(self.conv1(x)))
        x = self.relu(self.norm2(self.conv2(x)) + x)
        y = self.conv3(x) * scale
        return {"y": torch.relu(y) + y, "x": x}


def block():
    torch.manual_seed(0)
    model = Block()
    for norm in (model.norm1, model.norm2):
        nn.init.uniform_(norm.running_var, 0.5, 2)
        nn.init.normal_(norm.running_mean)
        nn.init.normal_(norm.bias)
    return model.eval()


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_a_residual_block(order):
    model, x = block(), torch.randn(2, 4, 6, 5)
    expected = copy.deepcopy(model).double()(x.double())
    fused = ct.fuse(model.to(D))
    assert [*fused.state_dict()] == [*model.state_dict()] and type(fused) is Block
    there = x.to(D, memory_format=order)
    found = fused(there)
    with cp.profile() as p, torch.no_grad():
        again = fused(there)
        kernels = len(p.events)
        plain = model(there)
    assert kernels < len(p.events) - kernels
    for name, value in again.items():
        assert torch.equal(value, found[name]) and value.stride() == plain[name].stride()
        torch.testing.assert_close(value.cpu().double(), expected[name], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fused(there, scale=2.0)["x"], found["x"])
    assert not torch.equal(fused(there, scale=2.0)["y"], found["y"])
    assert torch.equal(fused(x[:1].to(D))["x"].cpu(), fused(x.to(D))["x"][:1].cpu())
    assert "conv" in fused.forward.explain(there)
    # On the CPU the same network runs as PyTorch's own parts.
    with pytest.warns(UserWarning, match="parameters or buffers that are not on 'opencl'"):
        found = fused.cpu()(x)
    torch.testing.assert_close(found["y"].double(), expected["y"], rtol=1e-5, atol=1e-5)


def test_what_is_kept_of_weights_follows_them():
    model = nn.Sequential(nn.Conv2d(4, 6, 1, bias=False), nn.BatchNorm2d(6, affine=False)).eval()
    fused, x = ct.fuse(model.to(D)), torch.randn(2, 4, 6, 5).to(D)
    once = fused(x)
    with torch.no_grad():
        fused[0].weight.mul_(2)
    torch.testing.assert_close(fused(x), 2 * once)
    torch.testing.assert_close(fused(x[:1]), 2 * once[:1])
    fused.load_state_dict(model.state_dict())
    assert torch.equal(fused(x), once)
    fused[1].running_mean += 1
    torch.testing.assert_close(fused(x), model(x) - 1)
    fused[1].running_mean = model[1].running_mean.clone()
    fused[0].weight.data = 3 * model[0].weight
    torch.testing.assert_close(fused(x), 3 * once)
    fused[0].weight = nn.Parameter(model[0].weight * 4, requires_grad=False)
    torch.testing.assert_close(fused(x), 4 * once)
    fused[0] = model[0].requires_grad_(False)
    assert torch.equal(fused(x), once)
    for other in (copy.deepcopy(fused), pickle.loads(pickle.dumps(fused))):
        with torch.no_grad():
            other[0].weight.mul_(2)
        torch.testing.assert_close(other(x), 2 * once)
    with torch.inference_mode():
        assert torch.equal(fused(x), once)
        torch.testing.assert_close(ct.fuse(model)(x), once)


class Joined(nn.Module):
    """A convolution whose weight is put together, and turned, at every call."""

    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.randn(2, 4, 3, 3)) for _ in range(2))

    def forward(self, x):
        weight = torch.cat([self.a, self.b * 2]).flip(2)
        return nn.functional.conv2d(x, weight, padding=1)


def test_what_is_computed_of_weights_follows_them():
    model, x = Joined().to(D).eval(), torch.randn(2, 4, 6, 5).to(D)
    fused = ct.fuse(model)
    for size in (2, 1, 2):
        with torch.no_grad():
            torch.testing.assert_close(fused(x[:size]), model(x[:size]))
            for net in (fused, model):
                net.b.add_(1)
    with cp.profile() as p:
        fused(x)
        fused(x)
    assert len(p.events) < 2 * len({event.name for event in p.events})


class Views(nn.Module):
    """Results that are arguments, parts of one tensor, weights, and nothing."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x, n=1):
        y = x + n
        x.mul_(2)
        return [y[:1], y.t(), x, x[1:], None, self.weight, torch.tensor([3.0], device=D), x.numel()]


def test_results_are_what_the_network_returns():
    fused, model = ct.fuse(Views().to(D).eval()), Views().to(D).eval()
    for _ in range(2):
        x, y = (torch.arange(6.0).reshape(2, 3).to(D) for _ in range(2))
        version = x._version
        with torch.no_grad():
            found, wanted = fused(x, n=2), model(y, n=2)
        for a, b in zip(found, wanted, strict=True):
            if isinstance(b, torch.Tensor):
                assert torch.equal(a, b) and (a.shape, a.stride()) == (b.shape, b.stride())
            else:
                assert a == b
        assert torch.equal(x, y) and x._version > version
        assert found[2] is x and found[5] is fused.weight
        found[0].zero_()
        assert not found[1][:, 0].any()
        found[3].zero_()
        assert not x[1].any()
        found[6].zero_()


def test_why_it_is_the_network_is_told_once():
    model, x = block(), torch.randn(2, 4, 6, 5)
    fused = ct.fuse(model)
    with pytest.warns(UserWarning, match=r"Block: with parameters .* not on 'opencl': it runs"):
        torch.testing.assert_close(fused(x), model(x))
    model.to(D), fused.to(D)
    a, b = (x.to(D).requires_grad_() for _ in range(2))
    with pytest.warns(UserWarning, match="with gradients"):
        fused(a)["y"].sum().backward()
    model(b)["y"].sum().backward()
    assert torch.equal(a.grad, b.grad)
    fused(a)  # once
    with (
        pytest.warns(UserWarning, match="with arguments that are not on"),
        pytest.raises(RuntimeError, match="should be the same"),
    ):
        fused(x)
    with pytest.raises(cp.DefinitionError, match="with gradients"):
        fused.forward.explain(a)
    fused.train()
    with pytest.warns(UserWarning, match="in training mode"):
        fused(b.detach())
    with pytest.raises(cp.DefinitionError, match="expected a network in eval mode"):
        ct.fuse(model.train())


class Adds(nn.Module):
    def forward(self, x, y):
        return x + y


def test_arguments_that_overlap_in_part_are_told():
    from clprim.arrays.array import array_over

    device, found = cp.current_device(), []
    whole = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 4096)
    for n in (0, 1024):
        part = whole.get_sub_region(n, 2048)
        array = array_over(device, part, (512,), np.dtype("float32"), (4,), 0, 512)
        found.append(ct.tensor(array).fill_(n))
    fused = ct.fuse(Adds().eval())
    with pytest.warns(UserWarning, match="Adds: with arguments over overlapping parts of one"):
        assert torch.equal(fused(*found), found[0] + found[1])
    fused(*found)
    with pytest.raises(cp.DefinitionError, match="overlapping parts"):
        fused.forward.explain(*found)


def kernels(net, x):
    with cp.profile() as p:
        net(x)
    return len(p.events)


@pytest.mark.parametrize("moved", [False, True])
def test_in_the_inference_mode_weights_are_kept(moved):
    x = torch.randn(2, 3, 6, 5).to(D)

    def made():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()

    model = made() if moved else made().to(D)
    with torch.inference_mode():
        fused = ct.fuse(model).to(D)
        fused(x)
        assert kernels(fused, x) == 1
        fused = ct.fuse(made().to(D))
        fused(x)
        assert kernels(fused, x) == 1
        fused[0].weight = nn.Parameter(fused[0].weight * 2, requires_grad=False)
        with pytest.warns(UserWarning, match=r"Sequential: .* made in torch\.inference_mode"):
            fused(x)
        assert kernels(fused, x) > 1


class Asks(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


def test_what_depends_on_what_tensors_hold_is_refused():
    with pytest.raises(cp.DefinitionError, match=r"Asks: a download, at .*test_fused.py:\d+"):
        ct.fuse(Asks().eval())(torch.ones(2, device=D))


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight + torch.rand_like(x)


def test_kernels_run_once_a_call_whatever_is_written_between_calls():
    x = torch.randn(2, 3, 6, 5).to(D)
    fused = ct.fuse(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval().to(D))
    with torch.no_grad():
        first = fused(x)
        with cp.profile() as p:
            again = fused(x)
        assert len(p.events) == 1
        assert torch.equal(again, first)
        fused[0].weight.mul_(2), fused[0].bias.mul_(2)
        torch.testing.assert_close(fused(x), first * 2)
        fused[0].weight = nn.Parameter(torch.zeros_like(fused[0].weight))
        assert torch.equal(fused(x)[0, :, 0, 0], fused[0].bias.relu())
        with cp.profile() as p:
            fused(x)
        assert len(p.events) == 1
        # What draws random numbers draws them once.
        noisy, y = ct.fuse(Noisy().eval().to(D)), torch.zeros(2, 4).to(D)
        noisy(y)
        torch.manual_seed(3)
        found = [noisy(y) for _ in range(3)]
        torch.manual_seed(3)
        assert all(torch.equal(f, 0 * y + torch.rand_like(y)) for f in found)


WRITES = {
    "index_fill_": lambda y, i, one: y.index_fill_(0, i, 2.0),
    "scatter_": lambda y, i, one: y.scatter_(0, i[:, None].expand(3, 2), one),
    "index_copy_": lambda y, i, one: y.index_copy_(0, i, one),
    "index_put_": lambda y, i, one: y.index_put_((i,), one),
    "put_": lambda y, i, one: y.put_(torch.cat([i, i + 3]), one.flatten()),
    "setitem": lambda y, i, one: y.__setitem__(i, 1.0),
}


class Written(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x):
        y = torch.empty(3, 2, device=x.device)
        self.write(y, torch.arange(3, device=x.device), torch.ones(3, 2, device=x.device))
        return x + y


@pytest.mark.parametrize("name", WRITES)
def test_an_empty_tensor_that_constants_fill(device, name):
    model, x = Written(WRITES[name]).eval(), torch.ones(3, 2)
    fused = ct.fuse(model)
    for _ in range(2):
        assert torch.equal(fused(x.to(D)).cpu(), model(x))
