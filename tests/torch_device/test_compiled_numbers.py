"""Compiled functions of Python numbers that change: each call has its own."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

pytestmark = [pytest.mark.usefixtures("unoptimised"), pytest.mark.filterwarnings("ignore")]
FLOATS = 0.5, 0.4, 0.3, 0.2
FUNCTIONS = {
    "alpha": lambda x, y, n: x.mul(n).add(y, alpha=1 - n),
    "alpha_of_sub": lambda x, y, n: torch.sub(x, y, alpha=n * 2),
    "beta": lambda x, y, n: torch.addmm(x, x, y, beta=n, alpha=1 - n),
    "addcmul": lambda x, y, n: torch.addcmul(x, x, y, value=n),
    "lerp": lambda x, y, n: x.lerp(y, n),
    "pow": lambda x, y, n: x**n + n**y,
    "rsub": lambda x, y, n: 1 - n * x + n / y,
    "clamp": lambda x, y, n: x.clamp(n, n + 0.1) + y.clamp(max=n),
    "full_like": lambda x, y, n: x + torch.full_like(y, n),
    "fill": lambda x, y, n: x.clone().fill_(n) + y,
    "masked_fill": lambda x, y, n: x.masked_fill(y > 1, n),
    "where": lambda x, y, n: torch.where(x > n, y, n),
    "threshold": lambda x, y, n: F.threshold(x, n, 1 - n),
    "shrink": lambda x, y, n: F.hardshrink(x, n) + F.softshrink(y, n),
    "leaky_relu": lambda x, y, n: F.leaky_relu(-x, n) + F.elu(-y, n),
    "softplus": lambda x, y, n: F.softplus(x, n, 1 + n) + F.celu(-y, n),
    "norm": lambda x, y, n: torch.linalg.vector_norm(x, 1 + n) + y.norm(n + 1),
    "huber": lambda x, y, n: F.huber_loss(x, y, delta=n) + F.smooth_l1_loss(x, y, beta=n),
    "interpolate": lambda x, y, n: (
        F.interpolate(x[None, None], scale_factor=1 + 4 * n, mode="bilinear").sum() + y
    ),
    "linspace": lambda x, y, n: x + torch.linspace(0, n, 2, device=x.device) + y,
    "pad": lambda x, y, n: F.pad(x, (1, 1), value=n).sum() + y,
    "nan_to_num": lambda x, y, n: torch.nan_to_num(x / (y - y), nan=n, posinf=n, neginf=n),
    "branch": lambda x, y, n: x + n if n > 0.35 else y - n,
    "tensor": lambda x, y, n: x * torch.tensor(n, device=x.device) + y,
    "attention": lambda x, y, n: F.scaled_dot_product_attention(
        x[None, None], y[None, None], y[None, None], scale=n
    ),
}


@pytest.fixture
def tensors(device):
    values = torch.tensor([[0.25, 0.5], [1, 2]]), torch.tensor([[2.0, 0.75], [0.5, 1]])
    return [v.to("opencl") for v in values]


def checked(f, tensors, *calls):
    """Compiled twice, the second time with what is on disk, it is what it is uncompiled."""
    for _ in range(2):
        torch.compiler.reset()
        compiled = torch.compile(f, backend="clprim")
        for given in calls:
            torch.testing.assert_close(compiled(*tensors, *given), f(*tensors, *given))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_float_that_changes_is_not_an_older_one(tensors, name):
    checked(FUNCTIONS[name], tensors, *zip(FLOATS, strict=True))


@pytest.mark.parametrize("name", ["alpha", "beta", "clamp", "full_like", "where", "pow", "rsub"])
def test_an_integer_that_changes_is_not_an_older_one(tensors, name):
    checked(FUNCTIONS[name], tensors, (3,), (4,), (5,), (2,))


def test_gradients_are_of_the_number_of_their_call(tensors):
    def f(x, y, n):
        return torch.add(x.square(), y * x, alpha=n).lerp(y, n)

    def slopes(run):
        x = tensors[0].detach().requires_grad_()
        return [torch.autograd.grad(run(x, tensors[1], n).sum(), x) for n in FLOATS]

    for _ in range(2):
        torch.compiler.reset()
        torch.testing.assert_close(slopes(torch.compile(f, backend="clprim")), slopes(f))


def test_numbers_in_dictionaries_and_of_tensors(tensors):
    numbers = [{"a": n, "rest": [1 - n]} for n in FLOATS]
    checked(lambda x, y, n: torch.add(x, y, alpha=n["a"]) * n["rest"][0], tensors, *zip(numbers))
    rates = torch.tensor(FLOATS)
    checked(
        lambda x, y, n: x.lerp(y, rates[n].item()).add(y, alpha=rates[n].item()),
        tensors,
        *zip(range(4)),
    )


def test_a_range_of_sizes_is_the_function_s_own(device):
    for most in (10, 100):
        torch.compiler.reset()
        x = torch.ones(8, device="opencl")
        torch._dynamo.mark_dynamic(x, 0, min=2, max=most)
        run = torch.compile(lambda x: x * x.shape[0], backend="clprim")
        assert run(x).tolist() == [8] * 8
