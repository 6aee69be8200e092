"""A generator inside a compiled function: its graph ends there, and the same numbers are drawn."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "device"),
    pytest.mark.filterwarnings("ignore"),
]


def drawn(x, g):
    how = {"generator": g, "device": x.device}
    return (x + 1) * torch.rand(3, **how) + torch.randn(3, **how)


def in_place(x, g):
    return x.clone().bernoulli_(0.5, generator=g) + x.clone().normal_(generator=g)


def chosen(x, g):
    order = torch.empty_like(x).uniform_(generator=g).argsort()
    return x[order], torch.multinomial(x.abs() + 1, 2, generator=g) * 2


def seeded(x, g):
    g.manual_seed(5)
    return x + torch.rand(3, generator=g, device=x.device)


def made(x, _):
    g = torch.Generator(x.device).manual_seed(7)
    return x * torch.rand(3, generator=g, device=x.device)


OF_THE_DEVICE = [(f, "opencl") for f in (drawn, in_place, chosen, seeded, made)]


@pytest.mark.parametrize(("f", "where"), [*OF_THE_DEVICE, (in_place, "cpu"), (chosen, "cpu")])
def test_it_decides_the_numbers(f, where):
    def twice(run):
        g = torch.Generator(where).manual_seed(4)
        x = torch.tensor([1.0, 2, 3], device="opencl")
        return [run(x, g) for _ in range(2)]

    torch.compiler.reset()
    torch.testing.assert_close(twice(torch.compile(f, backend="clprim")), twice(f))
