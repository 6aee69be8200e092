"""Tensors of the CPU beside those of the device: indices, and tensors without dimensions."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402, F401

D = "opencl"
F = torch.nn.functional
pytestmark = [
    pytest.mark.alone,
    pytest.mark.usefixtures("unoptimised"),
    pytest.mark.filterwarnings("ignore:.*torch.uint8 is now deprecated"),
]
ORDER = torch.tensor([2, 0, 1])
MASK = torch.tensor([True, False, True])
READ = {
    "order": lambda x, d: x[ORDER],
    "number": lambda x, d: x[torch.tensor(1)],
    "mask": lambda x, d: x[MASK],
    "mask of elements": lambda x, d: x[torch.tensor([[True, False]] * 3)],
    "mask of bytes": lambda x, d: x[MASK.to(torch.uint8)],
    "two": lambda x, d: x[ORDER, ORDER % 2],
    "one here, one there": lambda x, d: x[ORDER, (ORDER % 2).to(d)],
    "behind": lambda x, d: x[:, torch.tensor([1, 0, 1])],
    "put": lambda x, d: x.index_put((ORDER[:2],), torch.tensor(7.0)),
    "put a row": lambda x, d: x.index_put((ORDER[:2],), torch.ones(2, device=d)),
    "accumulate": lambda x, d: x.index_put((ORDER[:1],), torch.tensor(7.0), accumulate=True),
}


@pytest.mark.parametrize("name", READ)
def test_indices_of_the_cpu(name):
    def run(device):
        x = torch.arange(6.0).reshape(3, 2).to(device).requires_grad_()
        y = READ[name](x, device)
        (y * y).sum().backward()
        return y.detach().cpu(), x.grad.cpu()

    torch.testing.assert_close(run(D), run("cpu"))


def test_what_is_written_at_indices_of_the_cpu():
    def run(device):
        x = torch.arange(6.0).reshape(3, 2).to(device)
        x[MASK] = 0
        x[ORDER[:1]] = torch.tensor(7.0)
        x[torch.tensor(1)] = 5
        x[ORDER] += 1
        return x.cpu()

    assert torch.equal(run(D), run("cpu"))


def test_what_pytorchs_devices_refuse():
    x = torch.arange(6.0).reshape(3, 2)
    here = x.to(D)
    for call in (
        lambda: x[ORDER.to(D)],
        lambda: here.index_put((ORDER,), x),
        lambda: here.index_select(0, ORDER),
        lambda: here.masked_fill(MASK[:, None], 0),
        lambda: here.gather(0, ORDER[:, None]),
        lambda: here + x,
        lambda: x.add_(here),
    ):
        with pytest.raises(RuntimeError, match=r"device|cpu"):
            call()


KINDS = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64)


def test_a_tensor_without_dimensions_is_promoted_by_its_dtype():
    for kind, other in itertools.product(KINDS, KINDS):
        if torch.float64 in (kind, other) and kind is not other:
            continue  # of as many kernels, those that devices without float64 have too
        for shape in ((3,), ()):
            x, number = torch.ones(shape, dtype=kind), torch.tensor(1, dtype=other)
            here = x.to(D)
            for left, right in ((here, number), (number, here)):
                expected = left.cpu() * right.cpu()
                found = left * right
                assert found.dtype is expected.dtype, (kind, other, shape)
                assert torch.equal(found.cpu(), expected)
        assert (x.to(D) * 2).dtype is (x * 2).dtype
        assert (x.to(D) * 2.5).dtype is (x * 2.5).dtype


OPERANDS = {
    "where": lambda x, n: torch.where(x > 1, x, n),
    "where of a truth": lambda x, n: torch.where(n > 0, x, x + 1),
    "where of numbers": lambda x, n: torch.where(x > 1, n, n.double()),
    "clamp": lambda x, n: x.clamp(n, n + 1),
    "addcmul": lambda x, n: torch.addcmul(x, n, x),
    "addcmul to a number": lambda x, n: torch.addcmul(n, x, x),
    "addcdiv": lambda x, n: torch.addcdiv(x, x, n),
    "lerp": lambda x, n: torch.lerp(n, x, n / 2),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "index_fill": lambda x, n: x.index_fill(0, ORDER[:1].to(x.device), n),
    "maximum": torch.maximum,
    "power": lambda x, n: n**x,
    "compare": lambda x, n: n == x,
    "fill": lambda x, n: torch.empty_like(x).fill_(n),
    "out": lambda x, n: torch.add(x, n, out=torch.empty_like(x)),
    "mse_loss": lambda x, n: F.mse_loss(x.sum(), n, reduction="none"),
    "many": lambda x, n: torch._foreach_mul([x, x], n)[1],
}


@pytest.mark.parametrize("name", OPERANDS)
def test_numbers_of_the_cpu_as_operands(name):
    number = torch.tensor(1.0)
    found, expected = (OPERANDS[name](torch.arange(3.0).to(d), number) for d in (D, "cpu"))
    assert found.device.type == D
    torch.testing.assert_close(found.cpu(), expected)
