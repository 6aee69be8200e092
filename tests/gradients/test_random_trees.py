"""Gradients of random expressions against PyTorch's, which runs the same tree, and differences."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clprim as cp

torch = pytest.importorskip("torch")

UNARY = {
    "exp(-({0}) * ({0}))": lambda a: torch.exp(-a * a),
    "tanh({0})": torch.tanh,
    "sin({0})": torch.sin,
    "log1p(({0}) * ({0}))": lambda a: torch.log1p(a * a),
    "sqrt(({0}) * ({0}) + 1)": lambda a: torch.sqrt(a * a + 1),
    "1 / (1 + exp(-({0})))": torch.sigmoid,
    "pow({0}, 3) / 8": lambda a: a**3 / 8,
    "erf({0})": torch.erf,
    "-({0})": lambda a: -a,
}
BINARY = {
    "({0} + {1})": lambda a, b: a + b,
    "({0} - {1})": lambda a, b: a - b,
    "({0}) * ({1})": lambda a, b: a * b,
    "({0}) / (1 + ({1}) * ({1}))": lambda a, b: a / (1 + b * b),
    "max({0}, {1})": torch.maximum,
    "min({0}, {1})": torch.minimum,
    "atan2({0}, 2 + ({1}) * ({1}))": lambda a, b: torch.atan2(a, 2 + b * b),
    "(({0}) > 0 ? ({1}) : ({0}))": lambda a, b: torch.where(a > 0, b, a),
}
LEAVES = {"x0": 0, "x1": 1, "x2": 2}


def trees():
    leaf = st.sampled_from([(name, lambda *x, n=n: x[n]) for name, n in LEAVES.items()])
    number = st.sampled_from([0.5, 1.25, 2.0, 3.0]).map(
        lambda v: (repr(v), lambda *x: torch.full_like(x[0], v))
    )

    def grown(inner):
        def unary(pair):
            (text, f), (part, value) = pair
            return text.format(part), lambda *x: f(value(*x))

        def binary(triple):
            (text, f), (p, a), (q, b) = triple
            return text.format(p, q), lambda *x: f(a(*x), b(*x))

        ones = st.sampled_from(sorted(UNARY.items(), key=str))
        twos = st.sampled_from(sorted(BINARY.items(), key=str))
        return st.tuples(ones, inner).map(unary) | st.tuples(twos, inner, inner).map(binary)

    return st.recursive(leaf | number, grown, max_leaves=8)


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(forest=st.lists(trees(), min_size=10, max_size=10))
def test_random_trees(double_device, forest):
    # Ten trees of arrays of their own are one kernel.
    rng = np.random.default_rng(1)
    data = rng.normal(0, 1, (3, 16))
    text = ["(void)x0; (void)x1; (void)x2;"]
    for n, (tree, _) in enumerate(forest):
        moved = re.sub(r"\bx(\d)", lambda m, n=n: f"x{3 * n + int(m[1])}", tree)
        names = "".join(f"(void)x{3 * n + k};" for k in range(3))
        text.append(f"{names} y{n} = {moved};")
    arrays = [cp.asarray(data[k % 3]) for k in range(3 * len(forest))]
    operator = cp.Pointwise("\n".join(text))
    gradient = operator.gradient()
    # Central differences, of a few elements: all trees at once.
    cp.check_gradient(operator, *(a[:3] for a in arrays), gradient=gradient)
    found = gradient(*arrays, grad=(1.5,) * len(forest))
    for n, (tree, value) in enumerate(forest):
        xs = [torch.tensor(d, requires_grad=True) for d in data]
        result = value(*xs)
        if not result.requires_grad:
            continue
        grads = torch.autograd.grad(result, xs, torch.full((16,), 1.5).double(), allow_unused=True)
        for k, grad in enumerate(grads):
            expected = np.zeros(16) if grad is None else grad.numpy()
            got = found[3 * n + k].get()
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9, err_msg=f"{tree} {k}")
