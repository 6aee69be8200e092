"""Classes drawn with Gumbel noise: how often, and the gradient straight through."""

import numpy as np
import pytest
from support import same_bits

import clprim as cp
from clprim import ops


def test_classes_are_drawn_by_their_probabilities(device):
    chances = np.array([0.1, 0.2, 0.7], np.float32)
    logits = cp.asarray(np.tile(np.log(chances)[:, None], (2, 1, 20_000)))
    cp.random.seed(3)
    hard, soft = ops.gumbel_softmax(logits, 0.5, hard=True, dim=1, return_soft=True)
    drawn, likely = hard.get(), soft.get()
    assert {*np.unique(drawn)} == {0, 1} and (drawn.sum(1) == 1).all()
    np.testing.assert_array_equal(drawn.argmax(1), likely.argmax(1))
    np.testing.assert_allclose(likely.sum(1), 1, rtol=1e-5)
    # Four times the deviation of a share of 40,000 draws.
    assert (abs(drawn.mean((0, 2)) - chances) < 4 * 0.5 / 200).all()
    cp.random.seed(3)
    assert same_bits(ops.gumbel_softmax(logits, 0.5, axis=1), soft)


def test_the_gradient(double_device):
    """Against differences, with the same noise."""
    a = np.random.default_rng(0).standard_normal((4, 5))
    g = np.random.default_rng(1).standard_normal((4, 5))

    def loss(logits):
        cp.random.seed(5)
        return (ops.gumbel_softmax(cp.asarray(logits), 0.7).get() * g).sum()

    cp.random.seed(5)
    soft = ops.gumbel_softmax(cp.asarray(a), 0.7)
    found = ops.gumbel_softmax_backward(cp.asarray(g), soft, 0.7).get()
    for place in ((0, 0), (2, 3)):
        step = np.zeros_like(a)
        step[place] = 1e-5
        slope = (loss(a + step) - loss(a - step)) / 2e-5
        np.testing.assert_allclose(found[place], slope, rtol=1e-6)


def test_refusals(device):
    x = cp.zeros((2, 3))
    with pytest.raises(cp.ShapeError, match="tau=0"):
        ops.gumbel_softmax(x, 0)
    with pytest.raises(cp.ShapeError, match=r"gumbel_softmax: .*2"):
        ops.gumbel_softmax(x, dim=2)
    with pytest.raises(cp.DTypeError, match="int64"):
        ops.gumbel_softmax(x.astype(np.int64))
