"""Compiled functions: they equal the uncompiled call and launch less."""

import copy
import gc
import sys
import threading
import weakref

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def block(x, w1, b1, w2, b2):
    y = ops.relu(ops.conv2d(x, w1, b1, padding=1))
    return ops.relu(ops.conv2d(y, w2, b2, padding=1) + x)


BLOCK = (2, 8, 6, 7), (8, 8, 3, 3), (8,), (8, 8, 3, 3), (8,)


def launches(call):
    before = cp.stats().launches
    call()
    return cp.stats().launches - before


def test_a_block_equals_the_uncompiled_call():
    given = arrays(*BLOCK)
    compiled = cp.jit(block)
    for _ in range(3):
        equal(compiled(*given), block(*given).get())
    assert len(compiled.graph(*given).nodes) == 2
    assert launches(lambda: compiled(*given)) < launches(lambda: block(*given))


def test_constants_are_packed_once_and_frozen():
    x, *rest = arrays(*BLOCK)
    compiled = cp.jit(block, constants=("w1", "b1", "w2", "b2"))
    expected = block(x, *rest).get()
    equal(compiled(x, *rest), expected)
    rest[0][...] = 0
    equal(compiled(x, *rest), expected)
    assert launches(lambda: compiled(x, *rest)) == 2


def test_what_depends_on_constants_alone_runs_once():
    compiled = cp.jit(lambda x, w: x * ops.exp(w).sum(axis=0), constants="w")
    x, w = arrays((3, 4), (5, 4))
    equal(compiled(x, w), (x * ops.exp(w).sum(axis=0)).get())
    assert launches(lambda: compiled(x, w)) == 1


def test_a_chain_is_one_kernel():
    def chain(x, y):
        for _ in range(10):
            x = ops.tanh(x * 1.5 + y) - 0.25
        return x

    x, y = arrays((2, 5, 6), (5, 1))
    compiled = cp.jit(chain)
    equal(compiled(x, y), chain(x, y).get())
    assert launches(lambda: compiled(x, y)) == 1


def test_other_signatures_are_traced_anew():
    traced = []

    @cp.jit
    def double(x, factor):
        traced.append(x.shape)
        return x * factor

    (a,) = arrays((4, 6))
    for _ in range(2):
        for view in (np.s_[:], np.s_[1:], np.s_[:, ::2], np.s_[::-1]):
            equal(double(a[view], 2), 2 * a.get()[view])
        equal(double(a, 3), 3 * a.get())
        equal(double(a.astype("int32"), 2), 2 * a.get().astype(np.int32))
    assert len(traced) == 6


def test_results_keep_the_form_of_the_functions():
    def function(x, out):
        y = cp.zeros(x.shape)
        y[:, 1:3] = x[:, 1:3] * 2
        out[0] = np.arange(x.shape[1], dtype=np.float32)
        return {"a": y, "b": (x, y.T, 3, None), "c": [out, y[:, 1]]}

    x, first = arrays((4, 5), (4, 5))
    second = first.copy()
    found, expected = cp.jit(function)(x, first), function(x, second)
    equal(found["a"], expected["a"].get())
    assert found["b"][0] is x and found["b"][2:] == (3, None) and found["c"][0] is first
    equal(found["b"][1], expected["b"][1].get())
    equal(found["c"][1], expected["c"][1].get())
    equal(first, second.get())
    assert isinstance(found["c"], list)


def test_writes_in_place_are_seen_in_order():
    def function(x):
        y = x + 1
        a = y * 2
        y *= 3
        b = y + a
        y[0] = 0
        x -= 1
        return a, b, y, x * 1

    first, second = arrays((3, 4))[0], arrays((3, 4))[0]
    compiled = cp.jit(function)
    for _ in range(2):
        for found, expected in zip(compiled(first), function(second), strict=True):
            equal(found, expected.get())
        equal(first, second.get())


def test_arrays_that_are_no_arguments_are_read_anew():
    (w,) = arrays((3,))
    compiled = cp.jit(lambda x: x + w)
    (x,) = arrays((2, 3))
    equal(compiled(x), (x + w).get())
    w[...] = 7
    equal(compiled(x), x.get() + 7)


def test_arrays_that_were_traced_over_need_not_stay():
    x, other = arrays((300, 400), (300, 400))
    references = sys.getrefcount(x.base_data)
    compiled = cp.jit(lambda x: x + 1)
    compiled(x)
    compiled(other)
    gc.collect()
    left = sys.getrefcount(x.base_data)
    assert left == references


def test_arguments_that_share_memory_are_another_signature():
    def function(x, y):
        x += 1
        return y * 2

    compiled = cp.jit(function)
    a, b = arrays((3,), (3,))
    expected = b.get() * 2
    equal(compiled(a, b), expected)
    equal(compiled(b, b), expected + 2)


def test_random_numbers_are_drawn_as_ever():
    draw = cp.Pointwise("y0 = x0 + rand();")

    def function(x):
        return draw(draw(x)) * 2

    (x,) = arrays((50,))
    compiled = cp.jit(function)
    compiled(x)
    cp.random.seed(3)
    expected = [function(x).get() for _ in range(3)]
    cp.random.seed(3)
    for each in expected:
        equal(compiled(x), each)


def test_what_the_host_reads_ends_the_trace_with_its_line():
    @cp.jit
    def function(x):
        return x if x.sum() > 0 else -x

    (x,) = arrays((3,))
    with pytest.raises(cp.DefinitionError, match=r"function: a download, at .*test_jit.py:\d+"):
        function(x)
    equal(cp.jit(lambda x: x if float(x.sum()) > 1e9 else -x, fallback=True)(x), -x.get())


def test_errors_are_those_of_the_uncompiled_call():
    x, y = arrays((3,), (4,))
    compiled = cp.jit(lambda x, y: x + y)
    with pytest.raises(cp.ShapeError, match="do not broadcast"):
        compiled(x, y)
    with pytest.raises(cp.DTypeError, match="device arrays"):
        compiled(x, np.zeros(3))
    with pytest.raises(cp.DefinitionError, match="no such argument, but x, y"):
        cp.jit(lambda x, y: x, constants="z")
    with pytest.raises(cp.DefinitionError, match="expected a function"):
        cp.jit(3)


def test_two_threads_share_memory():
    given = arrays(*BLOCK)
    compiled = cp.jit(block)
    expected, wrong = block(*given).get(), []

    def work():
        wrong.extend(1 for _ in range(20) if not (compiled(*given).get() == expected).all())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_between_kernels_is_little_more_than_what_lives_at_once():
    @cp.jit
    def function(x, w):
        for _ in range(6):
            x = ops.softmax(ops.matmul(x, w), -1)
        return x

    x, w = arrays((64, 64), (64, 64))
    function(x, w)
    memory = function._compiled((x, w), {}).replay.allocations
    assert memory.live <= memory.nbytes <= 1.1 * memory.live


def test_a_profile_and_a_print_show_the_kernels():
    given = arrays(*BLOCK)
    compiled = cp.jit(block)
    compiled(*given)
    with cp.profile() as profile:
        compiled(*given)
    assert len(profile.events) == launches(lambda: compiled(*given))
    text = str(compiled.graph(*given))
    assert "def block(a0: float32[2, 8, 6, 7]" in text and "conv2d[padding=1, epilogue=" in text
    assert "in contractions" in compiled.explain(*given)


def test_optimizers_write_what_they_are_given():
    def step(w, g):
        y = w * 2
        ops.optim.sgd([w], [g], lr=0.5)
        return y + w

    w, g = arrays((3, 4), (3, 4))
    same = w.copy()
    compiled = cp.jit(step)
    for _ in range(2):
        equal(compiled(w, g), step(same, g).get())
        equal(w, same.get())


def test_keys_that_sorting_loses_are_not_read_again():
    def function(x):
        y = x * 3
        return ops.sort(y)[0], ops.topk(y, 2)[0], y

    (x,) = arrays((4, 300))
    for found, expected in zip(cp.jit(function)(x), function(x), strict=True):
        equal(found, expected.get())


def test_other_shapes_of_the_same_elements_are_joined():
    def function(x, w, b, r):
        y = ops.matmul(x.reshape(6, 8), w).reshape(2, 3, 5) + b
        return ops.relu(y * 2).reshape(6, 5) + r

    given = arrays((2, 3, 8), (8, 5), (5,), (6, 5))
    compiled = cp.jit(function)
    equal(compiled(*given), function(*given).get())
    assert len(compiled.graph(*given).nodes) == 1


def test_a_large_weight_is_packed_though_it_would_be_gathered():
    x, w = arrays((3, 64), (256, 64))
    compiled = cp.jit(ops.linear, constants="w")
    equal(compiled(x, w), ops.linear(x, w).get())
    assert launches(lambda: compiled(x, w)) == 1
    assert [*compiled.graph(x, w).nodes[0].kept] == ["w"]


def test_masks_that_depend_on_nothing_are_made_once_and_results_are_new():
    def function(x):
        mask = cp.zeros((4, 5))
        mask[1:3] = 1
        mask[:, 2:] = 2
        return x * mask, cp.zeros(3)

    (x,) = arrays((4, 5))
    compiled = cp.jit(function)
    for _ in range(2):
        product, zeros = compiled(x)
        equal(product, function(x)[0].get())
        equal(zeros, np.zeros(3))
        zeros += 1
    assert launches(lambda: compiled(x)) == 2


def test_an_axis_without_elements_is_reduced():
    compiled = cp.jit(lambda x: x.sum(axis=0) + 1)
    for _ in range(2):
        equal(compiled(cp.zeros((0, 3))), np.ones(3))


def test_results_are_not_kept_from_one_call_to_the_next():
    (x,) = arrays((4, 5))
    compiled = cp.jit(lambda x: x * 2)
    pool = cp.current_device().pool
    before = pool.active_blocks
    found = compiled(x)
    assert pool.active_blocks == before + 1
    del found
    assert pool.active_blocks == before


def test_constants_stay_frozen_where_a_call_runs_uncompiled():
    def function(x, w):
        return x * w if float(x.sum()) > 1e9 else x + w

    x, w = arrays((3,), (3,))
    compiled, expected = cp.jit(function, constants="w", fallback=True), x.get() + w.get()
    equal(compiled(x, w), expected)
    w[...] = 0
    equal(compiled(x, w), expected)
    with pytest.raises(cp.DefinitionError, match="constants=3: expected names"):
        cp.jit(function, constants=3)
    with pytest.raises(cp.ClprimError, match="fallback"):
        cp.jit(function, fallback="x")


def test_pictures_go_where_there_is_a_folder(tmp_path):
    compiled, x = cp.jit(ops.relu), cp.zeros(3)
    compiled.draw(tmp_path / "relu.svg", x)
    assert "<svg" in (tmp_path / "relu.svg").read_text()
    with pytest.raises(cp.DefinitionError, match="missing"):
        compiled.draw(tmp_path / "missing" / "relu.svg", x)


class Scaled:
    def __init__(self, weight):
        self.weight = weight

    @cp.jit(constants="bias")
    def run(self, x, bias):
        return ops.matmul(x, self.weight) + bias

    @cp.jit
    def __call__(self, x):
        return x * self.weight


def test_a_method_keeps_its_object():
    class Scale:
        def __init__(self, by):
            self.by = by

        @cp.jit
        def scaled(self, x):
            return x * self.by

    x = cp.asarray(np.float32([1, 2]))
    method = Scale(3).scaled
    equal(method(x), np.float32([3, 6]))
    equal(Scale(4).scaled(x), np.float32([4, 8]))


def test_methods_are_compiled_for_every_object():
    x, bias = cp.asarray(np.eye(3, dtype=np.float32)), cp.full(3, 1.0)
    nets = [Scaled(cp.asarray(numbers((3, 3), seed=n).astype(np.float32))) for n in range(2)]
    for net in nets:
        for _ in range(2):
            equal(net.run(x, bias), net.weight.get() + 1)
            equal(net.run(x, bias=bias), net.weight.get() + 1)
            equal(net(x), np.eye(3) * net.weight.get())
        assert net.run._known is net.run._known  # nothing is traced anew
        assert "matmul" in net.run.explain(x, bias)
    copied = copy.deepcopy(nets[0])
    copied.weight = nets[1].weight
    equal(copied(x), np.eye(3) * nets[1].weight.get())
    gone = weakref.ref(nets.pop(0))
    del net
    gc.collect()
    assert gone() is None
