"""Two products with a softmax between them are one kernel on CPUs, of halves by matrix units."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.runtime.device import current_device

pytestmark = pytest.mark.usefixtures("device")
WINDOWS, QUERIES, HEADS, SIZE = 3, 19, 2, 12


def arrays(dtype=np.float32):
    rng = np.random.default_rng(1)
    shapes = (
        (WINDOWS, QUERIES, 3, HEADS, SIZE),
        (1, HEADS, QUERIES, QUERIES),
        (WINDOWS, 1, QUERIES, QUERIES),
    )
    return [cp.asarray(rng.standard_normal(s).astype(dtype)) for s in shapes]


def windows(qkv, bias, mask):
    """As windows of images attend: copies of what products read, and of what they make."""
    q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
    scores = ops.matmul((q * 0.25).copy(), k.transpose(0, 1, 3, 2).copy())
    weights = ops.softmax(scores + bias + mask, axis=-1)
    return ops.matmul(weights, v.copy()).transpose(0, 2, 1, 3).copy()


def behind(qkv, bias, mask):
    """A scale, and a mask of queries alone, behind the product."""
    q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
    scores = ops.matmul(q, k, transpose_b=True) / 4 + bias[..., :1] - mask * 0.5
    return ops.matmul(ops.softmax(scores, axis=-1), v)


def plain(qkv, bias, mask):
    """Nothing but products."""
    q, k, v = (qkv[0, :, n].transpose(1, 0, 2) for n in range(3))
    return ops.matmul(ops.softmax(ops.matmul(q, k, transpose_b=True)), v)


def names(function, *given):
    return [node.primitive.what for node in function.graph(*given).nodes]


@pytest.mark.parametrize(
    ("function", "dtype"),
    [(windows, np.float32), (windows, np.float64), (behind, np.float32), (plain, np.float32)],
)
def test_it_is_one_kernel(function, dtype, monkeypatch):
    monkeypatch.setenv("CLPRIM_CHECK", "passes")
    if dtype == np.float64 and not current_device().traits.fp64:
        pytest.skip("no doubles")
    given, compiled = arrays(dtype), cp.jit(function, constants=("bias", "mask"))
    if current_device().traits.is_cpu:
        assert names(compiled, *given) == ["attention"]
    wide = [cp.asarray(a.get().astype(np.float64)) for a in given]
    wanted = function(*(wide if current_device().traits.fp64 else given)).get()
    tolerance = 3e-6 if dtype == np.float32 else 1e-12
    for _ in range(2):
        np.testing.assert_allclose(compiled(*given).get(), wanted, rtol=tolerance, atol=tolerance)


def attended(masked):
    """Attention whose scores a function masks."""

    def function(qkv, mask):
        q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        scores = ops.matmul(q, k, transpose_b=True) * 0.5
        return ops.matmul(ops.softmax(masked(scores, mask), axis=-1), v)

    return function


def positions():
    n = cp.arange(QUERIES)
    return n[:, None] >= n[None]


PADS, BIASES = (WINDOWS, 1, 1, QUERIES), (WINDOWS, HEADS, QUERIES, QUERIES)
MASKS = {
    "added": (lambda s, m: s + m, BIASES, 0),
    "added as a multiple": (lambda s, m: s - m * 3, BIASES, 1),
    "keys": (lambda s, m: ops.where(m > 0, s, -np.inf), PADS, 2),
    "filled": (lambda s, m: ops.masked_fill(s, m <= 0, -np.inf), PADS, 2),
    "lowest number": (lambda s, m: ops.where(m > 0, s, np.finfo(np.float32).min), PADS, 2),
    "causal": (lambda s, m: ops.where(positions(), s, -np.inf), PADS, 0),
    "causal and keys": (lambda s, m: ops.where(positions() & (m > 0), s, -np.inf), PADS, 3),
    "causal and added": (lambda s, m: ops.where(positions(), s + m, -np.inf), BIASES, 1),
    "both in turns": (
        lambda s, m: ops.where(m > 0, ops.where(positions(), s, -np.inf), -np.inf),
        PADS,
        2,
    ),
}


@pytest.mark.parametrize("kind", MASKS)
def test_masks_of_the_call(kind, monkeypatch):
    if kind != "causal and keys":  # of its random masks the first query would see nothing
        monkeypatch.setenv("CLPRIM_CHECK", "passes")
    masked, shape, before = MASKS[kind]
    qkv = arrays()[0]
    compiled = cp.jit(attended(masked))
    for seed in (2, 3):
        mask = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        if shape == PADS:
            mask[..., 0] = 1
        given = qkv, cp.asarray(mask)
        if current_device().traits.is_cpu:
            found = names(compiled, *given)
            assert found[-1] == "attention"
            assert "matmul" not in found
            assert len(found) <= before + 1
        wanted = attended(masked)(*given).get()
        np.testing.assert_allclose(compiled(*given).get(), wanted, rtol=3e-6, atol=3e-6)


def test_a_mask_that_is_written_between_the_products():
    def function(qkv, mask):
        mask = mask.copy()
        q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        weights = ops.softmax(ops.matmul(q, k, transpose_b=True) + mask, axis=-1)
        mask *= 2
        return ops.matmul(weights, v), mask

    given = arrays()[0], arrays()[1]
    for found, wanted in zip(cp.jit(function)(*given), function(*given), strict=True):
        np.testing.assert_allclose(found.get(), wanted.get(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("masked", "one"),
    [
        (lambda s, m: ops.where(m > 0, s, 0.0), True),
        (lambda s, m: ops.where(m > 0, s, -s), True),
        (lambda s, m: s + ops.where(m > 0, s, -np.inf), True),
        (lambda s, m: ops.where(s > 0, s, -np.inf), False),
        (lambda s, m: s * (1 + (m > 0)), False),
        (lambda s, m: ops.where(m > 0, s, -np.inf) * 2, False),
    ],
)
def test_what_is_no_mask_is_a_string_or_stays_apart(masked, one):
    mask = np.random.default_rng(1).standard_normal(PADS).astype(np.float32)
    mask[..., 0] = 1
    given, compiled = (arrays()[0], cp.asarray(mask)), cp.jit(attended(masked))
    assert ("attention" in names(compiled, *given)) is one
    wanted = attended(masked)(*given).get()
    np.testing.assert_allclose(compiled(*given).get(), wanted, rtol=1e-5, atol=1e-5)


STRINGS = {
    "a cap": lambda s, bias, mask: ops.tanh(s * 0.2 / 3.0) * 3,
    "a scale of its own": lambda s, bias, mask: s * bias,
    "a cap, a bias and a mask": lambda s, bias, mask: ops.where(
        mask[:, :, :1] > 0, ops.tanh(s) + bias, -np.inf
    ),
    "places": lambda s, bias, mask: cp.Pointwise("y0 = x0 - w0 * abs(coord(-1) - coord(-2));")(
        s, 0.5
    ),
}


@pytest.mark.parametrize("name", STRINGS)
def test_what_else_is_made_of_scores_is_a_string(name, monkeypatch, tmp_path):
    monkeypatch.setenv("CLPRIM_CHECK", "passes")

    def scored(qkv, bias, mask):
        q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        scores = STRINGS[name](ops.matmul(q, k, transpose_b=True), bias, mask)
        return ops.matmul(ops.softmax(scores, axis=-1), v)

    given, compiled = arrays(), cp.jit(scored)
    given[2] = cp.asarray(np.abs(given[2].get()))
    found = compiled.graph(*given)
    assert [n.primitive.what for n in found.nodes if n.primitive.what != "greater"] == ["attention"]
    wanted = scored(*given).get()
    np.testing.assert_allclose(compiled(*given).get(), wanted, rtol=1e-5, atol=1e-5)
    found.save(tmp_path / "net.clprim")
    again = cp.Graph.load(tmp_path / "net.clprim")(*given)
    np.testing.assert_array_equal(again.get(), compiled(*given).get())


def test_what_is_no_string_stays_apart():
    """Arrays of two kinds of integers, which meet in another way there."""

    def scored(qkv, bias, mask):
        q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        some, other = (mask > 0).astype(np.int8), (bias > 0).astype(np.int32)
        scores = cp.Pointwise("y0 = x0 + x1 / (x2 + 1);", result_type=np.float32)
        products = ops.matmul(q, k, transpose_b=True)
        return ops.matmul(ops.softmax(scores(products, some, other), axis=-1), v)

    given, compiled = arrays(), cp.jit(scored)
    assert "attention" not in names(compiled, *given)
    np.testing.assert_allclose(compiled(*given).get(), scored(*given).get(), rtol=1e-5, atol=1e-5)


def test_weights_that_others_read_are_made():
    def both(qkv, bias, mask):
        q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        weights = ops.softmax(ops.matmul(q, k, transpose_b=True) + bias, axis=-1)
        return ops.matmul(weights, v), weights

    given, compiled = arrays(), cp.jit(both, constants=("bias", "mask"))
    assert "attention" not in names(compiled, *given)
    for a, b in zip(compiled(*given), both(*given), strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-5, atol=1e-5)


def test_what_is_overwritten_between_is_read_before():
    def overwritten(qkv, bias, mask):
        q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        values = v * 1.0
        weights = ops.softmax(ops.matmul(q, k, transpose_b=True), axis=-1)
        found = values.copy()
        values[...] = 0
        return ops.matmul(weights, found), values

    given, compiled = arrays(), cp.jit(overwritten)
    for a, b in zip(compiled(*given), overwritten(*given), strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-5, atol=1e-5)


def test_a_query_that_sees_nothing_gets_zeros_or_nan():
    given = arrays()
    given[2][0, 0, 3] = -np.inf
    found = cp.jit(windows, constants=("bias", "mask"))(*given).get()
    wanted = windows(*given).get()
    row = np.zeros(wanted.shape, bool)
    row[0, 3] = True
    assert np.isnan(wanted[row]).all()
    assert np.isnan(found[row]).all() or not found[row].any()
    np.testing.assert_allclose(found[~row], wanted[~row], rtol=1e-5, atol=1e-5)


def test_it_is_saved(tmp_path):
    given, function = arrays(), cp.jit(windows, constants=("bias", "mask"))
    function.graph(*given).save(tmp_path / "net.clprim")
    found = cp.Graph.load(tmp_path / "net.clprim")(given[0])
    np.testing.assert_array_equal(found.get(), function(*given).get())


@pytest.mark.parametrize(
    ("function", "dtype"), [(windows, "float16"), (behind, "float16"), (plain, "bfloat16")]
)
def test_halves_are_one_kernel_where_units_multiply_them(function, dtype, units, monkeypatch):
    monkeypatch.setenv("CLPRIM_CHECK", "passes")
    given = [a.astype(dtype) for a in arrays()]
    compiled = cp.jit(function, constants=("bias", "mask"))
    assert "attention" not in names(compiled, *given)
    units(f"mma.sync/m16n8k16/{dtype}/32", is_cpu=False)
    compiled = cp.jit(function, constants=("bias", "mask"))
    assert names(compiled, *given) == ["attention"]
    wanted = function(*(a.astype(np.float32) for a in given)).get()
    close = 4e-3 if dtype == "float16" else 4e-2
    found = compiled(*given).astype(np.float32).get()
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close)


@pytest.mark.parametrize("kind", [kind for kind in MASKS if kind != "lowest number"])
def test_masks_of_halves(kind, units):
    masked, shape, before = MASKS[kind]
    units("mma.sync/m16n8k16/float16/32", is_cpu=False)
    mask = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    if shape == PADS:
        mask[..., 0] = 1
    given = arrays()[0].astype(np.float16), cp.asarray(mask.astype(np.float16))
    compiled = cp.jit(attended(masked))
    found = names(compiled, *given)
    assert found[-1] == "attention"
    assert "matmul" not in found
    assert len(found) <= before + 1
    wide = [a.astype(np.float32) for a in given]
    wanted = attended(masked)(*wide).get()
    got = compiled(*given).astype(np.float32).get()
    np.testing.assert_allclose(got, wanted, rtol=8e-3, atol=8e-3)
