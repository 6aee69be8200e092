"""Operators of several kernels, launched again: the same results, checks and launches."""

import gc
import threading

import numpy as np
import pytest
from support import aligned, equal, numbers

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.graph.repeat import repeatable
from clprim.runtime import tracing

pytestmark = pytest.mark.usefixtures("device")

DOUBLE = cp.Pointwise("y0 = 2 * x0;")
SCALE = cp.Pointwise("y0 = w0 * x0;")
ADD = cp.Pointwise("y0 = x0 + x1;")


class Counted:
    """A repeatable operator, and how often its Python ran."""

    def __init__(self, function):
        self.ran = 0

        def run(*args, **options):
            self.ran += 1
            return function(*args, **options)

        self.call = repeatable(run)

    def __call__(self, *args, **options):
        return self.call(*args, **options)


def four_times(x, out=None):
    return DOUBLE(DOUBLE(x), out=out)


def test_a_second_call_launches_the_same():
    operator = Counted(four_times)
    for seed in range(3):
        a = numbers((3, 5), seed=seed)
        before = cp.stats().launches
        equal(operator(cp.asarray(a)), 4 * a)
        assert cp.stats().launches - before == 2
    assert operator.ran == 1


def test_shapes_strides_and_dtypes_are_other_calls():
    operator = Counted(four_times)
    a = numbers((4, 6))
    views = [np.s_[:], np.s_[1:], np.s_[:, ::2], np.s_[1:, ::2], np.s_[::-1]]
    for _ in range(2):
        for view in views:
            equal(operator(cp.asarray(a)[view]), 4 * a[view])
        equal(operator(cp.asarray(a).T), 4 * a.T)
        equal(operator(cp.asarray(a.astype(np.int32))), 4 * a.astype(np.int32))
    assert operator.ran == len(views) + 2


def test_numbers_are_other_calls():
    operator = Counted(lambda x, w: DOUBLE(SCALE(x, w)))
    a = np.float32([1, 2])
    x = cp.asarray(a)
    for _ in range(2):
        for w in (3.0, 0.0, -0.0, np.float32(3), 3, True):
            found = operator(x, w)
            equal(found, 2 * a * np.float32(w))
            assert (np.signbit(found.get()) == np.signbit(a * np.float32(w))).all()
        assert np.isnan(operator(x, float("nan")).get()).all()
    assert operator.ran == 7


def test_results_may_be_arguments_views_or_nothing():
    def function(x, out):
        found = DOUBLE(x)
        ADD(found, x, out=out)
        return found[1:], out, None

    operator = Counted(function)
    for seed in range(2):
        a = numbers((3, 4), seed=seed)
        out = cp.empty((3, 4))
        part, same, nothing = operator(cp.asarray(a), out)
        assert same is out
        assert nothing is None
        equal(part, 2 * a[1:])
        equal(out, 3 * a)
    assert operator.ran == 1


def test_arrays_that_share_memory_are_another_call():
    def function(x, y, out):
        return ADD(DOUBLE(x), y, out=out)

    operator = Counted(function)
    a, b = numbers(7), numbers(7, seed=1)
    for _ in range(2):
        x, y, out = cp.asarray(a), cp.asarray(b), cp.empty(7)
        equal(operator(x, y, out), 2 * a + b)
        equal(operator(x, x, out), 3 * a)
        equal(operator(x, y, y), 2 * a + b)
        y = cp.asarray(b)
        equal(operator(y, x, out), 2 * b + a)
        equal(operator(x, y, x), 2 * a + b)
    assert operator.ran == 4


def test_what_the_host_writes_or_reads_is_not_repeated():
    added = [0.0]
    upload = Counted(lambda x: ADD(x, cp.asarray(np.float32(added[0]))))
    download = Counted(lambda x: SCALE(x, float(x.get()[0])))
    for seed in range(3):
        a, added[0] = numbers(4, seed=seed), 3.0 - seed
        equal(upload(cp.asarray(a)), a + 3 - seed)
        equal(download(cp.asarray(a)), a * a[0])
    assert upload.ran == download.ran == 4  # once in vain, for a trace


def test_what_no_kernel_wrote_is_not_repeated():
    kept = []

    def function(x):
        kept.append(cp.full(4, float(len(kept))) if tracing.active.now is None else kept[0])
        return ADD(x, kept[-1])

    kept.append(cp.full(4, 5.0))
    operator = Counted(function)
    x = cp.zeros(4)
    equal(operator(x), np.full(4, 2))
    equal(operator(x), np.full(4, 3))
    assert operator.ran == 3


def test_errors_are_found_in_every_call():
    x, w = cp.asarray(numbers((2, 3, 4, 4))), cp.full(3, 1.0)
    for _ in range(2):
        ops.batch_norm_train(x, w)
        with pytest.raises(cp.ShapeError, match="weight"):
            ops.batch_norm_train(x, cp.full(4, 1.0))
        with pytest.raises(cp.ClprimError):
            ops.batch_norm_train(x, w, eps="small")
        with pytest.raises(cp.ClprimError):
            ops.batch_norm_train(numbers((2, 3, 4, 4)), w)
    failing = Counted(lambda x: ADD(DOUBLE(x), x[:1].reshape(1, 1, 1)) if x.size > 3 else ADD(x))
    for _ in range(2):
        with pytest.raises(cp.ShapeError):
            failing(cp.zeros(3))
    assert failing.ran == 2
    assert tracing.active.now is None


def test_one_within_another_is_a_part_of_it():
    inner = Counted(four_times)
    outer = Counted(lambda x: inner(inner(x)))
    a = numbers(5)
    for _ in range(3):
        equal(outer(cp.asarray(a)), 16 * a)
    assert (outer.ran, inner.ran) == (1, 2)


def test_empty_arrays():
    operator = Counted(four_times)
    for _ in range(2):
        equal(operator(cp.zeros((0, 3))), np.zeros((0, 3)))
    assert operator.ran == 2


def test_memory_of_the_host(device):
    if device.type != "cpu":
        pytest.skip("this device has memory of its own")
    operator = Counted(lambda x, out: ADD(DOUBLE(x), x, out=out))
    host = aligned((4, 6))
    for seed in range(3):
        host[...] = a = numbers((4, 6), seed=seed)
        x = cp.asarray(host, copy=False)
        equal(operator(x, cp.empty((4, 6))), 3 * a)
        operator(x, x)
        cp.synchronize()
        assert (host == 3 * a).all()
    assert operator.ran == 2


def test_nothing_is_kept_alive():
    operator = Counted(four_times)
    operator(cp.zeros(100_000))
    pool = cp.current_device().pool
    active = pool.active_bytes
    operator(cp.zeros(100_000))
    assert pool.active_bytes == active


def test_profiles_time_repeated_calls():
    x = cp.asarray(numbers((4, 3, 5, 5)), memory_format="channels_last")
    found = []
    for _ in range(2):
        with cp.profile() as timed:
            ops.batch_norm_train(x)
        found.append([event.name for event in timed.events])
    assert found[0] == found[1]
    assert len(found[0]) > 1


def test_threads():
    operator = Counted(four_times)
    wrong = []

    def work(seed):
        a = numbers((50, 3), seed=seed)
        found = [operator(cp.asarray(a)).get() for _ in range(20)]
        wrong.extend(f for f in found if not np.array_equal(f, 4 * a))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_forgotten_is_done_anew():
    operator = Counted(four_times)
    x = cp.zeros(3)
    operator(x)
    Calls.forget()
    operator(x)
    assert operator.ran == 2


@pytest.mark.parametrize("form", [tuple, list, lambda made: {"sum": made[0], "rest": [made[1]]}])
@pytest.mark.parametrize("how", [cp.jit, repeatable])
def test_results_are_freed_with_their_last_name(how, form):
    """A circle among a call's own objects would hold the memory until garbage is collected."""
    function = how(lambda x: form([ADD(x, DOUBLE(x)), DOUBLE(DOUBLE(x))]))
    x = cp.asarray(numbers((5, 7)))
    for _ in range(2):
        function(x)
    gc.collect()
    gc.disable()
    try:
        blocks = cp.current_device().pool.active_blocks
        for _ in range(3):
            function(x)
        assert cp.current_device().pool.active_blocks == blocks
    finally:
        gc.enable()
