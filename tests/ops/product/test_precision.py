"""The word for the precision of float32's products reaches what is planned, wherever it is said."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.primitives.product import ContractionPrimitive

WORDS = ("highest", "high", "medium")


@pytest.fixture
def told(device, monkeypatch):
    """What products are planned with."""
    found, plan = [], ContractionPrimitive.plan

    def noting(self, problem, *args):
        found.extend(p.precision for p in problem.problems)
        return plan(self, problem, *args)

    monkeypatch.setattr(ContractionPrimitive, "plan", noting)
    return found


def arrays(*shapes):
    return [cp.asarray(np.ones(shape, np.float32)) for shape in shapes]


def test_products_and_convolutions(told):
    a, b, x, w = arrays((4, 9), (9, 7), (1, 2, 5, 11), (3, 2, 3, 3))
    for word in (*WORDS, *WORDS):
        with cp.options(matmul_precision=word):
            np.testing.assert_array_equal(ops.matmul(a, b).get(), 9)
            ops.conv2d(x, w)
            ops.conv2d_weight(x, w.shape, cp.asarray(np.ones((1, 3, 3, 9), np.float32)))
    assert {*told} == {*WORDS}
    assert len(told) == 9  # once each, the second time from what is kept


def test_a_compiled_function_follows_it(told):
    a, b = arrays((4, 13), (13, 7))
    f = cp.jit(lambda a, b: ops.matmul(a, b) + 1)
    for word in (*WORDS, *WORDS):
        with cp.options(matmul_precision=word):
            begun = len(told)
            np.testing.assert_array_equal(f(a, b).get(), 14)
            assert {*told[begun:]} <= {word}
    assert {*told} == {*WORDS}


@pytest.mark.parametrize("compiled", [False, True])
def test_pytorchs_word_decides_on_its_device(told, compiled):
    torch = pytest.importorskip("torch")
    import clprim.torch  # noqa: F401

    x = torch.ones((3, 17), device="opencl")
    image = torch.ones((1, 17, 1, 3), device="opencl")
    weight = torch.ones((5, 17, 1, 1), device="opencl")

    def f(x, image):
        return x @ x.T + 1, torch.nn.functional.conv2d(image, weight) + 1

    run = torch.compile(f, backend="clprim") if compiled else f
    before = torch.get_float32_matmul_precision()
    try:
        for word in (*WORDS, *WORDS):
            torch.set_float32_matmul_precision(word)
            begun = len(told)
            with cp.options(matmul_precision="highest"):
                for found in run(x, image):
                    assert (found.cpu() == 18).all()
            assert {*told[begun:]} <= {word}
        assert {*told} == {*WORDS}
    finally:
        torch.set_float32_matmul_precision(before)
