"""What derived strings look like: nothing twice, nothing dead, no pow where a product will do."""

import re

import numpy as np
import pytest
from gradient_cases import CASES, PREAMBLE

import clprim as cp
from clprim.ops.elementwise.table import ROWS


def printed(expr, *wrt, saves=(), **options):
    return str(cp.Pointwise(expr, **options).gradient(wrt or None, saves=saves))


def test_quotients_by_one_divisor_share_its_reciprocal():
    assert printed("y0 = x0 / (1 + exp(-x0));") == (
        "typeof_gx0 t0 = exp(-x0);\n"
        "typeof_gx0 t1 = 1 / (1 + t0);\n"
        "gx0 = gy0 * (t1 + x0 * t1 * (t1 * t0));"
    )
    assert printed("y0 = x0 / x1;", "x0") == "gx0 = gy0 / x1;"


def test_what_a_step_looks_at_stays_a_quotient():
    text = printed("y0 = (x0 / x1) * (floor(x0 / x1) + (x0 / x1 > 2 ? 1 : 0));")
    assert text.startswith("typeof_gx0 t0 = x0 / x1;") and "floor(t0)" in text and "t0 > 2" in text


def test_common_factors_are_taken_out():
    assert printed("y0 = x0 * x1 + x0 * w0;", "x0") == "gx0 = gy0 * (w0 + x1);"
    assert printed("typeof_y0 n = x0 * (x0 + 2); y0 = n / (n + 2);") == (
        "typeof_gx0 t0 = 1 / (x0 * (x0 + 2) + 2);\ngx0 = 4 * gy0 * t0 * (t0 * (1 + x0));"
    )


@pytest.mark.parametrize("x", [-60.0, -80.0, 60.0])
def test_a_product_begins_anew_at_a_quotient(x):
    # exp(60) / (1 + exp(60))² would be 0 in float32, were the quotient squared first.
    silu = cp.Pointwise("y0 = x0 / (1 + exp(-x0));").gradient()
    found = silu(cp.full(1, x), grad=1.0).item()
    s = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(found, s * (1 + x * np.exp(-x) * s), rtol=1e-5)


def test_what_the_user_multiplied_keeps_its_order():
    text = printed("typeof_y0 t = 1 / x1; y0 = floor(x0 * t * x1 * x0 + t) * x0;", "x0")
    assert "x0 * t * x1 * x0" in text


def test_quotients_take_turns_with_what_is_behind_them():
    mish = "typeof_y0 e = exp(x0 < 20 ? x0 : 20), n = e * (e + 2); y0 = x0 * (n / (n + 2));"
    assert "4 * (gy0 * x0) * e * t0 * (t0 * (1 + e))" in printed(mish)


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5, 8, -1, -2, 0.5, 1.5])
def test_powers_are_products(exponent):
    assert "pow" not in printed(f"y0 = pow(x0, {exponent});")


def test_dead_terms_go():
    text = printed("typeof_y0 a = exp(x0), b = sin(x1); y0 = a * 0 + x1; y1 = b;", "x1")
    assert "exp" not in text and "sin" not in text
    assert printed("y0 = max(x0, 0) * x1;", "x1") == "gx1 = gy0 * max(x0, 0);"


def test_a_number_that_is_not_finite_stays_in_its_branch():
    assert printed("y0 = x0 > 1 ? x0 * NAN : x0;") == "gx0 = x0 > 1 ? NAN * gy0 : gy0;"


def test_a_saved_result_spares_what_it_is_made_of():
    sigmoid = "typeof_y0 e = exp(-x0); y0 = 1 / (1 + e);"
    assert printed("y0 = tanh(x0 * w0);", saves=("y0",)) == "gx0 = gy0 * (1 - y0 * y0) * w0;"
    assert printed("y0 = exp(x0);", saves="y0") == "gx0 = gy0 * y0;"
    assert "y0 / " in printed(sigmoid, saves="y0") or "* y0" in printed(sigmoid, saves="y0")


def calls(text):
    """Every function call with its arguments, as written."""
    found = []
    for start in re.finditer(r"\b(exp|tanh|erfc?|log1p?|sqrt|sin|cos|pow|expm1)\(", text):
        depth, end = 1, start.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append(text[start.start() : end])
    return found


def test_no_function_is_called_twice_alike():
    for case in CASES:
        names = {"abc"[k]: f"x{k}" for k in range(case.arity)} | {"r": "y0"}
        text = case.text if re.search(r"\br = ", case.text) else f"r = {case.text}"
        text = re.sub(r"\b[abcr]\b", lambda m, n=names: n.get(m[0], m[0]), text)
        found = calls(printed(text, preamble=PREAMBLE).rsplit("}\n", 1)[-1])
        assert len(found) == len({*found}), case.name


@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "gelu.tanh", "logsigmoid", "sigmoid"])
def test_activations_divide_as_often_as_they_do(name):
    # By hand one divides once, as the activation itself.
    operator = ROWS[name].of_floats
    text = str(operator.gradient("x0"))
    assert text.count("/") <= max(1, operator.definition.expr.text.count("/"))


def test_reciprocals_are_right_where_divisors_are_not_finite(device):
    x = np.array([0, np.inf, -np.inf, 1e-3, 2], np.float32)
    found = cp.Pointwise("y0 = x0 / x1 + x2 / x1;").gradient("x1")
    ones = cp.full(5, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = -(2 / x) / x
    np.testing.assert_allclose(found(ones, cp.asarray(x), ones, grad=1.0).get(), expected, 1e-6)


def test_locals_never_have_names_of_the_engine():
    # A result that another result is computed from would lend its name.
    text = "typeof_y0 m = x0 * x0; y1 = sqrt(m); y0 = y1 * exp(y1) + y1;"
    assert "typeof_gx0 y1" not in printed(text)
    strings = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    finalize = "y0 = reduce_y0; y1 = rsqrt(reduce_y0 / count);"
    gradient = cp.Reduction("y0 = x0 * x0;", **strings, finalize=finalize).gradient()
    assert "typeof_ay0 y1" not in str(gradient)
