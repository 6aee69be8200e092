"""Compiled training of channels-last networks converts no image, whatever PyTorch's formats are."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_networks import converts, recordings  # noqa: E402

from clprim.runtime.device import current_device  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "compiles"),
    pytest.mark.filterwarnings("ignore"),
]
D, LAST = "opencl", torch.channels_last


class Excited(nn.Module):
    """Squeeze and excitation, whose gradients PyTorch lays out in C order."""

    def __init__(self):
        super().__init__()
        self.wide, self.norm = nn.Conv2d(4, 8, 1), nn.BatchNorm2d(8)
        self.squeezed, self.gate = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.last = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x):
        y = F.silu(self.norm(self.wide(x)))
        y = y * torch.sigmoid(self.gate(F.silu(self.squeezed(F.adaptive_avg_pool2d(y, 1)))))
        return F.silu(self.last(y)).mean((2, 3))


class Contiguous(nn.Module):
    """Blocks that make images contiguous, which are kept for the backward pass."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        y = F.silu(self.norm(self.first(x).contiguous()))
        return F.silu(self.second(y)).mean((2, 3))


class Shuffled(nn.Module):
    """Halves of channels that are shuffled, of which gradients are kept as parts of others."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 64, 1), nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, x):
        y = F.relu(self.first(x))
        y = y.view(len(x), 2, 32, *x.shape[2:]).transpose(1, 2).contiguous().flatten(1, 2)
        a, b = y.chunk(2, 1)
        return (F.relu(self.second(a)) * b).mean((2, 3))


@pytest.mark.parametrize("make", [Excited, Contiguous, Shuffled])
def test_training_converts_nothing(make):
    net = make().to(D, memory_format=LAST)
    other = copy.deepcopy(net)
    inputs = [torch.randn(2, 4, 6, 7).to(D, memory_format=LAST) for _ in range(2)]
    inputs = [(x.requires_grad_(), x.detach().clone().requires_grad_()) for x in inputs]
    with recordings() as found:
        run = torch.compile(other, backend="clprim")
        for x, y in inputs:
            outputs = net(x), run(y)
            torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-5, atol=1e-6)
            for each in outputs:
                each.square().sum().backward()
            assert y.grad.stride() == x.grad.stride()
            torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-6)
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        assert p.grad.stride() == q.grad.stride()
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)
    assert len(found) == 2
    if current_device().traits.is_cpu:
        assert not [node for each in found for node in each.replay.graph.nodes if converts(node)]


def test_what_is_seen_as_strided_lies_as_it_was_told():
    """A backward pass that computes with strides of what is kept gets those strides."""

    def net(x, w):
        y = F.relu(F.conv2d(x, w).contiguous())
        y = y * torch.as_strided(y, y.shape, (8 * 42, 42, 1, 6)).exp()
        return (F.conv2d(y, w.transpose(0, 1)) * y[:, :4]).mean((2, 3))

    x, w = torch.randn(2, 4, 6, 7), torch.randn(8, 4, 1, 1)
    grads = []
    for run in (net, torch.compile(net, backend="clprim")):
        given = [t.to(D, memory_format=LAST).requires_grad_() for t in (x, w)]
        run(*given).square().sum().backward()
        grads.append([t.grad for t in given])
    for found, wanted in zip(*reversed(grads), strict=True):
        assert found.stride() == wanted.stride()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
