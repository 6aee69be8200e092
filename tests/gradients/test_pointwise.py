"""`Pointwise.gradient`: shapes, dtypes, formats, views, second derivatives and what is refused."""

import itertools
import re

import numpy as np
import pytest
from gradient_cases import CASES, PREAMBLE, data
from support import BFLOAT16, numbers, roundoff

import clprim as cp

torch = pytest.importorskip("torch")


def torch_of(array):
    return torch.tensor(np.asarray(array, np.float64), requires_grad=True)


PRODUCT = cp.Pointwise("y0 = x0 * x1 + w0 * x0;")


@pytest.mark.parametrize("patterns", [range(16), range(16, 32)], ids=["of x1", "of both"])
def test_broadcast_axes_are_summed(device, some, patterns):
    shape = (2, 3, 4, 5)
    g = PRODUCT.gradient()
    for pattern in some(list(patterns), 5):
        cut = [1 if pattern >> d & 1 else n for d, n in enumerate(shape)]
        first = shape if pattern < 16 else (1, 3, 1, 5)
        a, b = numbers(first), numbers(cut, seed=1)
        whole = np.broadcast_shapes(a.shape, b.shape)
        grad = numbers(whole, seed=2)
        gx0, gx1 = g(cp.asarray(a), cp.asarray(b), 2.0, grad=cp.asarray(grad))
        x0, x1 = torch_of(a), torch_of(b)
        expected = torch.autograd.grad(x0 * x1 + 2 * x0, (x0, x1), torch.tensor(grad).double())
        for found, right in zip((gx0, gx1), expected, strict=True):
            np.testing.assert_array_equal(found.get(), right.numpy())


@pytest.mark.parametrize("shapes", [((3,), (2, 3)), ((), (4,)), ((1,), (2, 1)), ((5,), (0, 5))])
def test_dimensions_that_were_added_are_summed(device, shapes):
    a, b = (numbers(s, seed=n) for n, s in enumerate(shapes))
    grad = numbers(np.broadcast_shapes(*shapes), seed=2)
    gx0, gx1 = PRODUCT.gradient()(cp.asarray(a), cp.asarray(b), 2.0, grad=cp.asarray(grad))
    x0, x1 = torch_of(a), torch_of(b)
    expected = torch.autograd.grad(x0 * x1 + 2 * x0, (x0, x1), torch.tensor(grad).double())
    np.testing.assert_array_equal(gx0.get(), expected[0].numpy())
    np.testing.assert_array_equal(gx1.get(), expected[1].numpy())


def test_of_a_scalar_it_is_a_sum_of_all(device):
    x = numbers((3, 4))
    gw, gx = PRODUCT.gradient(("w0", "x1"))(cp.asarray(x), cp.asarray(x), 2.0, grad=1.0)
    assert gw.shape == () and gw.dtype == np.float32
    assert gw.get() == x.sum()
    np.testing.assert_array_equal(gx.get(), x)


PRODUCTS = {
    "two arrays in turn": " * ".join(f"x{n % 2}" for n in range(500)),
    "brackets": "x0 * (x1 * " * 125 + "x1" + ")" * 125,
    "parts of both": " * ".join(["(x0 + 0.25f)", "x1", "sqrt(x0)", "-x1"] * 125),
    "a square that is taken twice": "(x0 * x0) * (x1 * (x0 * x0)) * x1",
    "different factors": " * ".join(f"(x{n % 2} + {n / 1000}f)" for n in range(200)),
}


@pytest.mark.parametrize("text", PRODUCTS.values(), ids=PRODUCTS)
def test_products_of_many_factors(device, text):
    # Where factors were equal, the terms grew by the square of their number, and were refused.
    x = np.linspace(0.985, 1.015, 64).astype(np.float32)
    y, grad = x[::-1].copy(), numbers((64,), seed=2)
    found = cp.Pointwise(f"y0 = {text};").gradient()(
        cp.asarray(x), cp.asarray(y), grad=cp.asarray(grad)
    )
    x0, x1 = torch_of(x), torch_of(y)
    value = eval(re.sub(r"(?<=\d)f", "", text), {"x0": x0, "x1": x1, "sqrt": torch.sqrt})
    expected = torch.autograd.grad(value, (x0, x1), torch.tensor(grad).double())
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.get(), right.numpy(), rtol=1e-4)


def test_one_name_gives_one_array(device):
    x = cp.asarray(numbers((3, 4)))
    found = PRODUCT.gradient("x1")(x, x, 2.0, grad=2.0)
    np.testing.assert_array_equal(found.get(), 2 * x.get())


def test_integers_have_no_gradient_and_are_left_out(device):
    x, k = numbers((3, 4)), numbers((3, 4), np.int32, seed=1)
    g = cp.Pointwise("y0 = x0 * (x1 / 2) + (x1 & 1);").gradient()
    found = g(cp.asarray(x), cp.asarray(k), grad=1.0)
    np.testing.assert_array_equal(found.get(), np.trunc(k / 2))
    with pytest.raises(cp.DTypeError, match="x1 is int32, which has no gradient"):
        cp.Pointwise("y0 = x0 * x1;").gradient("x1")(cp.asarray(x), cp.asarray(k), grad=1.0)


def test_without_any_floating_array(device):
    with pytest.raises(cp.DTypeError, match="no argument is an array of a floating dtype"):
        k = cp.asarray(numbers((3,), np.int32))
        cp.Pointwise("y0 = x0 + x1;").gradient()(k, k, grad=1.0)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32, np.float64], ids=str)
def test_dtypes(device, dtype):
    if dtype == np.float64 and not device.traits.fp64:
        pytest.skip("no float64")
    x = (numbers((64, 33)) / 4).astype(dtype)
    b = (numbers((33,), seed=1) / 4).astype(dtype)
    grad = numbers((64, 33), seed=2).astype(dtype)
    gx, gb = PRODUCT.gradient()(cp.asarray(x), cp.asarray(b), 2.0, grad=cp.asarray(grad))
    assert gx.dtype == gb.dtype == np.dtype(dtype)
    wide, other = grad.astype(np.float64), b.astype(np.float64)
    error = roundoff(dtype, 2, np.abs(wide * (np.abs(other) + 2)))
    assert (np.abs(gx.get().astype(np.float64) - wide * (other + 2)) <= error).all()
    products = wide * x.astype(np.float64)
    error = roundoff(dtype, 64, np.abs(products).sum(0))
    assert (np.abs(gb.get().astype(np.float64) - products.sum(0)) <= error).all()


def test_formats_and_views(device):
    x, b = numbers((2, 3, 4, 5)), numbers((3, 1, 1), seed=1)
    grad = numbers((2, 3, 4, 5), seed=2)
    plain = cp.asarray(x)
    last = cp.asarray(x, memory_format="channels_last")
    wide = cp.asarray(np.repeat(x, 2, axis=3))[..., ::2]
    backwards = cp.asarray(x[..., ::-1].copy())[..., ::-1]
    gy = cp.asarray(grad, memory_format="channels_last")
    for array in (plain, last, wide, backwards):
        gx, gb = PRODUCT.gradient()(array, cp.asarray(b), 2.0, grad=gy)
        np.testing.assert_array_equal(gx.get(), grad * (b + 2))
        np.testing.assert_array_equal(gb.get(), (grad * x).sum((0, 2, 3)).reshape(3, 1, 1))
    gx, _ = PRODUCT.gradient()(last, cp.asarray(b), 2.0, grad=gy)
    assert gx.strides == last.strides


def test_it_lies_as_its_argument_even_where_it_does_not_read_it(device):
    x, grad = numbers((2, 3, 4, 5)), cp.asarray(numbers((2, 3, 4, 5), seed=1))
    last = cp.asarray(x, memory_format="channels_last")
    for array in (cp.asarray(x), last):
        found = cp.Pointwise("y0 = 3 * x0;").gradient()(array, grad=grad)
        assert found.strides == array.strides
        np.testing.assert_array_equal(found.get(), 3 * grad.get())


def test_several_results(device):
    f = cp.Pointwise("typeof_y0 t = x0 * x0; y0 = t * 2; y1 = t + x1; y2 = x1;")
    x, b = numbers((3, 4)), numbers((4,), seed=1)
    u, v = numbers((3, 4), seed=2), numbers((3, 4), seed=3)
    args = cp.asarray(x), cp.asarray(b)
    gx, gb = f.gradient()(*args, grad=(cp.asarray(u), cp.asarray(v), None))
    np.testing.assert_array_equal(gx.get(), 4 * x * u + 2 * x * v)
    np.testing.assert_array_equal(gb.get(), v.sum(0))
    gx, gb = f.gradient()(*args, grad=(None, None, 3.0))
    np.testing.assert_array_equal(gx.get(), 0 * x)
    np.testing.assert_array_equal(gb.get(), [9.0] * 4)


def test_saved_results_are_not_computed_again(device):
    f = cp.Pointwise("y0 = exp(x0 * w0);")
    g = f.gradient(saves="y0")
    assert "exp" not in str(g)
    x = cp.asarray(numbers((3, 4)))
    y = f(x, 2.0)
    found = g(x, 2.0, grad=1.0, saved=y)
    np.testing.assert_allclose(found.get(), 2 * np.exp(2 * x.get()), rtol=1e-5)
    assert "exp" not in g.source(x, 2.0, grad=1.0, saved=y).replace("snippet:expr", "")
    with pytest.raises(cp.ShapeError, match="saved= holds 0 arrays, expected those of y0"):
        g(x, 2.0, grad=1.0, saved=())
    with pytest.raises(cp.DefinitionError, match="the results are"):
        f.gradient(saves="y1")


def test_it_prints_as_strings_that_are_kept_small():
    assert str(cp.Pointwise("y0 = x0 > 0 ? log(x0) : 0;").gradient()) == (
        "gx0 = x0 > 0 ? gy0 / x0 : 0;"
    )
    assert str(cp.Pointwise("y0 = pow(x0, 3);").gradient()) == "gx0 = 3 * (gy0 * (x0 * x0));"
    assert str(cp.Pointwise("y0 = max(x0, 0) * w0 + 3 * x0;").gradient()).count("gy0") == 2
    relu = cp.Pointwise("y0 = x0 > 0 ? x0 : 0;").gradient()
    assert str(relu) == "gx0 = x0 > 0 ? gy0 : 0;"


def test_signs_end():
    f = cp.Pointwise("y0 = mix(x0, (-2 * x1) * x0, x1) - (-3 * x0) * x1 / (-2 * x1);")
    assert "gx1" in str(f.gradient())


def test_whole_vectors_compute_what_is_derived_of_them(device):
    x = cp.asarray(np.zeros(4096, np.float32))
    silu = cp.Pointwise("typeof_y0 e = exp(-fabs(x0)); y0 = x0 * ((x0 < 0 ? e : 1) / (1 + e));")
    assert ("vload" in silu.source(x)) == ("vload" in silu.gradient().source(x, grad=x))


# --- second derivatives --------------------------------------------------------------------------

TWICE = """
    a * a * a - 2 * a + 1 | 1 / (1 + a * a) | pow(a, 3) | pow(a, 1.5) | sqrt(a) | rsqrt(a) | exp(a)
    | log(a) | log1p(a) | a * log(a) | sin(a) | cos(a) | tan(a) | atan(a) | tanh(a) | asinh(a)
    | erf(a) | lgamma(a) | sigmoid | silu | gelu | gelu, tanh | mish | softplus, threshold
    | softsign | gaussian | squared relu | snake | horner | mse | gaussian nll | log cosh | cauchy
    | charbonnier | sin(a) * cos(b) | a * b + b * c + c * a | pow(a, b) | focal | smape
"""
TWICE = [c for c in CASES if c.name in [name.strip() for name in TWICE.split("|")]]


def test_there_are_thirty_second_derivatives():
    assert len(TWICE) >= 30


def test_second_derivatives(double_device):
    wrong = []
    for start in range(0, len(TWICE), 10):
        cases = TWICE[start : start + 10]
        text, count, arrays, letters = [], 0, [], []
        for n, c in enumerate(cases):
            names = {"abc"[k]: f"x{count + k}" for k in range(c.arity)} | {"r": f"y{n}"}
            body = c.text if "r = " in c.text else f"r = {c.text}"
            words = re.sub(r"\b[abcr]\b", lambda m, n=names: n.get(m[0], m[0]), body)
            text.append("{ " + words + "; }")
            arrays += data(c.domain, c.arity)
            letters.append(c.arity)
            count += c.arity
        f = cp.Pointwise("\n".join(text), preamble=PREAMBLE)
        size = len(arrays[0])
        grads = [np.linspace(0.5, 1.5, size) + n for n in range(len(cases))]
        others = [np.cos(np.arange(size) + n) for n in range(count)]
        up = [cp.asarray(a) for a in (*arrays, *grads)]
        found = list(f.gradient().gradient()(*up, grad=tuple(map(cp.asarray, others))))
        at = 0
        of_grads = found[count:]
        for c, grad, of_grad in zip(cases, grads, of_grads, strict=True):
            xs = [torch.tensor(a, requires_grad=True) for a in arrays[at : at + c.arity]]
            gy = torch.tensor(grad, requires_grad=True)
            firsts = torch.autograd.grad(
                c.reference(*xs), xs, gy, create_graph=True, allow_unused=True
            )
            hs = [torch.tensor(h) for h in others[at : at + c.arity]]
            total = sum((h * f).sum() for h, f in zip(hs, firsts, strict=True) if f is not None)
            seconds = torch.autograd.grad(total, [*xs, gy], allow_unused=True)
            results = [*found[at : at + c.arity], of_grad]
            for k, (result, second) in enumerate(zip(results, seconds, strict=True)):
                right = np.zeros(size) if second is None else second.numpy()
                value = result.get()
                scale = 1 + np.abs(right)
                bad = ~(np.abs(value - right) <= 1e-8 * scale)
                if bad.any():
                    place = [a[bad][:2] for a in arrays[at : at + c.arity]]
                    wrong.append(f"{c.name} {k}: at {place} {value[bad][:2]} not {right[bad][:2]}")
            at += c.arity
    assert not wrong, "\n".join(wrong)


def test_second_derivative_of_what_was_broadcast(device):
    f = cp.Pointwise("y0 = x0 * x0 * x1;")
    x, b, gy = numbers((3, 4)), numbers((4,), seed=1), numbers((3, 4), seed=2)
    hx, hb = numbers((3, 4), seed=3), numbers((4,), seed=4)
    gg = f.gradient().gradient()
    found = gg(*map(cp.asarray, (x, b, gy)), grad=(cp.asarray(hx), cp.asarray(hb)))
    tx, tb, tg = torch_of(x), torch_of(b), torch_of(gy)
    first = torch.autograd.grad(tx * tx * tb, (tx, tb), tg, create_graph=True)
    total = (first[0] * torch_of(hx)).sum() + (first[1] * torch_of(hb)).sum()
    for result, right in zip(found, torch.autograd.grad(total, (tx, tb, tg)), strict=True):
        np.testing.assert_array_equal(result.get(), right.detach().numpy())


def test_where_the_first_gradients_are_left_out_they_are_one(device):
    x = numbers((3, 4))
    gg = cp.Pointwise("y0 = x0 * x0 * x0;").gradient().gradient()
    np.testing.assert_array_equal(gg(cp.asarray(x), grad=1.0).get(), 6 * x)
    ggg = gg.gradient()
    np.testing.assert_array_equal(ggg(cp.asarray(x), grad=1.0).get(), 0 * x + 6)


# --- what is refused -----------------------------------------------------------------------------

REFUSED = {
    "y0 = x0;\nfor (int i = 0; i < w0; ++i)\n    y0 *= x0;": "line 2: .*surely ends after 128",
    "y0 = nextafter(x0, 1);": "no gradient passes 'nextafter'",
    "y0 = as_float(as_int(x0) + 1);": "no gradient passes 'as_float': it takes bits",
    "y0 = as_float(as_int(x0) + 1) * x1;": "no gradient passes 'as_float': it takes bits",
    "int e; y0 = frexp(x0, &e);": "no gradient passes 'frexp'|derived through 'frexp'",
    "y0 = at_x0(coord(0));": "no gradient passes 'at_x0': it reads x0 anywhere",
    "switch ((int)x0) { case 1: y0 = x0; break; default: y0 = 0; }": "derived through 'switch",
    "y0 = bitselect(x0, x1, x1);": "no gradient passes 'bitselect'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_gradient_is_refused_with_its_place(text):
    with pytest.raises(cp.DefinitionError, match=REFUSED[text]) as caught:
        cp.Pointwise(text).gradient()
    assert "^" in str(caught.value)


def test_unknown_helpers_are_refused_only_where_a_gradient_passes_them():
    helper = "float odd(float v) { while (v > 1) v /= 2; return v; }"
    f = cp.Pointwise("y0 = odd(x0) * x1;", preamble=helper)
    assert str(f.gradient("x1")).endswith("gx1 = gy0 * odd(x0);")
    with pytest.raises(cp.DefinitionError, match="preamble, line 1: a gradient needs a loop"):
        f.gradient("x0")


def test_wrong_arguments(device):
    x = cp.asarray(numbers((3, 4)))
    g = PRODUCT.gradient()
    with pytest.raises(cp.ShapeError, match=r"grad= of y0 has shape \(4,\), expected \(3, 4\)"):
        g(x, x, 1.0, grad=cp.asarray(numbers((4,))))
    with pytest.raises(cp.ShapeError, match="grad= is missing"):
        g(x, x, 1.0)
    with pytest.raises(cp.ShapeError, match="grad= holds 2 gradients, expected 1"):
        g(x, x, 1.0, grad=(x, x))
    with pytest.raises(cp.ShapeError, match="expected 3 arguments"):
        g(x, x, grad=x)
    with pytest.raises(cp.DTypeError, match="grad= of y0 is int32"):
        g(x, x, 1.0, grad=cp.asarray(numbers((3, 4), np.int32)))
    with pytest.raises(cp.DTypeError, match="expected a device array for grad="):
        g(x, x, 1.0, grad=numbers((3, 4)))
    for wrt in (("x2",), ("y0",), (), ("x0", "x0")):
        with pytest.raises(cp.DefinitionError, match="wrt="):
            PRODUCT.gradient(wrt)


def test_lookups_are_read_where_the_gradient_is_anothers(device):
    f = cp.Pointwise("y0 = x0 * at_x1(coord(0));")
    x, table = numbers((5,)), numbers((5,), seed=1)
    found = f.gradient("x0")(cp.asarray(x), cp.asarray(table), grad=1.0)
    np.testing.assert_array_equal(found.get(), table)


def test_sides_of_kinks_agree(device):
    # Smooth at 0, but made of pieces that are not.
    text = "typeof_y0 e = exp(-fabs(x0)); y0 = (x0 < 0 ? e : 1) / (1 + e);"
    for other in (text, text.replace("x0 < 0 ? e : 1", "x0 >= 0 ? 1 : e")):
        found = cp.Pointwise(other).gradient()(cp.asarray(np.zeros(3, np.float32)), grad=1.0)
        np.testing.assert_allclose(found.get(), 0.25, rtol=1e-6)


def test_a_scalar_in_all_shapes_of_patterns(device):
    for shape in itertools.islice(((3,), (2, 3), (2, 1, 3)), 3):
        x = numbers(shape)
        found = cp.Pointwise("y0 = x0 * w0;").gradient("w0")(cp.asarray(x), 3.0, grad=1.0)
        assert found.get() == x.sum()
