"""Compiled functions are pickled by what they are made of, and traced anew where they run."""

import copy
import functools
import multiprocessing
import pickle

import numpy as np
import pytest

import clprim as cp


def square(x):
    return x * x


@cp.jit
def decorated(x):
    return x + 1


def loss(w, x):
    return ((w * x) ** 2).sum()


@functools.partial(cp.value_and_grad, wrt="w")
def slope(w, x):
    return (w * x).sum()


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    @cp.jit
    def times(self, x):
        return x * self.scale


def results(function):
    """What a function makes of an array, on the host."""
    found = function(cp.asarray(np.float32([1, 2, 3])))
    return found.get()


@pytest.mark.parametrize("copied", [lambda f: pickle.loads(pickle.dumps(f)), copy.deepcopy])
def test_copies_compute_the_same(device, copied):
    x = cp.asarray(np.float32([1, 2, 3]))
    for function in (cp.jit(square), decorated, Scaled(3.0).times, cp.jit(cp.jit(square))):
        function(x)
        again = copied(function)
        np.testing.assert_array_equal(again(x).get(), function(x).get())
        assert repr(again) == repr(function)
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    w = cp.asarray(np.float32([2, 0, 1]))
    for function in (cp.value_and_grad(loss, wrt=("w", "x")), cp.value_and_grad(loss), slope):
        value, grads = function(w, x)
        same, others = copied(function)(w, x)
        assert value.item() == same.item()
        for g, h in zip(
            *(v if isinstance(v, tuple) else (v,) for v in (grads, others)), strict=True
        ):
            np.testing.assert_array_equal(g.get(), h.get())


def test_options_stay(device):
    frozen = pickle.loads(pickle.dumps(cp.jit(loss, constants=("w",))))
    x, w = cp.ones((3,)), cp.full((3,), 2.0)
    assert frozen(w, x).item() == 12
    w.fill(0)
    assert frozen(w, x).item() == 12


def test_what_cannot_be_pickled_says_so():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(cp.jit(lambda x: x))


@pytest.mark.alone
def test_another_process_takes_one(device):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for function in (cp.jit(square), decorated):
            found = pool.apply(results, (function,))
            np.testing.assert_array_equal(found, results(function))
