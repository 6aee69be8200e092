"""Variances, sums among NaN and covariances beside PyTorch in float64."""

import warnings

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


def close(found, reference):
    np.testing.assert_allclose(found.get(), reference.numpy(), rtol=2e-6, atol=1e-6)


def uniform(*shape):
    return np.random.default_rng(len(shape)).random(shape).astype(np.float32)


@pytest.mark.parametrize("dim", [None, 0, (0, 2)])
def test_along_axes(device, dim):
    x = uniform(4, 5, 6) - 0.5
    d, t = cp.asarray(x), torch.tensor(x, dtype=torch.float64)
    options = {"dim": dim, "keepdim": True}
    close(ops.std(d, **options), torch.std(t, **options))
    close(ops.var(d, **options, correction=0), torch.var(t, **options, correction=0))
    for found, expected in zip(
        ops.std_mean(d, **options), torch.std_mean(t, **options), strict=True
    ):
        close(found, expected)
    x[0, 0], x[:, 1, 2] = np.nan, np.nan
    d, t = cp.asarray(x), torch.tensor(x, dtype=torch.float64)
    close(ops.nansum(d, **options), torch.nansum(t, **options))
    close(ops.nanmean(d, **options), torch.nanmean(t, **options))
    np.testing.assert_array_equal(
        ops.aminmax(d, **options)[1].get(), t.amax(() if dim is None else dim, True)
    )


def test_by_either_name_and_into_memory_that_is_there(device):
    d = cp.asarray(uniform(3, 4))
    for name in ("sum", "mean", "amax", "argmin", "any", "logsumexp", "count_nonzero", "std"):
        operator = getattr(ops, name)
        kept = operator(d, 1, keepdim=True)
        assert kept.shape == (3, 1)
        np.testing.assert_array_equal(kept.get(), operator(d, dim=1, keepdims=True).get())
        if name not in ("count_nonzero", "std"):  # as PyTorch's, by place
            assert operator(d, 1, True).shape == (3, 1)
    out, other = cp.empty(3, np.float32), cp.empty(3, np.float32)
    assert ops.std(d, 1, out=out) is out
    assert ops.nanmean(d, 1, out=out) is out
    assert ops.aminmax(d, dim=1, out=(out, other))[1] is other
    np.testing.assert_array_equal(other.get(), d.get().max(1))
    whole = cp.asarray(np.arange(4))
    assert ops.nansum(whole).item() == 6
    assert ops.nanmean(whole).item() == 1.5
    assert ops.nansum(cp.asarray(np.float32([1, np.nan])), dtype=np.int64).item() == 1


def test_covariances(device):
    x, often, weights = uniform(3, 9), np.arange(1, 10) % 4 + 1, uniform(9) + 0.1
    d, t = cp.asarray(x), torch.tensor(x, dtype=torch.float64)
    given = {"fweights": (often, torch.tensor(often)), "aweights": (weights, torch.tensor(weights))}
    for names in ((), ("fweights",), ("aweights",), ("fweights", "aweights")):
        ours = {name: cp.asarray(given[name][0]) for name in names}
        close(ops.cov(d, **ours), torch.cov(t, **{name: given[name][1] for name in names}))
    close(ops.cov(d[0], correction=0), torch.cov(t[0], correction=0))
    close(ops.corrcoef(d), torch.corrcoef(t))
    close(ops.corrcoef(d[0]), torch.corrcoef(t[0]))
    for found, expected in ((ops.cov(d[:1]), torch.cov(t[:1])), (ops.cov(d[:0]), torch.cov(t[:0]))):
        assert found.shape == expected.shape
        close(found, expected)
    assert ops.corrcoef(d[:1]).shape == ()
    with pytest.raises(cp.DTypeError, match="fweights is float32, expected integers"):
        ops.cov(d, fweights=d[0])
    with pytest.raises(cp.ShapeError, match=r"aweights has shape \(3,\)"):
        ops.cov(d, aweights=d[:, 0])
    with pytest.raises(cp.ShapeError, match="expected rows of observations"):
        ops.cov(cp.zeros((2, 2, 2)))


def test_unbiased_is_a_correction(device):
    host = np.float32([[1, 2, 4], [3, 5, 9]])
    x = cp.asarray(host)
    for unbiased, correction in ((True, 1), (False, 0)):
        for name in ("var", "std", "var_mean", "std_mean"):
            operator = getattr(ops, name)
            found, expected = (
                operator(x, 1, unbiased=unbiased),
                operator(x, 1, correction=correction),
            )
            pairs = zip(found, expected, strict=True) if "_" in name else [(found, expected)]
            for f, e in pairs:
                np.testing.assert_array_equal(f.get(), e.get())
    with pytest.raises(cp.DTypeError, match="are one argument"):
        ops.var(x, correction=0, unbiased=True)


@pytest.mark.parametrize(
    "name", "all amax amin any argmax argmin logsumexp mean nanmean nansum prod std sum var".split()
)
def test_a_number_has_the_axis_0(device, name):
    x, t = cp.full((), 3.5), torch.tensor(3.5)
    operator, peer = getattr(ops, name), getattr(torch, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one element has no variance
        for dim in (0, -1):
            expected = peer(t, dim=dim, keepdim=True).numpy()
            np.testing.assert_array_equal(operator(x, dim=dim).get(), expected)
            found = operator(x, axis=(dim,), keepdims=True)
            assert found.shape == ()
    with pytest.raises(cp.ShapeError, match="out of bounds"):
        operator(x, dim=1)
