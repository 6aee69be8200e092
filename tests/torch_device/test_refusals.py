"""Results that PyTorch refuses to write are refused on the device, before anything is written."""

import pytest

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402, F401


def there(*shape, dtype=torch.float32):
    return torch.arange(float(torch.Size(shape).numel())).view(shape).to(dtype).to("opencl")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: torch.gather(x, 0, i, out=x),
        lambda x, i: torch.take(x, i, out=x[:3]),
        lambda x, i: torch.index_select(x, 0, i, out=x[1:4]),
        lambda x, i: torch.cat([x[:2], x[2:3]], out=x[2:5]),
        lambda x, i: torch.masked_select(x, x > 1, out=x[2:]),
    ],
    ids=["gather", "take", "index_select", "cat", "masked_select"],
)
def test_a_result_that_lies_on_an_operand(call):
    x, before = there(6), there(6).cpu()
    i = torch.tensor([0, 2, 1], device="opencl")
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        call(x, i)
    assert torch.equal(x.cpu(), before)


def test_a_result_whose_elements_lie_on_each_other():
    x = there(3)
    out = torch.empty(1, device="opencl").expand(6)
    with pytest.raises(RuntimeError, match=r"cat: more than one element of the written-to"):
        torch.cat([x, x], out=out)
    apart = there(12)  # next to an operand is not on it
    torch.cat([apart[:3], apart[3:6]], out=apart[6:])
    assert apart[6:].tolist() == [0, 1, 2, 3, 4, 5]
    torch.add(x, x, out=x)  # elementwise in place is fine
    assert x.tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extrema_of_another_dtype(name):
    out = torch.zeros(2, dtype=torch.int32, device="opencl")
    with pytest.raises(RuntimeError, match=rf"{name}: Expected out .* torch.float32, but got"):
        getattr(torch, name)(there(2, 3), 1, out=out)
    assert out.tolist() == [0, 0]


def test_a_range_whose_step_is_none_of_its_dtype():
    with pytest.raises(RuntimeError, match=r"step must be nonzero, got 0\.5 for torch.int64"):
        torch.arange(0, 64, 0.5, out=torch.empty(0, dtype=torch.int64, device="opencl"))


def test_batches_are_added_up_before_they_are_rounded():
    torch.manual_seed(0)
    a, b = torch.randn(9, 4, 7, dtype=torch.bfloat16), torch.randn(9, 7, 5, dtype=torch.bfloat16)
    old = torch.zeros(4, 5, dtype=torch.bfloat16)
    found = torch.addbmm(*[t.to("opencl") for t in (old, a, b)])
    exact = (a.double() @ b.double()).sum(0)
    # Half a unit in the last place of the sum; sums of rounded products are off by several.
    assert ((found.cpu().double() - exact).abs() <= exact.abs() * 2**-8 + 2**-8).all()
    with pytest.raises(RuntimeError, match="addbmm: batches of 9 and 8 matrices"):
        torch.addbmm(old.to("opencl"), a.to("opencl"), b[:8].to("opencl"))


# Large ones are outside, and negative ones where PyTorch refuses them; elsewhere these count from
# the end, but for those further out than that.
INDICES = torch.tensor([0, 7, -8, 2, 1 << 40, -(1 << 40), -1])
INSIDE, FROM_THE_END = [0, 3], [0, 3, 6]


def rows(i):
    return i[:, None].expand(len(i), 3)


@pytest.mark.parametrize(
    ("call", "inside"),
    [
        (lambda x, i: torch.index_select(x, 0, i), INSIDE),
        (lambda x, i: x[i], FROM_THE_END),
        (lambda x, i: torch.nn.functional.embedding(i, x), INSIDE),
        (lambda x, i: torch.gather(x, 0, rows(i)), INSIDE),
        (lambda x, i: torch.take(x, 3 * rows(i)), FROM_THE_END),
    ],
    ids=["index_select", "index", "embedding", "gather", "take"],
)
def test_indices_outside_read_zeros(call, inside):
    whole = torch.full((21, 3), float("nan"), device="opencl")
    x = whole[7:14]
    x.copy_(torch.arange(1.0, 22).view(7, 3))
    found = call(x, INDICES.to("opencl")).cpu()
    expected = torch.zeros(7, 3)
    expected[inside] = call(x.cpu(), INDICES[inside] % 7)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("call", "inside"),
    [
        (lambda x, i, y: x.index_add_(0, i, y), INSIDE),
        (lambda x, i, y: x.index_copy_(0, i, y), INSIDE),
        (lambda x, i, y: x.index_fill_(0, i, 5.0), FROM_THE_END),
        (lambda x, i, y: x.scatter_(0, rows(i), y), INSIDE),
        (lambda x, i, y: x.scatter_add_(0, rows(i), y), INSIDE),
        (lambda x, i, y: x.index_put_((i,), y), FROM_THE_END),
        (lambda x, i, y: x.index_put_((i,), y, accumulate=True), FROM_THE_END),
    ],
    ids=["index_add", "index_copy", "index_fill", "scatter", "scatter_add", "put", "accumulate"],
)
def test_indices_outside_write_nothing(call, inside):
    whole, expected = torch.full((21, 3), 2.0, device="opencl"), torch.full((21, 3), 2.0)
    values = there(7, 3)
    call(whole[7:14], INDICES.to("opencl"), values)
    call(expected[7:14], INDICES[inside] % 7, values.cpu()[inside])
    assert torch.equal(whole.cpu(), expected)


def test_hardshrink_of_integers():
    with pytest.raises(RuntimeError, match="hardshrink"):
        torch.nn.functional.hardshrink(torch.arange(3))
    with pytest.raises(RuntimeError, match=r"hardshrink: not for tensors of torch\.int64"):
        torch.nn.functional.hardshrink(there(3, dtype=torch.int64))
