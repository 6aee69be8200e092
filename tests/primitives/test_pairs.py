"""Nested reductions over pairs: what they compute, and what they refuse."""

import numpy as np
import pytest
from support import BFLOAT16, Guard, equal, numbers, same_bits, wide

import clprim as cp
from clprim.gradients import pairs_blocks

torch = pytest.importorskip("torch")

SUM = {"expr": "y0 = x0;", "init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
LARGEST = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = lowest_reduce_y0;",
    "step": "reduce_y0 = max(reduce_y0, y0);",
}
FIRST = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
    "step": "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
}
EXPONENTIALS = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = -INFINITY; reduce_y1 = 0;",
    "step": "typeof_y0 m = max(reduce_y0, y0); "
    "reduce_y1 = reduce_y1 * exp(reduce_y0 - m) + exp(y0 - m); reduce_y0 = m;",
    "combine": "typeof_reduce_y0 m = max(reduce_y0, other_y0); reduce_y1 = reduce_y1 == 0 ? "
    "(m == m ? other_y1 : m) : reduce_y1 * exp(reduce_y0 - m) + "
    "(other_y1 == 0 ? other_y1 : other_y1 * exp(other_y0 - m)); reduce_y0 = m;",
    "finalize": "y0 = reduce_y0 + log(reduce_y1);",
}
SQUARES = {"expr": "y0 = x0 - x1;", "init": "reduce_y0 = 0;", "step": "reduce_y0 += y0 * y0;"}


def squares(**more):
    return cp.Reduction(**SQUARES, **more)


def pairs(expr, outer=SUM, inner=SQUARES):
    made = None if inner is None else cp.Reduction(**inner)
    return cp.Pairs(inner=made, expr=expr, outer=cp.Reduction(**outer))


@pytest.fixture
def points():
    """Whole numbers: 45 rows, 71 columns of 9."""
    return numbers((45, 9), seed=1), numbers((71, 9), seed=2)


def distances(x, y):
    return ((x[:, None].astype(np.float64) - y[None]) ** 2).sum(-1)


def test_a_sum(traits, points):
    x, y = points
    b = numbers(71, seed=3)
    out = Guard(45)
    args = cp.asarray(x)[:, None], cp.asarray(y)[None], cp.asarray(b), 2.0
    pairs("y0 = d * x2 + w0;")(*args, out=out.array)
    out.check((distances(x, y) * b + 2).sum(1))
    equal(
        pairs("y0 = d * x2 + w0;")(*args[:2], cp.asarray(x[:, :1]), 2.0, axis=-2),
        (distances(x, y) * x[:, :1] + 2).sum(0),
    )


@pytest.mark.parametrize("rows", [1, 6, 49])
@pytest.mark.parametrize("columns", [3, 64, 100])
def test_tails(traits, some, rows, columns):
    for depth in some([1, 33, 150], 3):
        x, y = numbers((rows, depth), seed=rows), numbers((columns, depth), seed=columns)
        given = cp.asarray(x)[:, None], cp.asarray(y)[None]
        equal(pairs("y0 = d;")(*given), distances(x, y).sum(1))
        if columns == 64:
            equal(pairs("y0 = d;", LARGEST)(*given), distances(x, y).max(1))
        best, place = pairs("y0 = d;", FIRST)(*given)
        equal(best, distances(x, y).max(1))
        equal(place, distances(x, y).argmax(1))


def test_arrays_of_every_kind(traits, points):
    """Of rows, of columns, of both and of neither; reduced over columns and over rows."""
    x, y = points
    a, b, c, e = numbers((45, 1), seed=1), numbers((71,), seed=2), numbers((45, 71), seed=3), 3.0
    op = pairs("y0 = d * x2 - x3 * x4 + x5;")
    host = distances(x, y) * a - b * c.astype(np.float64) + e
    given = [cp.asarray(v) for v in (x[:, None], y[None], a, b, c)]
    turned = cp.asarray(np.ascontiguousarray(c.T)).transpose(1, 0)
    for both in (given[-1], turned):
        for axis in (-1, -2):
            found = op(*given[:-1], both, cp.full((1,), e), axis=axis)
            equal(found, host.sum(axis))


def test_without_an_inner_reduction(traits):
    a, b = numbers((50, 1), seed=1), numbers((70,), seed=2)
    op = pairs("y0 = (x0 - x1) * w0;", inner=None)
    expected = ((a.astype(np.float64) - b) * 3).sum(1)
    equal(op(cp.asarray(a), cp.asarray(b), 3.0), expected)


def test_results_with_an_axis_of_their_own(traits, points, some):
    x, y = points
    outer = {**SUM, "expr": "y0 = x0 * x1;"}
    for width in some([1, 5, 40, 130], 3):
        v = numbers((71, width), seed=width)
        op = pairs("y0 = d;", outer)
        out = Guard((45, width))
        op(cp.asarray(x)[:, None], cp.asarray(y)[None], cp.asarray(v)[None], out=out.array)
        out.check(distances(x, y) @ v.astype(np.float64))
    # What varies with rows as well, as a gradient has it.
    both = {**SUM, "expr": "y0 = x0 * (x1 - x2);"}
    found = pairs("y0 = d;", both)(*[cp.asarray(a) for a in (x[:, None], y[None])] * 2)
    d = distances(x, y)[..., None] * (x[:, None].astype(np.float64) - y[None])
    equal(found, d.sum(1))


def test_batches_and_views(traits):
    x, y, b = numbers((2, 3, 20, 7), seed=1), numbers((3, 30, 14), seed=2), numbers((2, 1, 30))
    device = cp.asarray(x)[..., ::-1, None, :], cp.asarray(y)[:, None, :, ::2], cp.asarray(b)
    found = pairs("y0 = d * x2;")(*device[:2], device[2][..., None, :])
    d = ((x[..., ::-1, None, :].astype(np.float64) - y[:, None, :, ::2]) ** 2).sum(-1)
    equal(found, (d * b[..., None, :]).sum(-1))


def test_inner_products_with_finalize_and_several_results(traits, points):
    x, y = points
    inner = cp.Reduction(
        "y0 = x0 * x1; y1 = x0 + x1;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        finalize="y0 = reduce_y0 * w0; y1 = reduce_y1 - count;",
    )
    op = cp.Pairs(
        inner=inner,
        expr="y0 = d0 - d1; y1 = d1;",
        outer=cp.Reduction(
            "y0 = x0; y1 = x1;",
            init="reduce_y0 = 0; reduce_y1 = lowest_reduce_y1;",
            step="reduce_y0 += y0; reduce_y1 = max(reduce_y1, y1);",
            finalize="y0 = reduce_y0 / count; y1 = reduce_y1;",
        ),
    )
    p = x.astype(np.float64) @ y.T.astype(np.float64) * 2
    s = (x[:, None].astype(np.float64) + y[None]).sum(-1) - 9
    mean, most = op(cp.asarray(x)[:, None], cp.asarray(y)[None], 2.0)
    np.testing.assert_allclose(mean.get(), (p - s).mean(1), rtol=3e-7, atol=1e-5)
    equal(most, s.max(1))


def test_strings_that_are_no_vectors(traits, points):
    x, y = points
    op = pairs("y0 = d; if (d > w0) y0 = -1;")
    d = distances(x, y)
    equal(op(cp.asarray(x)[:, None], cp.asarray(y)[None], 90.0), np.where(d > 90, -1, d).sum(1))


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float64])
def test_dtypes(device, dtype):
    if dtype == np.float64 and not device.traits.fp64:
        pytest.skip("no doubles")
    x, y = numbers((20, 5), dtype, 1, high=3), numbers((30, 5), dtype, 2, high=3)
    found = pairs("y0 = d;", LARGEST)(cp.asarray(x)[:, None], cp.asarray(y)[None])
    assert found.dtype == dtype
    equal(found, distances(wide(x), wide(y)).max(1).astype(dtype))


@pytest.mark.optimised
def test_a_value_does_not_depend_on_its_place(traits):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, 5)).astype(np.float32) for n in (64, 90))
    op = pairs("y0 = exp(-d * w0);")
    given = cp.asarray(x), cp.asarray(y)[None]
    whole = op(given[0][:, None], given[1], 0.3)
    assert same_bits(op(given[0][7:59, None], given[1], 0.3), whole[7:59])


@pytest.mark.optimised
def test_long_sums_are_accurate(traits):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1, (12, 1)).astype(np.float32)
    y = rng.uniform(0.5, 1, (30_000,)).astype(np.float32)
    found = pairs("y0 = x0 * x1;", inner=None)(cp.asarray(x), cp.asarray(y)).get()
    np.testing.assert_allclose(
        found, x[:, 0].astype(np.float64) * y.sum(dtype=np.float64), rtol=1e-6
    )


GRADIENTS = {
    "sum": ("y0 = exp(-d * w0) * x2;", SUM, SQUARES),
    "root": ("y0 = d * x2 * w0;", SUM, {**SQUARES, "finalize": "y0 = sqrt(reduce_y0 + 1);"}),
    "exponentials": ("y0 = x2 - d * w0;", EXPONENTIALS, SQUARES),
    "product": ("y0 = d * x2 * w0;", EXPONENTIALS, {**SUM, "expr": "y0 = x0 * x1;"}),
    "distance": ("y0 = x2 / (1 + d * w0);", SUM, {**SUM, "expr": "y0 = fabs(x0 - x1);"}),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("axis", [-1, -2])
def test_gradients(device, name, axis):
    rng = np.random.default_rng(0)
    x, y, b = rng.standard_normal((2, 21, 4)), rng.standard_normal((33, 4)), rng.standard_normal(33)
    op = pairs(*GRADIENTS[name])
    tensors = [torch.tensor(a.astype(np.float32), dtype=torch.float64) for a in (x, y, b)]
    tx, ty, tb = (t.requires_grad_() for t in tensors)
    difference = tx[:, :, None] - ty
    d = {
        "root": lambda: (difference**2).sum(-1).add(1).sqrt(),
        "product": lambda: tx @ ty.T,
        "distance": lambda: difference.abs().sum(-1),
    }.get(name, lambda: (difference**2).sum(-1))()
    value = {
        "sum": lambda: torch.exp(-d * 0.3) * tb,
        "exponentials": lambda: tb - d * 0.3,
        "distance": lambda: tb / (1 + d * 0.3),
    }.get(name, lambda: d * tb * 0.3)()
    summed = value.logsumexp(axis) if GRADIENTS[name][1] is EXPONENTIALS else value.sum(axis)
    grad = rng.standard_normal(summed.shape).astype(np.float32)
    expected = torch.autograd.grad(summed, (tx, ty, tb), torch.tensor(grad, dtype=torch.float64))
    given = [cp.asarray(a.astype(np.float32)) for a in (x, y, b)]
    args = given[0][:, :, None], given[1][None], given[2], 0.3
    np.testing.assert_allclose(op(*args, axis=axis).get(), summed.detach(), rtol=1e-5, atol=1e-5)
    found = op.gradient()(*args, grad=cp.asarray(grad), axis=axis)
    for one, arg, want in zip(found, args, expected, strict=False):
        assert one.shape == arg.shape
        np.testing.assert_allclose(one.get().reshape(want.shape), want, rtol=2e-5, atol=2e-5)


PRODUCTS = {**SUM, "expr": "y0 = x0 * x1;"}
# Values weighted by exponentials of pairs, whose largest is kept aside: attention.
WEIGHTED = {
    "expr": "y0 = x0; y1 = x1;",
    "init": "reduce_y0 = -INFINITY; reduce_y1 = 0; reduce_y2 = 0;",
    "step": "typeof_y0 m = max(reduce_y0, y0), f = exp(reduce_y0 - m), e = exp(y0 - m); "
    "reduce_y1 = reduce_y1 * f + e; reduce_y2 = reduce_y2 * f + e * y1; reduce_y0 = m;",
    "combine": "typeof_reduce_y0 m = max(reduce_y0, other_y0), f = exp(reduce_y0 - m), "
    "e = exp(other_y0 - m); reduce_y1 = reduce_y1 * f + other_y1 * e; "
    "reduce_y2 = reduce_y2 * f + other_y2 * e; reduce_y0 = m;",
    "finalize": "y0 = reduce_y2 / reduce_y1;",
}


BRANCHES = {
    **WEIGHTED,
    "step": "if (y0 > reduce_y0) { typeof_y0 f = exp(reduce_y0 - y0); reduce_y1 *= f; "
    "reduce_y2 *= f; reduce_y0 = y0; } "
    "typeof_y0 e = exp(y0 - reduce_y0); reduce_y1 += e; reduce_y2 += e * y1;",
}
# Two sums, whose factors depend on pairs and numbers as well.
MOMENTS = {
    "expr": "y0 = x0 * w0; y1 = x1 * x1 + x0 * w1;",
    "init": WEIGHTED["init"] + " reduce_y3 = 0;",
    "step": WEIGHTED["step"].replace("reduce_y0 = m;", "reduce_y3 = reduce_y3 * f + e * x1;")
    + " reduce_y0 = m;",
    "combine": WEIGHTED["combine"].replace("reduce_y0 = m;", "")
    + "reduce_y3 = reduce_y3 * f + other_y3 * e; reduce_y0 = m;",
    "finalize": "y0 = reduce_y2 / reduce_y1; y1 = reduce_y3 / reduce_y1;",
}


def softmax_of(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("strings", [WEIGHTED, BRANCHES], ids=["straight", "branches"])
@pytest.mark.parametrize("width", [1, 5, 64, 130])
def test_values_weighted_by_exponentials(traits, some, strings, width):
    rng = np.random.default_rng(width)
    for columns in some([1, 37, 300], 3):  # of one kernel
        x, y = (rng.standard_normal((2, n, 7)).astype(np.float32) * 3 for n in (19, columns))
        v = rng.standard_normal((2, columns, width)).astype(np.float32)
        scores = np.float64(x) @ np.float64(y).swapaxes(1, 2)
        bent = np.where(scores > 0, scores, 2 * scores)
        own = [("y0 = d; if (d < 0) y0 = 2 * d;", bent)] if width == 5 else []
        for expr, scaled in (("y0 = d;", scores), *own):
            op = pairs(expr, strings, PRODUCTS)
            found = op(cp.asarray(x)[:, :, None], cp.asarray(y)[:, None], cp.asarray(v)[:, None])
            expected = softmax_of(scaled) @ np.float64(v)
            np.testing.assert_allclose(found.get(), expected, rtol=1e-5, atol=3e-5)
        turned = pairs("y0 = d;", strings, PRODUCTS)(
            cp.asarray(y)[:, :, None], cp.asarray(x)[:, None], cp.asarray(v)[:, :, None], axis=-2
        )
        expected = softmax_of(scores) @ np.float64(v)
        np.testing.assert_allclose(turned.get(), expected, rtol=1e-5, atol=3e-5)


def test_sums_whose_factors_depend_on_pairs_and_numbers(traits):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((n, 4)).astype(np.float32) for n in (23, 41))
    v = rng.standard_normal((41, 20)).astype(np.float32)
    args = cp.asarray(x)[:, None], cp.asarray(y)[None], cp.asarray(v)[None], 0.5, 0.25
    d = np.float64(x) @ np.float64(y).T
    weights = softmax_of(d * 0.5)
    squares, plain = pairs("y0 = d;", MOMENTS, PRODUCTS)(*args)
    expected = weights @ np.float64(v) ** 2 + (weights * d * 0.25).sum(1, keepdims=True)
    np.testing.assert_allclose(squares.get(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plain.get(), weights @ np.float64(v), rtol=1e-5, atol=1e-6)


def test_columns_without_weight(traits):
    """A mask of -infinity: of some columns, of all of a panel, of the first ones."""
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((n, 3)).astype(np.float32) for n in (9, 200))
    v = rng.standard_normal((200, 6)).astype(np.float32)
    bias = np.where(rng.random((9, 200)) < 0.3, -np.inf, 0).astype(np.float32)
    bias[2, :150] = -np.inf
    bias[3, 64:128] = -np.inf
    bias[4, 1:] = -np.inf
    bias[4, 0] = 0
    op = pairs("y0 = d + x2;", WEIGHTED, PRODUCTS)
    args = cp.asarray(x)[:, None], cp.asarray(y)[None], cp.asarray(bias), cp.asarray(v)[None]
    expected = softmax_of(np.float64(x) @ np.float64(y).T + bias) @ np.float64(v)
    np.testing.assert_allclose(op(*args).get(), expected, rtol=1e-5, atol=1e-6)
    bias[5, 7] = np.nan
    found = op(*args[:2], cp.asarray(bias), args[3]).get()
    assert np.isnan(found[5]).all()
    np.testing.assert_allclose(np.delete(found, 5, 0), np.delete(expected, 5, 0), rtol=1e-5)


def test_weighted_values_do_not_depend_on_their_place(traits):
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((n, 5)).astype(np.float32) for n in (50, 70))
    v = rng.standard_normal((70, 33)).astype(np.float32)
    op = pairs("y0 = d;", WEIGHTED, PRODUCTS)
    rest = cp.asarray(y)[None], cp.asarray(v)[None]
    whole = op(cp.asarray(x)[:, None], *rest).get()
    assert (op(cp.asarray(x[13:14])[:, None], *rest).get() == whole[13:14]).all()
    assert (op(cp.asarray(x[7:30])[:, None], *rest).get() == whole[7:30]).all()


def gradients_equal(op, args, grad, expected, axis=-1, wrt=None, **bounds):
    found = op.gradient(wrt)(*args, grad=cp.asarray(grad), axis=axis)
    found = found if isinstance(found, tuple) else (found,)
    for one, want in zip(found, expected, strict=True):
        bounds = bounds or {"rtol": 2e-5, "atol": 2e-5}
        np.testing.assert_allclose(wide(one.get()).reshape(want.shape), want, **bounds)


@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_gradients_of_results_with_an_axis_of_their_own(device, monkeypatch, block):
    """Attention of two heads, whose scores have a bias of every pair and fall with distance."""
    monkeypatch.setattr(pairs_blocks, "BLOCK", block)
    rng = np.random.default_rng(1)
    shapes = (2, 9, 4), (2, 13, 4), (9, 13), (2, 13, 5)
    q, k, bias, v = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    op = cp.Pairs(
        inner=cp.Reduction(**PRODUCTS),
        expr="y0 = d * w0 + x2;",
        outer=cp.Reduction(**WEIGHTED),
    )
    args = *map(cp.asarray, (q[:, :, None], k[:, None], bias, v[:, None])), 0.5
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (q, k, bias, v)]
    tq, tk, tb, tv = leaves
    result = torch.softmax(tq @ tk.mT * 0.5 + tb, -1) @ tv
    np.testing.assert_allclose(op(*args).get(), result.detach(), rtol=1e-5, atol=1e-6)
    grad = rng.standard_normal(result.shape).astype(np.float32)
    expected = torch.autograd.grad(result, leaves, torch.tensor(grad, dtype=torch.float64))
    gradients_equal(op, args, grad, expected)
    if block == 40:
        gradients_equal(op, args, grad, expected[3:], wrt="x3")
        gradients_equal(op, args, grad, expected[1:2], wrt=["x1"])


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=str)
def test_gradients_of_a_largest_value_go_to_it(device, dtype, axis):
    if dtype == np.float64 and not device.traits.fp64:
        pytest.skip("no float64")
    x, y, b = numbers((11, 3), seed=1), numbers((17, 3), seed=2), numbers(17, seed=3)
    leaves = [torch.tensor(wide(a), dtype=torch.float64, requires_grad=True) for a in (x, y, b)]
    tx, ty, tb = leaves
    result = (((tx[:, None] - ty) ** 2).sum(-1) + tb).amax(axis)
    grad = numbers(result.shape, seed=4)
    expected = torch.autograd.grad(result, leaves, torch.tensor(wide(grad), dtype=torch.float64))
    args = [cp.asarray(a.astype(dtype)) for a in (x[:, None], y[None], b)]
    op = pairs("y0 = d + x2;", LARGEST)
    gradients_equal(op, args, grad.astype(dtype), expected, axis, rtol=2e-3, atol=1e-6)


def test_gradients_of_strings_with_numbers_of_their_own(device):
    """Numbers are those of all strings, of which each may have some."""
    scaled = {**SQUARES, "expr": "y0 = (x0 - x1) * w0;"}
    x, y = numbers((5, 2), seed=1), numbers((8, 2), seed=2)
    leaves = [torch.tensor(wide(a), dtype=torch.float64, requires_grad=True) for a in (x, y)]
    result = (-(((leaves[0][:, None] - leaves[1]) * 0.5) ** 2).sum(-1) * 0.25).exp().sum(1)
    expected = torch.autograd.grad(result.sum(), leaves)
    args = cp.asarray(x)[:, None], cp.asarray(y)[None], 0.5, 0.25
    gradients_equal(
        pairs("y0 = exp(-d * w1);", SUM, scaled), args, np.ones(5, np.float32), expected
    )


@pytest.mark.refusal
def test_refusals(device):
    total = cp.Reduction(**SUM)
    with pytest.raises(cp.DefinitionError, match="expected a Reduction"):
        cp.Pairs(expr="y0 = x0;", outer="sum")
    with pytest.raises(cp.DefinitionError, match="no inner reduction"):
        cp.Pairs(expr="y0 = d * x0;", outer=total)
    with pytest.raises(cp.DefinitionError, match="begin with x2"):
        cp.Pairs(inner=squares(), expr="y0 = d * x1;", outer=total)
    with pytest.raises(cp.DefinitionError, match="outer takes 1"):
        cp.Pairs(inner=squares(), expr="y0 = d; y1 = d;", outer=total)
    with pytest.raises(cp.DefinitionError, match="no value"):
        cp.Pairs(inner=squares(), expr="", outer=total)
    fading = {
        **SUM,
        "step": "reduce_y0 = fma(reduce_y0, 0.5f, y0);",
        "combine": "reduce_y0 += other_y0;",
    }
    with pytest.raises(cp.DefinitionError, match="gradient"):
        pairs("y0 = d;", fading).gradient()
    op = cp.Pairs(inner=squares(), expr="y0 = d;", outer=total)
    x = cp.zeros((4, 1, 3))
    with pytest.raises(cp.ShapeError, match="rows and columns"):
        op(cp.zeros((4, 5, 3)), x)
    with pytest.raises(cp.ShapeError, match="expected -1"):
        op(x, x, axis=0)
    for axis in (0, 2, True, "rows"):
        with pytest.raises(cp.ShapeError, match=r"gradient of .*expected -1"):
            op.gradient()(x, cp.zeros((1, 5, 3)), grad=1.0, axis=axis)
    with pytest.raises(cp.ShapeError, match="do not broadcast"):
        op(x, cp.zeros((1, 5, 2)))
    with pytest.raises(cp.DTypeError, match="floating"):
        op(cp.zeros((4, 1, 3), np.int32), cp.zeros((1, 4, 3), np.int32))
    assert op(cp.zeros((0, 1, 3)), cp.zeros((1, 4, 3))).shape == (0,)
    equal(op(x, cp.zeros((1, 0, 3))), np.zeros(4))
