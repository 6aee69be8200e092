"""Functions of one argument against NumPy in float64; the names that `clprim.ops` has."""

import inspect
import math
from statistics import NormalDist

import numpy as np
import pytest
from support import BFLOAT16, DTYPES, FLOATS, equal, numbers

import clprim as cp
from clprim import DTypeError, ops
from clprim.ops.elementwise.table import FUNCTIONS as ROWS


def _frac(x):
    with np.errstate(invalid="ignore"):
        return x - np.trunc(x)


def _erfinv(x):
    return NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2)


# name: (reference, from, to); one result over a wide range, where the function is defined
FUNCTIONS = {
    "exp": (np.exp, -80, 80),
    "exp2": (np.exp2, -120, 120),
    "expm1": (np.expm1, -20, 20),
    "log": (np.log, 1e-6, 1e6),
    "log2": (np.log2, 1e-6, 1e6),
    "log10": (np.log10, 1e-6, 1e6),
    "log1p": (np.log1p, -0.9, 100),
    "sqrt": (np.sqrt, 0, 1e9),
    "rsqrt": (lambda x: x**-0.5, 1e-6, 1e9),
    "reciprocal": (lambda x: 1 / x, 1e-9, 1e9),
    "sin": (np.sin, -100, 100),
    "cos": (np.cos, -100, 100),
    "tan": (np.tan, -1.5, 1.5),
    "deg2rad": (np.deg2rad, -720, 720),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -100, 100),
    "sinh": (np.sinh, -80, 80),
    "cosh": (np.cosh, -80, 80),
    "tanh": (np.tanh, -10, 10),
    "asinh": (np.arcsinh, -1e4, 1e4),
    "acosh": (np.arccosh, 1, 1e4),
    "atanh": (np.arctanh, -0.999, 0.999),
    "erf": (np.vectorize(math.erf), -4, 4),
    "erfc": (np.vectorize(math.erfc), -4, 8),
    "sinc": (np.sinc, -5, 5),
    "entr": (lambda x: -x * np.log(x), 0.1, 5),
    "erfinv": (
        np.vectorize(_erfinv),
        -0.99,
        0.99,
    ),
    "lgamma": (np.vectorize(math.lgamma), 3, 100),
}
KEPT = {
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "frac": _frac,
    "round": np.round,
}


def test_every_function_is_tested():
    assert {*FUNCTIONS, *KEPT} == {row.name for row in ROWS if row.shown} | {"round"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_real_functions(device, name):
    reference, low, high = FUNCTIONS[name]
    host = np.random.default_rng(0).uniform(low, high, 500).astype(np.float32)
    found = getattr(ops, name)(cp.asarray(host)).get().astype(np.float64)
    expected = reference(host.astype(np.float64))
    # OpenCL C grants most of these 4 units in the last place and erf, erfc 16; none of it is
    # granted to lgamma, and near a zero the error is one of the argument's scale.
    error = 2.0**-23 * (16 * np.abs(expected) + (0.25 if low < 0 or "log" in name else 0))
    assert (np.abs(found - expected) <= error).all()


@pytest.mark.optimised
def test_erfc_keeps_its_digits_where_it_is_small(device):
    host = np.random.default_rng(0).uniform(-9.2, 9.2, 50000).astype(np.float32)
    host[:8] = [np.nan, np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 9.5]
    for dtype, units in ((np.float32, 16), (np.float64, 1 << 10)):
        found = ops.erfc(cp.asarray(host.astype(dtype))).get().astype(np.float64)
        expected = np.array([math.erfc(v) for v in host.tolist()])
        tiny = float(np.finfo(np.float32).tiny)
        np.testing.assert_allclose(found, expected, rtol=units * np.finfo(dtype).eps, atol=tiny)


@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[1], DTYPES[8], *FLOATS], ids=str)
def test_integers_become_float32(device, dtype):
    host = np.arange(2 if dtype.kind == "b" else 10).astype(dtype)
    found = ops.exp(cp.asarray(host))
    assert found.dtype == (np.float32 if dtype.kind in "biu" else dtype)
    unit = {"float16": 2.0**-10, BFLOAT16.name: 2.0**-7}.get(dtype.name, 2.0**-20)
    expected = np.exp(host.astype(np.float64))
    np.testing.assert_allclose(found.get().astype(np.float64), expected, rtol=unit)


@pytest.mark.parametrize("name", KEPT)
def test_roundings_and_signs(device, name):
    host = np.float32([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 2.51, np.nan, np.inf, -np.inf])
    found = getattr(ops, name)(cp.asarray(host)).get()
    expected = KEPT[name](host)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[:9], np.signbit(expected)[:9])
    for dtype in (np.int32, np.uint8):
        whole = numbers((40,), dtype)
        equal(getattr(ops, name)(cp.asarray(whole)), KEPT[name](whole), dtype)


def test_rounding_to_decimals(device):
    torch = pytest.importorskip("torch")
    host = np.float32([1.234, -2.675, 15, 25, -35, 0.5, np.inf])
    for decimals in (1, 2, -1):
        expected = torch.round(torch.from_numpy(host), decimals=decimals).numpy()
        equal(ops.round(cp.asarray(host), decimals=decimals), expected, np.float32)
    whole = cp.asarray(np.int32([15, 25]))
    equal(ops.round(whole, decimals=2), [15, 25], np.int32)
    with pytest.raises(DTypeError, match="decimals=-1 of int32"):
        ops.round(whole, decimals=-1)


def test_out_and_memory_format(device):
    x = cp.asarray(numbers((2, 3, 4, 5), low=1), memory_format="channels_last")
    assert ops.sqrt(x).strides == x.strides
    assert ops.sqrt(x, out=x) is x


FAMILIES = ("elementwise", "reduction", "norm", "product", "conv")


def test_names_signatures_and_docstrings():
    for name in ops.__all__:
        function = getattr(ops, name)
        if inspect.ismodule(function):
            continue
        assert function.__name__ == name.replace("cummin_backward", "cummax_backward")  # the same
        assert (function.__doc__ or "").strip().split("\n")[0].rstrip().endswith((".", ";", ","))
        parameters = inspect.signature(function).parameters
        # Several gradients, copies, and weights made ready have nowhere to go to.
        several = name.endswith("_backward") or name in (
            "contiguous",
            "fold_batch_norm",
            "pack_weight",
            "einsum",  # of several products
            "allclose",  # a bool of Python's
            "nearest",  # distances and indices
        )
        # Likewise what is made of several calls: their modules say which.
        several = several or function.__module__.endswith((".deformable", ".det"))
        if "out" in parameters and not several:
            assert parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
        else:
            assert several or function.__module__.split(".")[2] not in FAMILIES, name
