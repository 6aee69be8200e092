"""Indices that PyTorch refuses: they read zeros and write nothing; negative ones are among them."""

import pytest

torch = pytest.importorskip("torch")
import clprim.torch  # noqa: E402, F401

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("unoptimised")


def long(*values):
    return torch.tensor(values, device="opencl")


# Of rows 1, 2 and 3, and of indices of which the second one alone is in bounds.
READ = {
    "embedding": lambda x, i: F.embedding(i, x),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, 2)),
    "bags": lambda x, i: F.embedding_bag(i[:, None], x, mode="sum"),
}
WRITTEN = {
    "scatter": lambda x, i, s: x.scatter(0, i[:, None].expand(-1, 2), s),
    "scatter of a number": lambda x, i, s: x.scatter(0, i[:, None].expand(-1, 2), 9),
    "scatter_add": lambda x, i, s: x.scatter_add(0, i[:, None].expand(-1, 2), s - x[1]),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce(
        0, i[:, None].expand(-1, 2), s, "amax"
    ),
    "index_add": lambda x, i, s: x.index_add(0, i, s - x[1]),
    "index_copy": lambda x, i, s: x.index_copy(0, i, s),
    "index_reduce": lambda x, i, s: x.index_reduce(0, i, s, "amax"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("name", READ)
def test_outside_is_read_as_zeros(name, dtype):
    if dtype is torch.int32 and name == "gather":
        pytest.skip("PyTorch takes int64")
    x = torch.tensor([[1.0, 1], [2, 2], [3, 3]], device="opencl", requires_grad=True)
    y = READ[name](x, long(-1, 1, 3, -4, -(2**31)).to(dtype))
    assert y.tolist() == [[0, 0], [2, 2], [0, 0], [0, 0], [0, 0]]
    y.sum().backward()
    assert x.grad.tolist() == [[0, 0], [1, 1], [0, 0]]


@pytest.mark.parametrize("name", WRITTEN)
def test_outside_is_written_nothing(name):
    x = torch.tensor([[1.0, 1], [2, 2], [3, 3]], device="opencl")
    source = torch.full((4, 2), 9.0, device="opencl")
    y = WRITTEN[name](x, long(-1, 1, 3, -4), source)
    assert y.tolist() == [[1, 1], [9, 9], [3, 3]]


def test_negative_ones_where_pytorch_takes_them():
    x = torch.tensor([1.0, 2, 3], device="opencl", requires_grad=True)
    x[long(-1, 0)].sum().backward()
    assert x.grad.tolist() == [1, 0, 1]
    assert x.detach().take(long(-1, -3)).tolist() == [3, 1]
    assert x.detach().index_fill(0, long(-2), 7).tolist() == [1, 7, 3]
    y = x.detach().clone()
    y[long(-1)] = 5
    assert y.tolist() == [1, 2, 5]


def test_means_of_bags_count_what_is_in_bounds():
    x = torch.tensor([[2.0], [4], [6]], device="opencl", requires_grad=True)
    y = F.embedding_bag(long(0, -1, 1, 9), x, long(0, 3), mode="mean")
    assert y.tolist() == [[3], [0]]
    y.sum().backward()
    assert x.grad.tolist() == [[0.5], [0.5], [0]]
