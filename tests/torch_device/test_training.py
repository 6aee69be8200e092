"""Small networks train on the device as on the CPU, in both memory formats, with no fallback."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("strict")

FORMATS = [torch.contiguous_format, torch.channels_last]


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, groups=8, bias=False), nn.GroupNorm(2, 8), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


def steps(model, x, y, count=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("memory_format", FORMATS, ids=str)
def test_a_network_trains_as_on_the_cpu(memory_format):
    torch.manual_seed(0)
    model = convolutional()
    x, y = torch.randn(6, 3, 13, 12), torch.randint(0, 5, (6,))
    twin = copy.deepcopy(model).double()
    ours = copy.deepcopy(model).to("opencl", memory_format=memory_format)
    found = steps(ours, x.to("opencl", memory_format=memory_format), y.to("opencl"))
    expected = steps(twin, x.double(), y)
    torch.testing.assert_close(
        torch.tensor(found), torch.tensor(expected).float(), rtol=1e-4, atol=1e-5
    )
    for a, b in zip(ours.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.detach().cpu().double(), b.detach(), rtol=1e-3, atol=1e-4)
    for a, b in zip(ours.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a.cpu().double(), b.double(), rtol=1e-4, atol=1e-5)


def test_channels_last_stays_from_end_to_end():
    model = convolutional().to("opencl", memory_format=torch.channels_last)
    x = torch.randn(2, 3, 13, 12).to("opencl", memory_format=torch.channels_last)
    for layer in model[:7]:
        x = layer(x)
        assert x.is_contiguous(memory_format=torch.channels_last), layer
        assert not x.is_contiguous()


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "RMSprop"])
def test_optimizers(optimizer):
    torch.manual_seed(1)
    model = nn.Linear(4, 3)
    ours, twin = copy.deepcopy(model).to("opencl"), copy.deepcopy(model).double()
    x = torch.randn(5, 4)
    for net, data in ((ours, x.to("opencl")), (twin, x.double())):
        step = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01)
        for _ in range(5):
            step.zero_grad()
            net(data).square().sum().backward()
            step.step()
    torch.testing.assert_close(
        ours.weight.detach().cpu().double(), twin.weight.detach(), rtol=1e-5, atol=1e-6
    )


def test_checkpoints_draw_the_same_numbers_again():
    for reentrant in (False, True):
        x = torch.ones(100, device="opencl", requires_grad=True)
        drop = nn.Dropout(0.5)
        found = torch.utils.checkpoint.checkpoint(drop, x, use_reentrant=reentrant)
        found.sum().backward()
        assert torch.equal(x.grad, found.detach())


def test_loaders_may_pin_memory():
    loader = torch.utils.data.DataLoader(torch.arange(6.0), batch_size=3, pin_memory=True)
    assert [batch.to("opencl", non_blocking=True).sum().item() for batch in loader] == [3, 12]


@pytest.mark.parametrize("dim", [0, 1])
def test_weight_norm(dim):
    torch.manual_seed(0)
    twin = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2), dim=dim)
    ours = copy.deepcopy(twin).to("opencl")
    for net in (twin, ours):
        net(torch.arange(6.0).reshape(2, 3).to(net.bias.device)).square().sum().backward()
    for a, b in zip(ours.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-5)
