"""Epilogues, biases and old results of products of complex matrices, against NumPy."""

import re

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.runtime.stats import counters


def drawn(shape, seed=0, dtype=np.complex64):
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2, *shape))
    return (parts[0] + 1j * parts[1]).astype(dtype)


def check(found, expected, dtype=np.complex64):
    assert found.dtype == dtype
    error = np.abs(found.get() - expected).max()
    assert error <= 40 * np.finfo(dtype).eps * np.abs(expected).max()


def halved(y, x, z, w, v):
    y = y * x.conj() * w
    return np.where(np.abs(y) > 2, y, y.real) + v * z


EPILOGUE = """
    typeof_y0 t = y0 * conj(x0) * w0;
    y0 = abs(t) > 2 ? t : complex(real(t), 0);
    y0 += w1 * x1;
"""
SHAPES = [((7, 5), (5, 9)), ((3, 7, 5), (5, 9)), ((2, 1, 7, 5), (3, 5, 9)), ((5,), (5, 9))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("kinds", ["cc", "cf", "fc"])
def test_epilogues(device, shapes, kinds):
    """The old result is added behind the epilogue, the bias before it."""
    given = [drawn(shape, n) for n, shape in enumerate(shapes)]
    a, b = (m if kind == "c" else m.real.copy() for m, kind in zip(given, kinds, strict=True))
    wide = a.astype(complex) @ b.astype(complex)
    bias, old = drawn((9,), 2), drawn(wide.shape, 3)
    x, z = drawn((*wide.shape[-2:-1], 18), 4), drawn((1,), 5).real
    out = cp.asarray(old)
    found = ops.matmul(
        cp.asarray(a), cp.asarray(b), bias=cp.asarray(bias), epilogue=EPILOGUE,
        epilogue_args=(cp.asarray(x)[..., ::2], cp.asarray(z), 2 - 1j, 0.5), out=out, beta=-0.5,
    )  # fmt: skip
    assert found is out
    check(out, halved(wide + bias, x[..., ::2], z, 2 - 1j, 0.5) - 0.5 * old)


def test_transposed_views_doubles_and_a_weight(double_device):
    a, b = drawn((5, 14), 0, np.complex128), drawn((9, 5), 1, np.complex128)
    r = drawn((7, 1), 2, np.complex128).real
    given = cp.asarray(a)[:, ::-2], cp.asarray(b)
    told = {"epilogue": "y0 = y0 * x0 + index * 1i", "epilogue_args": cp.asarray(r)}
    expected = (a[:, ::-2].T @ b.T) * r + 1j * np.arange(63).reshape(7, 9)
    found = ops.matmul(*given, transpose_a=True, transpose_b=True, **told)
    check(found, expected, np.complex128)
    check(ops.linear(given[0].T, given[1], **told), expected, np.complex128)


def test_a_real_value_stays_complex_as_dtypes_of_products_do(device):
    a, b = drawn((7, 5)), drawn((5, 9), 1)
    given, told = (cp.asarray(a), cp.asarray(b)), {"epilogue": "y0 = real(y0 * conj(y0));"}
    check(ops.matmul(*given, **told), np.abs(a @ b) ** 2)
    # It runs where the parts are joined: no launch more.
    counts = [counters.launches]
    for options in (told, {}):
        ops.matmul(*given, **options)
        counts.append(counters.launches)
    assert counts[1] - counts[0] == counts[2] - counts[1] > 0


def test_operands_that_are_passed_over(device):
    a, b, r = drawn((7, 5)), drawn((5, 9), 1), drawn((9,), 2)
    args = (cp.asarray(r), cp.asarray(r), 1.0, 1j)
    found = ops.matmul(cp.asarray(a), cp.asarray(b), epilogue="y0 += w1 * x1;", epilogue_args=args)
    check(found, a @ b + 1j * r)


def test_sums_with_complex_factors(device):
    x, a, b = drawn((3, 7, 9)), drawn((3, 7, 5), 1), drawn((3, 5, 9), 2)
    given = tuple(map(cp.asarray, (x, a, b)))
    check(ops.baddbmm(*given, alpha=1j, beta=2 - 1j), 1j * (a @ b) + (2 - 1j) * x)
    with pytest.raises(cp.DTypeError, match="baddbmm: expected a number for beta, got str"):
        ops.baddbmm(*given, beta="1")


def scaled(a, b, r):
    return ops.matmul(a, b, epilogue="y0 = exp(y0 * w0) * x0;", epilogue_args=(r, 0.1j))


def test_in_graphs_and_their_gradients(device):
    a, b, r = (drawn(s, n) for n, s in enumerate([(7, 5), (5, 9), (7, 1)]))
    given = tuple(map(cp.asarray, (a, b, r)))
    check(cp.jit(scaled)(*given), np.exp((a @ b) * 0.1j) * r)

    def apart(a, b, r):
        return (cp.exp((a @ b) * 0.1j) * r).real.sum()

    def loss(a, b, r):
        return scaled(a, b, r).real.sum()

    wrt = ("a", "b", "r")
    pairs = zip(*(cp.value_and_grad(f, wrt=wrt)(*given)[1] for f in (loss, apart)), strict=True)
    for found, expected in pairs:
        check(found, expected.get())


WRONG = [
    (cp.DTypeError, r"no order\n    y0 \*= x0 < 1;\n          \^{6}", "y0 *= x0 < 1;", "z"),
    (cp.DTypeError, "erf takes no complex.*\n    y0 = erf\\(y0\\);\n", "y0 = erf(y0);", ""),
    (cp.DefinitionError, "unknown name 'z0'.*\n    y0 = z0;\n", "y0 = z0;", ""),
    (cp.DefinitionError, "holds 0 arguments, the epilogue names 1", "y0 += x0;", ""),
    (cp.DTypeError, "expected a number for w0 of the epilogue, got str", "y0 *= w0;", "w"),
    (cp.ShapeError, r"x0 of the epilogue has shape \(2, 7, 9\), which does not", "y0 += x0;", "s"),
    (cp.DefinitionError, "without an epilogue", None, "z"),
]


@pytest.mark.parametrize(("error", "told", "epilogue", "args"), WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("call", [lambda f: f, cp.jit], ids=["eager", "graph"])
def test_wrong_ones_point_at_the_string(device, call, error, told, epilogue, args):
    a, b, z = (cp.asarray(drawn(s, n)) for n, s in enumerate([(7, 5), (5, 9), (9,)]))
    known = {"z": (z,), "w": ("1",), "s": (cp.zeros((2, 7, 9)),), "": ()}[args]
    run = call(lambda a, b: ops.matmul(a, b, epilogue=epilogue, epilogue_args=known))
    with pytest.raises(error, match=f"(?s){told}") as found:
        run(a, b)
    assert re.match(r"matmul( epilogue, line 1)?:", str(found.value))
