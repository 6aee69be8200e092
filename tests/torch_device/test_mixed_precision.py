"""Small nets trained in mixed precision on the device, beside float32 on the CPU."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import clprim.torch  # noqa: E402, F401

pytestmark = pytest.mark.usefixtures("unoptimised")
D, STEPS = "opencl", 4
# Rounding of factors of 10 and 7 bits, as far as a few steps carry it.
CLOSE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8)])
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norms[0](self.first(x)))
        x = F.relu(self.norms[1](self.second(x)) + x)
        return self.last(x.mean((2, 3)))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        return self.last(self.layer(x).mean(1))


NETS = {"images": (Images, (4, 3, 8, 8)), "tokens": (Tokens, (4, 7, 16))}


def trained(net, x, y, where, dtype, wrap):
    """Losses, and parameters behind the last step."""
    net = copy.deepcopy(net).to(where)
    x, y = x.to(where), y.to(where)
    if x.ndim == 4:
        net, x = (a.to(memory_format=torch.channels_last) for a in (net, x))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(where, init_scale=256.0, enabled=dtype is torch.float16)
    run, losses = wrap(net), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(where, dtype=dtype, enabled=dtype is not None):
            logits = run(x)
            loss = F.cross_entropy(logits, y)
        assert logits.dtype is (dtype or torch.float32)
        assert loss.dtype is torch.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert all(p.dtype is torch.float32 for p in net.parameters())
    return torch.tensor(losses), [p.detach().cpu() for p in net.parameters()]


@pytest.mark.parametrize("wrap", ["eager", "compiled"])
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("name", NETS)
def test_training_beside_float32(name, dtype, wrap):
    torch.compiler.reset()
    torch.manual_seed(0)
    kind, shape = NETS[name]
    net, x, y = kind(), torch.randn(shape), torch.randint(0, 5, shape[:1])
    wraps = {"eager": lambda f: f, "compiled": lambda f: torch.compile(f, backend="clprim")}
    losses, found = trained(net, x, y, D, dtype, wraps[wrap])
    wanted_losses, wanted = trained(net, x, y, "cpu", None, wraps["eager"])
    torch.testing.assert_close(losses, wanted_losses, rtol=CLOSE[dtype], atol=CLOSE[dtype])
    assert losses[-1] < losses[0]
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=CLOSE[dtype], atol=CLOSE[dtype])
