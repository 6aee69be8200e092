"""What public reports ask of attention, of `clprim.ops` and on the PyTorch device."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
import clprim.torch  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
RNG = np.random.default_rng(0)


def drawn(*shapes):
    return [RNG.normal(size=s).astype(np.float32) for s in shapes]


def on_device(q, k, v, mask=None, **options):
    """The result, that of `clprim.ops` too, and the gradients of its sum by PyTorch."""
    given = [torch.tensor(a, device="opencl").requires_grad_() for a in (q, k, v)]
    there = None if mask is None else torch.tensor(mask, device="opencl")
    y = attention(*given, there, **options)
    y.sum().backward()
    here = None if mask is None else cp.asarray(mask)
    own = ops.scaled_dot_product_attention(*map(cp.asarray, (q, k, v)), here, **options)
    np.testing.assert_array_equal(own.get(), y.detach().cpu().numpy())
    return own.get(), [t.grad.cpu().numpy() for t in given]


def test_scores_that_halves_cannot_hold(device):
    x = np.full((1, 5, 16), 256, np.float16)
    y, _ = on_device(x, x, x)
    assert (y == 256).all()


def test_a_query_that_sees_nothing_is_zeros_and_has_no_gradient(device):
    q, k, v = drawn((2, 6, 8), (2, 7, 8), (2, 7, 8))
    mask = np.ones((6, 7), bool)
    mask[3] = False
    y, (dq, dk, dv) = on_device(q, k, v, mask)
    assert not y[:, 3].any() and not dq[:, 3].any()
    assert all(np.isfinite(d).all() for d in (dq, dk, dv))
    np.testing.assert_allclose(dv.sum((1, 2)), 5 * 8, rtol=1e-5)  # of five queries


def test_a_row_of_the_least_number_sees_the_mean(device):
    q, k, v = drawn((2, 6, 8), (2, 7, 8), (2, 7, 8))
    mask = np.zeros((6, 7), np.float32)
    mask[2] = -3.4028e38
    y, (_, _, dv) = on_device(q, k, v, mask)
    np.testing.assert_allclose(y[:, 2], v.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dv.sum((1, 2)), 6 * 8, rtol=1e-5)


def test_keys_that_are_no_numbers_are_hidden_by_a_mask_of_bool(device):
    q, k, v = drawn((1, 6, 8), (1, 7, 8), (1, 7, 8))
    mask = np.ones((6, 7), bool)
    mask[:, 4] = False
    expected, _ = on_device(q, k, v, mask)
    k[0, 4] = np.nan
    y, _ = on_device(q, k, v, mask)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("length", "keys", "causal"),
    [(1, 1, False), (1, 49, False), (5, 97, False), (50, 33, True), (33, 50, True)],
)
def test_lengths_that_fill_no_tile(device, length, keys, causal):
    q, k, v = drawn((2, length, 8), (2, keys, 8), (2, keys, 8))
    y, gradients = on_device(q, k, v, is_causal=causal)
    given = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (q, k, v)]
    expected = attention(*given, is_causal=causal)
    expected.sum().backward()
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    for found, t in zip(gradients, given, strict=True):
        np.testing.assert_allclose(found, t.grad.numpy(), rtol=1e-3, atol=2e-5)


def test_transposed_queries_and_products_of_a_large_batch(device):
    a, b = (RNG.integers(-3, 4, s).astype(np.float32) for s in ((700, 4, 6), (700, 5, 6)))
    found = ops.bmm(cp.asarray(a), cp.asarray(b).transpose(0, 2, 1))
    np.testing.assert_array_equal(found.get(), a @ b.transpose(0, 2, 1))
    tensors = [torch.tensor(t, device="opencl") for t in (a, b)]
    found = torch.bmm(tensors[0], tensors[1].transpose(1, 2))
    np.testing.assert_array_equal(found.cpu(), a @ b.transpose(0, 2, 1))
    q, k = drawn((2, 9, 3, 8), (2, 3, 11, 8))
    turned = torch.tensor(q, device="opencl").transpose(1, 2)
    there = torch.tensor(k, device="opencl")
    expected = attention(*(t.cpu().double() for t in (turned, there, there)))
    torch.testing.assert_close(
        attention(turned, there, there).cpu().double(), expected, rtol=1e-5, atol=1e-6
    )
