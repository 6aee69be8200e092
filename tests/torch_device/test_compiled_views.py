"""Compiled functions whose arguments and results are views of one memory."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "device"),
    pytest.mark.filterwarnings("ignore"),
]
VIEWS = {
    "tail": lambda t: (t, t[1:]),
    "column": lambda t: (t, t[:, 1]),
    "halves": lambda t: (t[:3], t[1:]),
    "flat": lambda t: (t.view(-1)[2:], t.view(-1)[:3]),
}


def second(a, b):
    a.add_(100)
    return b


def both_written(a, b):
    a.add_(100)
    b.mul_(2)
    return a[1:], b, b.sum()


def views_of_views(a, b):
    a[0] = 7
    return b[1:], a.t() if a.ndim == 2 else a[::2], b.detach()


def view_of_a_result(a, b):
    c = a + b.sum()
    b.zero_()
    return c[1:], c, b[1:]


def outcome(run, views, where):
    """What it returns, how that lies, and where it is when the base has changed."""
    base = torch.arange(12.0).reshape(4, 3).to(where)
    found = run(*views(base))
    found = found if isinstance(found, tuple) else (found,)
    lie = [(r.stride(), r.storage_offset()) for r in found]
    before = [r.tolist() for r in found]
    base.mul_(3)
    return before, base.tolist(), [r.tolist() for r in found], lie


@pytest.mark.parametrize("where", ["opencl", "cpu"])
@pytest.mark.parametrize("views", VIEWS)
@pytest.mark.parametrize("f", [second, both_written, views_of_views, view_of_a_result])
def test_results_are_the_views_that_they_are_uncompiled(f, views, where):
    torch.compiler.reset()
    run = torch.compile(f, backend="clprim", dynamic=f is view_of_a_result)
    for _ in range(2):
        assert outcome(run, VIEWS[views], where) == outcome(f, VIEWS[views], where)


@pytest.mark.parametrize("where", ["opencl", "cpu"])
def test_gradients_through_views_of_an_argument(where):
    def f(x, y):
        z = x * y
        return x[1:], z[1:], z

    def slopes(run):
        x = torch.arange(6.0).reshape(3, 2).to(where).requires_grad_()
        a, b, c = run(x, x[:, :1])
        ((a * b).sum() + c.square().sum()).backward()
        return x.grad

    torch.compiler.reset()
    assert torch.equal(slopes(torch.compile(f, backend="clprim")), slopes(f))
