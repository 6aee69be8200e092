"""Several threads on one operator: right results, one compilation, no mixed-up arguments."""

import threading

import numpy as np
from support import equal, numbers

import clprim as cp
from clprim.runtime.stats import stats

THREADS = 4


def together(work):
    """Runs ``work(number)`` in threads that start at once; returns their results."""
    gate = threading.Barrier(THREADS)
    results, errors = [None] * THREADS, []

    def run(number):
        gate.wait()
        try:
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_one_kernel_with_many_arguments(device):
    scale = cp.Pointwise("y0 = x0 * w0 + x1;")
    a, b = numbers(5000, seed=1), numbers(5000, seed=2)
    x, y = cp.asarray(a), cp.asarray(b)
    scale(x, y, 1.0)

    def work(number):
        found = []
        for k in range(50):
            w = float(number * 100 + k)
            found.append((w, scale(x, y, w)))
        return found

    for found in together(work):
        for w, result in found:
            equal(result, a * np.float32(w) + b)


def test_reductions_with_a_workspace_each(device):
    total = cp.Reduction("y0 = x0 * w0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    a = numbers((2, 300_000))
    x = cp.asarray(a)
    sums = a.astype(np.float64).sum(1)

    def work(number):
        return [(w, total(x, float(w), axis=1)) for w in range(number, number + 20)]

    for found in together(work):
        for w, result in found:
            equal(result, sums * w)


def test_the_first_calls_compile_once(device):
    fresh = cp.Pointwise("y0 = x0 * 12345;  // nobody has compiled this")
    arrays = [numbers(100 + n, seed=n) for n in range(THREADS)]
    uploaded = [cp.asarray(a) for a in arrays]
    before = stats()
    results = together(lambda number: fresh(uploaded[number]))
    now = stats() - before
    assert now.builds + now.disk_hits <= 1
    for a, result in zip(arrays, results, strict=True):
        equal(result, a * 12345)


def test_different_operators_at_once(device):
    operators = [cp.Pointwise(f"y0 = x0 * {n + 2}; // threads") for n in range(THREADS)]
    a = numbers((30, 40))
    x = cp.asarray(a)
    results = together(lambda number: [operators[(number + k) % THREADS](x) for k in range(8)])
    for number, found in enumerate(results):
        for k, result in enumerate(found):
            equal(result, a * ((number + k) % THREADS + 2))


def test_arrays_are_made_and_read_at_once(device):
    def work(number):
        found = []
        for k in range(10):
            a = numbers((20, 30), seed=number * 10 + k)
            x = cp.asarray(a)
            found.append((a, (x[::2].T + x[1::2].T).get()))
        return found

    for found in together(work):
        for a, result in found:
            np.testing.assert_array_equal(result, a[::2].T + a[1::2].T)


def chains(x, a):
    """Chains of kernels of which each reads what the one before wrote, and their results."""
    inc, double = cp.Pointwise("y0 = x0 + 1;"), cp.Pointwise("y0 = x0 * 2 + x1;")
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")

    def run(length):
        y = x
        for _ in range(length):
            y = double(inc(y), x)
        return total(y, axis=0)

    expected = {}
    exact = a.astype(np.float64)
    for length in range(1, 7):
        exact = (exact + 1) * 2 + a
        expected[length] = exact.sum(0)
        equal(run(length), expected[length])
    return run, expected


def test_a_profile_in_one_thread_does_not_disturb_chains_in_others(device):
    a = numbers((32, 1000))
    run, expected = chains(cp.asarray(a), a)
    queue = device.queue

    def work(number):
        for k in range(60):
            length = 1 + (k + number) % 6
            if (k + number) % 3:
                result = run(length)
            else:
                with cp.profile() as p:
                    result = run(length)
                assert len(p.events) >= 2 * length + 1
            equal(result, expected[length])

    together(work)
    assert device.queue is queue
    assert device.profiles == ()


def test_a_queue_is_replaced_after_what_it_was_given(device):
    slow = cp.Pointwise(
        "float a = x0; for (int i = 0; i < 20000; ++i) a = a * 0.5f + 0.5f; y0 = a;"
    )
    fast = cp.Pointwise("y0 = x0 + 1;")
    x = cp.full(1 << 14, 3.0)
    fast(slow(x))
    y, z = slow(x), cp.empty(1 << 14)
    with cp.profile() as p:
        fast(y, out=z)  # of a profile's queue, which must not start before the other's work ends
    equal(z, np.full(1 << 14, 2.0))
    assert len(p.events) == 1


def test_devices_in_turn(device):
    a = numbers((32, 1000))
    runs = []
    for each in [found for found in cp.devices() if found.compiles][:2]:
        cp.set_device(each)
        runs.append((each, *chains(cp.asarray(a), a)))
    stop = threading.Event()

    def work(number):
        if number == 0:
            for k in range(300):
                cp.set_device(runs[k % len(runs)][0])
            stop.set()
            return 1
        right, k = 0, 0
        while not stop.is_set():
            k += 1
            _, run, expected = runs[(k + number) % len(runs)]
            try:
                result = run(1 + k % 6)
            except cp.DeviceError as error:  # of another device than the current one: refused
                assert "another OpenCL context" in str(error)
            else:
                equal(result, expected[1 + k % 6])
                right += 1
        return right

    together(work)
