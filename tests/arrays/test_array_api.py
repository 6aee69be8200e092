"""The Python Array API: the standard's names, arguments and values; what is left out is listed."""

import inspect

import numpy as np
import pytest
from support import equal

import clprim as cp

strict = pytest.importorskip("array_api_strict")
pytestmark = pytest.mark.usefixtures("unoptimised")

PUBLIC = [n for n in strict.__all__ if "flags" not in n.lower()]


def test_every_name_is_there():
    x = cp.ones((3, 3))
    assert [n for n in PUBLIC if not hasattr(cp, n)] == []
    assert [n for n in strict.linalg.__all__ if not hasattr(cp.linalg, n)] == []
    assert x.__array_namespace__(api_version="2024.12") is cp
    theirs = [n for n in dir(strict.ones(3)) if not n.startswith("_")]
    assert [n for n in theirs if not hasattr(x, n)] == []
    special = {n for n in dir(strict.ones(3)) if n.startswith("__") and not hasattr(x, n)}
    assert special <= {"__buffer__", "__slots__"}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_arguments_are_the_standards(name):
    if not inspect.isfunction(getattr(strict, name)):
        return
    ours = inspect.signature(getattr(cp, name)).parameters
    var = any(p.kind is p.VAR_POSITIONAL for p in ours.values())
    positional = [p for p in ours.values() if p.kind is not p.KEYWORD_ONLY]
    expected = inspect.signature(getattr(strict, name)).parameters.values()
    for p in expected:
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            assert ours[p.name].kind is not p.POSITIONAL_ONLY
            assert (ours[p.name].default is p.empty) <= (p.default is p.empty)
    assert var or len(positional) >= len([p for p in expected if p.kind is not p.KEYWORD_ONLY])


A = np.float32([[3, -1, 2, 0], [0.5, 7, -2, 4], [1, 1, 6, -5]])
I = np.int32([[3, 1, 2], [0, -7, 7]])  # noqa: E741
LINES = [
    lambda xp, a, i: (xp.diff(a), xp.diff(a, axis=0, n=2), xp.diff(i, prepend=i[:, :1])),
    lambda xp, a, i: (xp.isin(i, xp.asarray([7, 3], dtype=xp.int32)), xp.unique_values(i)),
    lambda xp, a, i: (*xp.unique_counts(a), *xp.unique_inverse(i), xp.unique_all(a)[1]),
    lambda xp, a, i: (
        xp.cumulative_sum(a, axis=1, include_initial=True),
        xp.cumulative_prod(i[0, :]),
    ),
    lambda xp, a, i: (xp.var(a, correction=1), xp.std(a, axis=1, keepdims=True)),
    lambda xp, a, i: (xp.matrix_transpose(a), xp.permute_dims(a, (1, 0)), xp.vecdot(a, a)),
    lambda xp, a, i: (*xp.unstack(a), xp.concat([a, a], axis=1), xp.expand_dims(a, axis=1)),
    lambda xp, a, i: (xp.searchsorted(xp.sort(i[0, :]), i[1, :]), xp.take(a, i[0, :] - 1, axis=1)),
    lambda xp, a, i: (xp.astype(a, xp.int32), xp.argsort(a, descending=True), xp.sort(i, axis=0)),
    lambda xp, a, i: (xp.bitwise_left_shift(i, 1), xp.bitwise_invert(i), xp.pow(a, 2.0)),
    lambda xp, a, i: (xp.sum(i, dtype=xp.int64), xp.max(a, axis=(0, 1)), xp.prod(a, axis=0)),
    lambda xp, a, i: xp.meshgrid(xp.arange(3), xp.arange(2), indexing="ij"),
    lambda xp, a, i: (xp.broadcast_to(a[0, :], (2, 4)), xp.tile(a, (2, 1)), xp.moveaxis(a, 0, 1)),
    lambda xp, a, i: (xp.eye(3, 4, k=-1), xp.triu(a, k=1), xp.linspace(0, 1, 4, endpoint=False)),
    lambda xp, a, i: (xp.count_nonzero(a), xp.clip(a, min=0), xp.nextafter(a, a + 1)),
    lambda xp, a, i: (xp.reciprocal(a + 20), xp.hypot(a, a), xp.signbit(a), xp.trunc(a)),
]


@pytest.mark.parametrize("n", range(len(LINES)))
def test_values_are_the_standards(double_device, n):
    expected = LINES[n](strict, strict.asarray(A), strict.asarray(I))
    found = LINES[n](cp, cp.asarray(A), cp.asarray(I))
    for x, a in zip(found, expected, strict=True):
        b = np.asarray(a)
        assert x.shape == b.shape
        np.testing.assert_allclose(x.get(), b, rtol=3e-6, atol=1e-6)


def test_dtypes_are_the_standards():
    for kind in (
        "bool",
        "signed integer",
        "integral",
        "real floating",
        "numeric",
        ("bool", "integral"),
    ):
        for name in ("bool", "int8", "uint16", "int64", "float32", "float64"):
            ours = cp.isdtype(getattr(cp, name), kind)
            assert ours == strict.isdtype(getattr(strict, name), kind)
    assert cp.result_type(cp.int8, cp.float32) == np.float32
    assert cp.result_type(cp.float32, 1.0) == np.float32
    assert cp.can_cast(cp.int8, cp.int16)
    assert not cp.can_cast(cp.float32, cp.int16)
    for dtype in (cp.float32, cp.float64):
        found, expected = cp.finfo(dtype), np.finfo(dtype)
        for name in ("eps", "max", "min", "smallest_normal"):
            assert type(getattr(found, name)) is float
            assert getattr(found, name) == getattr(expected, name)
        assert (found.dtype, found.bits) == (dtype, 8 * dtype().itemsize)
    assert cp.finfo("bfloat16").eps == 2**-7
    assert cp.iinfo(cp.int8).max == 127


def test_the_namespace_knows_itself(device):
    info = cp.__array_namespace_info__()
    assert info.default_device() == device
    assert device in info.devices()
    assert info.default_dtypes()["real floating"] == cp.float32
    assert ("float64" in info.dtypes()) == device.traits.fp64
    assert {"int8", "uint64"} <= info.dtypes(kind="integral").keys()
    assert not {"float16", "bfloat16"} & info.dtypes().keys()  # which the standard does not know
    assert info.capabilities()["boolean indexing"]


def test_array_api_compats_helpers(device):
    compat = pytest.importorskip("array_api_compat")
    x = cp.asarray(A)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, x) is cp
    assert compat.device(x) == device
    assert compat.size(x) == 12
    assert compat.to_device(x, device) is x
    # A function written for the standard, as SciPy and scikit-learn have them.
    xp = compat.array_namespace(x)
    centered = x - xp.mean(x, axis=0, keepdims=True)
    norms = xp.sqrt(xp.sum(centered * centered, axis=0))
    expected = np.sqrt(((A - A.mean(0)) ** 2).sum(0))
    np.testing.assert_allclose(norms.get(), expected, rtol=1e-6)


def test_a_diagonal_beyond_a_matrix_is_empty(device):
    for k in (2**63, -(2**70), 3, -3):
        equal(cp.eye(3, k=k), np.zeros((3, 3)), np.float32)
    with pytest.raises(cp.DTypeError, match=r"k=1\.5: expected an integer"):
        cp.eye(3, k=1.5)


def test_nothing_is_repeated(device):
    empty, counts = cp.zeros((2, 0)), cp.zeros((0,), cp.int64)
    assert cp.repeat(empty, 3).shape == (0,)
    assert cp.repeat(empty, counts, axis=1).shape == (2, 0)
    assert cp.repeat(cp.ones((3,)), cp.asarray(np.array([0, 0, 0]))).shape == (0,)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), (2, 0), ()])
def test_a_mask_of_no_dimensions(device, shape):
    host = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for keep in (True, False):
        mask, x = np.array(keep), cp.asarray(host)
        equal(x[cp.asarray(mask)], host[mask], np.float32)
        expected = host.copy()
        expected[mask] = x[cp.asarray(mask)] = 7
        equal(x, expected, np.float32)
    if len(shape) == 2:
        equal(cp.asarray(host)[:, cp.asarray(np.array(True))], host[:, np.array(True)], np.float32)
