"""Compiled functions of functions: what these make is on the device, of models on the CPU too."""

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops import map as mapped  # noqa: E402
from torch._higher_order_ops import scan, while_loop  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "device"),
    pytest.mark.filterwarnings("ignore"),
]


def ones(x):
    return torch.ones(3, device=x.device) * torch.tensor([1.0, 2, 3], device=x.device)


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x * ones(x), lambda x: x - ones(x), (x,))


def loop(x):
    start = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda i, _: i < 4, lambda i, x: (i + 1, x * 2 + ones(x)), (start, x))


def rows(x):
    return mapped(lambda row, y: row * y + ones(y), x.expand(4, 3).clone(), x)


def carried(x):
    def step(c, y):
        return c @ (ones(c) * y[:, None]) + ones(c), c * 2

    return scan(step, torch.zeros(3, device=x.device), x.expand(4, 3).clone(), dim=0)


def windows(x):
    return (x * 2).as_strided((2, 2), (1, 1)), (x * 3).unfold(0, 2, 1)


@pytest.mark.parametrize("where", ["opencl", "cpu"])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("f", [branches, loop, rows, carried, windows])
def test_it_is_what_it_is_on_the_cpu(f, trains, where):
    def ran(run, where):
        x = torch.tensor([1.0, 2, 3]).to(where).requires_grad_(trains)
        found = run(x)
        found = [*found] if isinstance(found, (tuple, list)) else [found]
        if trains:
            sum(r.sum() for r in found if r.is_floating_point()).backward()
            found.append(x.grad)
        return [r.detach().cpu() for r in found]

    if f is loop and trains:
        pytest.skip("PyTorch differentiates no loop of which nobody knows how often it runs")
    torch.compiler.reset()
    torch.testing.assert_close(ran(torch.compile(f, backend="clprim"), where), ran(f, "cpu"))
