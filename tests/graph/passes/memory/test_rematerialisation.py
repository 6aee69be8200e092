"""Values run again where memory has a budget: the same bits, fewer bytes at once."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def planned(function, given):
    """Returns what a compiled function runs, and its value and gradients."""
    compiled = function._compiled(given, {})
    value, grads = function(*given)
    return compiled.replay, [value, *grads]


def check(loss, given, wrt, part):
    """Compares gradients without a budget with those of a part of the memory."""
    free, wanted = planned(cp.value_and_grad(loss, wrt), given)
    budget = int(part * free.allocations.nbytes)
    held, found = planned(cp.value_and_grad(loss, wrt, memory=budget), given)
    for a, b in zip(found, wanted, strict=True):
        equal(a, b.get())
    return free, held, budget


def chain(x, w):
    """Layers whose every value is read again by its gradient."""
    for _ in range(16):
        x = ops.softmax(ops.matmul(x, w), -1) * 3
    return (x * x).sum()


CHAIN = (64, 32), (32, 32)


def test_a_chain_fits_into_half_of_its_memory():
    free, held, budget = check(chain, arrays(*CHAIN), (0, 1), 0.5)
    assert held.allocations.nbytes <= budget
    again = len(held.steps) - len(free.steps)
    assert 0 < again <= len(free.steps) / 2
    (note,) = [n for n in held.graph.notes if n.startswith("rematerialisation")]
    assert "nodes run again" in note


def test_values_that_are_kept_lie_apart():
    free, held, _ = check(chain, arrays(*CHAIN), (0, 1), 0.01)
    assert held.allocations.nbytes < 0.6 * free.allocations.nbytes
    assert len(held.steps) < 3 * len(free.steps)


def test_what_fits_stays():
    free, held, _ = check(chain, arrays(*CHAIN), (0, 1), 1.0)
    assert len(held.steps) == len(free.steps)


def test_residuals_norms_and_a_step_of_an_optimizer():
    def loss(w, gamma, x):
        running = cp.zeros(4), cp.ones(4)
        for _ in range(5):
            y, *_ = ops.batch_norm_train(ops.conv2d(x, w, padding=1), gamma, gamma, *running)
            x = ops.relu(y) + x
        return ops.mean(x * x)

    def trained(memory):
        def step(w, gamma, x):
            value, grads = cp.value_and_grad(loss, (0, 1), memory=memory)(w, gamma, x)
            ops.optim.sgd([w, gamma], [*grads], lr=0.1)
            return value

        compiled, given = cp.jit(step), arrays((4, 4, 3, 3), (4,), (2, 4, 6, 8))
        values = [compiled(*given).get() for _ in range(3)]
        replay = compiled._compiled(given, {}).replay
        return replay.allocations, [*values, *(a.get() for a in given)]

    free, wanted = trained(None)
    held, found = trained(int(0.8 * free.nbytes))
    assert held.nbytes <= 0.85 * free.nbytes  # nearly: with other vectors there are other gaps
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_draws_and_what_is_overwritten_run_once():
    def loss(x, w):
        y = ops.softmax(ops.dropout(ops.matmul(x, w), 0.5), -1)
        z = ops.exp(y)
        for _ in range(4):
            z = ops.softmax(ops.matmul(z, w), -1)
        w *= 2
        return (ops.matmul(z, w) * y).sum()

    def run(memory):
        cp.random.seed(3)
        given = arrays((16, 32), (32, 32))
        function = cp.value_and_grad(loss, (0, 1), memory=memory)
        value, grads = function(*given)
        return function, [value, *grads, given[1]]

    function, wanted = run(None)
    assert function is not None
    _, found = run(1)
    for a, b in zip(found, wanted, strict=True):
        equal(a, b.get())


@pytest.mark.parametrize("memory", [0, -1, 1.5, "1 GB"])
def test_a_budget_is_a_number_of_bytes(memory):
    with pytest.raises(cp.DefinitionError, match="expected a number of bytes, or None"):
        cp.value_and_grad(lambda x: x.sum(), 0, memory=memory)
