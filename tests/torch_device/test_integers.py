"""Sums and products of short integers: PyTorch's dtypes, and what wraps where."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised", "strict")
KINDS = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.float32]


def check(function, *tensors):
    """Compares dtype and elements with the CPU's."""
    found, expected = function(*(t.to("opencl") for t in tensors)), function(*tensors)
    assert found.dtype == expected.dtype
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("given", [torch.uint8, torch.int8, torch.float32])
@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "cumsum", "cumprod"])
def test_sums_have_the_dtype_asked_for(name, given):
    x = torch.tensor([[100, 2, 7], [100, 120, 0], [3, 3, 127]]).to(given)
    for kind in KINDS:
        whole = not kind.is_floating_point
        if (whole or "prod" not in name) and not (kind == torch.bool and "cum" in name):
            check(lambda t, kind=kind: getattr(torch, name)(t, 1, dtype=kind), x)
            if "cum" not in name:
                check(lambda t, kind=kind: getattr(torch, name)(t, dtype=kind), x)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_products_have_the_operands_dtype_and_wrap(kind):
    torch.manual_seed(3)
    a, b, c, v, x, w = (
        torch.randint(-30000, 30000, s).to(kind)
        for s in ((3, 4), (4, 5), (3, 5), (4,), (2, 3, 8), (4, 3, 3))
    )
    check(torch.mm, a, b)
    check(lambda a, b: torch.bmm(a[None], b[None]), a, b)
    check(torch.mv, a, v)
    check(torch.dot, v, a[0])
    check(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), c, a, b)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), c, a, b)
    check(lambda c, a, b: torch.baddbmm(c[None], a[None], b[None]), c, a, b)
    check(torch.addmv, a[:, 0], a, v)
    check(F.linear, a, b.T, c[0])
    check(lambda a, b: torch.einsum("ij,jk->ki", a, b), a, b)
    check(F.conv1d, x, w)


def test_a_mixture_of_experts_by_products_of_groups():
    torch.manual_seed(1)
    x, w = torch.randint(-4, 5, (9, 6)).float(), torch.randint(-4, 5, (3, 6, 5)).float()
    expert = torch.tensor([2, 0, 2, 2, 0, 0, 2, 0, 2])

    def run(x, w, expert):
        order = expert.argsort(stable=True)
        counts = (expert[:, None] == torch.arange(3, device=x.device)).sum(0)
        ends = counts.cumsum(0, dtype=torch.int32)
        return torch.empty_like(x[:, :5]).index_copy(0, order, F.grouped_mm(x[order], w, offs=ends))

    found = run(*(t.to("opencl") for t in (x, w, expert)))
    assert torch.equal(found.cpu(), torch.einsum("ni,nio->no", x, w[expert]))


def test_means_of_short_integers_do_not_wrap():
    zero = torch.zeros(300, dtype=torch.int64, device="opencl")
    twos = torch.full((300,), 2, dtype=torch.uint8, device="opencl")
    one = torch.zeros(1, dtype=torch.uint8, device="opencl")
    for found in (
        one.scatter_reduce(0, zero, twos, "mean", include_self=False),
        one.index_reduce(0, zero, twos, "mean", include_self=False),
    ):
        assert found.dtype == torch.uint8
        assert found.tolist() == [2]
    hundred = torch.full((1,), 100, dtype=torch.int8, device="opencl")
    assert hundred.scatter_reduce(0, zero[:1], hundred, "mean").tolist() == [100]
