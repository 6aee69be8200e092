"""Strange strings in the parts of reductions, scans and groups, in preambles and epilogues."""

import itertools
import sys

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.errors import DefinitionError
from clprim.language.combine import derive_combine
from clprim.language.definition import define_pointwise, define_reduction

SUM = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
OWN_MAX = "__attribute__((overloadable)) float max(float a, float b) { return 5; }"
X = np.linspace(-3, 3, 23 * 37, dtype=np.float32).reshape(23, 37)


def refused(expr, preamble=""):
    with pytest.raises(DefinitionError) as caught:
        define_pointwise(expr, name=None, preamble=preamble)
    return str(caught.value)


@pytest.mark.parametrize("word", ["define", "undef"])
@pytest.mark.parametrize(
    ("name", "whose"),
    [
        *((name, "the engine declares it") for name in ("x0", "typeof_y0", "index", "coord")),
        *((name, "the kernel around a snippet uses it") for name in "if float min vload4".split()),
        *((name, "the kernel around a snippet uses it") for name in "s0 hi barrier cp_a".split()),
    ],
)
def test_macros_that_change_the_kernel_are_refused(word, name, whose):
    message = refused("y0 = x0;", f"// first\n#{word} {name} \n")
    assert f"preamble, line 2: no macro may be called '{name}': {whose}" in message
    assert message.endswith("^" * len(name))


def test_a_function_is_no_value():
    # A kernel may have a local of that name.
    assert "'length' is a function, written length(…)" in refused("y0 = x0 + length;")
    assert "'sqrt' is a function" in refused("float g = sqrt; y0 = x0;")
    define_pointwise("float length = x0; y0 = length;", name=None, preamble="")
    define_pointwise("y0 = A(sqrt, x0);", name=None, preamble="#define A(f, a) f(a)")


def test_functions_of_the_preamble_are_not_taken_for_the_built_in_ones():
    assert define_pointwise("y0 = max(x0, 2);", name=None, preamble="").componentwise
    assert not define_pointwise("y0 = max(x0, 2);", name=None, preamble=OWN_MAX).componentwise
    parts = {"combine": "reduce_y0 += other_y0;", "init": SUM["init"], "finalize": None}
    step = "reduce_y0 = max(reduce_y0, y0);"
    for preamble, derived in (("", True), (OWN_MAX, False)):
        found = define_reduction("y0 = x0;", step=step, name=None, preamble=preamble, **parts)
        assert (derive_combine(found.expr, found.step) is not None) == derived


def test_a_preamble_may_overload_functions(device):
    x = cp.asarray(X)
    np.testing.assert_array_equal(cp.Pointwise("y0 = max(x0, x0);", preamble=OWN_MAX)(x).get(), 5)
    total = cp.Reduction("y0 = max(x0, x0);", preamble=OWN_MAX, **SUM)
    np.testing.assert_array_equal(total(x, axis=1).get(), 5 * 37)


def test_a_macro_is_called_as_a_local_of_the_engine(device):
    scan = cp.Scan(
        "y0 = x0 * line;", init="scan_y0 = 0;", step="scan_y0 += y0;", preamble="#define line 2"
    )
    expected = 2 * X.astype(np.float64).cumsum(1)
    np.testing.assert_allclose(scan(cp.asarray(X), axis=1).get(), expected, atol=1e-4)


def test_an_epilogue_has_locals_of_its_own(device):
    x = np.ones((1, 2, 5, 7), np.float32)
    y = ops.avg_pool2d(cp.asarray(x), 3, 1, epilogue="float sum = 2; y0 = y0 + sum;  // 3")
    np.testing.assert_allclose(y.get(), np.full((1, 2, 3, 5), 3), rtol=1e-6)


def test_an_array_without_dimensions_is_a_number(device):
    x = cp.asarray(X)
    two = np.array(2.0, np.float32)
    twice = cp.Pointwise("y0 = x0 * w0;")
    np.testing.assert_array_equal(twice(x, two).get(), 2 * X)
    wide = twice(x, np.array(2.0))  # its own dtype, as a NumPy scalar has
    assert wide.dtype == twice(x, np.float64(2)).dtype
    gradient = twice.gradient(wrt="x0")
    np.testing.assert_array_equal(gradient(x, two, grad=x).get(), 2 * X)
    sums = cp.Reduction("y0 = x0 * w0;", **SUM)
    np.testing.assert_allclose(sums(x, two, axis=0).get(), 2 * X.sum(0), atol=1e-4)
    with pytest.raises(cp.DTypeError, match="expected a number"):
        twice(x, np.array([2.0]))


@pytest.mark.parametrize("opened", ["(" * 300 + "1" + ")" * 300, "! " * 300 + "1"], ids=len)
def test_a_preamble_that_crashes_a_compiler_is_refused(opened):
    # Intel's compiler ended the process on thousands.
    message = refused("y0 = x0;", f"// first\nconstant float z = {opened};")
    assert "preamble, line 2: brackets and signs nest more than 255 deep" in message


@pytest.mark.parametrize("link", [" / x1 / x0", " * x1 * x0", " * -x1 * sin(x0)"])
def test_a_chain_is_derived_in_steps_in_proportion_to_its_length(device, link):
    # A thousand divisions took a minute: types, names and signs were looked for from the beginning,
    # each. Products of more than 120 factors of which some were equal were refused.
    x, steps = cp.zeros((8,)), []
    for factors in (20, 150, 300):
        text = "y0 = x0" + link * (factors // 2) + ";"
        lines = itertools.count()

        def count(frame, event, arg, lines=lines):
            next(lines)
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            cp.Pointwise(text).gradient().source(x, x, grad=x)
        finally:
            sys.settrace(before)
        steps.append(next(lines))
    assert steps[2] < 2.2 * steps[1]


def test_gradients_of_what_machines_write():
    text = "y0 = " + " + ".join(["x0"] * 5000) + ";"
    assert "5000" in str(cp.Pointwise(text).gradient())
    for text in (" && ".join(["x0"] * 3000), " , ".join(["x0 * x0"] * 3000)):
        with pytest.raises(DefinitionError, match="nested too deeply for a gradient"):
            str(cp.Pointwise(f"y0 = x0 * ({text});").gradient())
    by_hand = cp.Pointwise("y0 = x0;", gradient="int gx0_ = 1; gx0 = gy0 * gx0_;")
    assert "gx0_" in str(by_hand.gradient())
