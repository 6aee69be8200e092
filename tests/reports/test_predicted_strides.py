"""Strides predicted for compiled models are the device's (pytorch#184026, pytorch#171622)."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import clprim.torch  # noqa: E402, F401

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("unoptimised")]


def _described(t):
    return t.shape, t.stride()


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_chain_of_transposed_convolutions(memory_format):
    def run():
        with torch.device("opencl"):
            net = nn.Sequential(
                nn.ConvTranspose2d(16, 16, 3, 2, 1, output_padding=1),
                nn.ConvTranspose2d(16, 8, 2, 2),
            )
        for p in net.parameters():
            if p.ndim == 4:
                p.data = p.data.contiguous(memory_format=memory_format)
        x = torch.ones(2, 16, 5, 6, device="opencl").to(memory_format=memory_format)
        x.requires_grad_()
        y = net(x)
        y.sum().backward()
        return [_described(t) for t in (y, x.grad, *(p.grad for p in net.parameters()))]

    found = run()
    assert found[0][0] == (2, 8, 20, 24)
    with FakeTensorMode():
        assert run() == found


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_transposed_convolution():
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = nn.ConvTranspose2d(16, 16, 3, 2, 1, output_padding=1)
    x = torch.randn(2, 16, 4, 4)
    expected = net(x)
    net = net.to("opencl", memory_format=torch.channels_last)
    here = x.to("opencl").to(memory_format=torch.channels_last)
    found = torch.compile(net, backend="aot_eager")(here)
    assert found.stride() == net(here).stride()
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-4)
