import dataclasses

import numpy as np
import pyopencl as cl
import pytest

from clprim.errors import DeviceError
from clprim.runtime.device import set_device
from clprim.runtime.profile import KernelEvent, Profile, profile

SIZE = 1 << 12
SOURCE = """
__kernel void fill(__global float* y) { y[get_global_id(0)] = 1; }
__kernel void spin(__global float* y)
{
    float a = y[get_global_id(0)];
    for (int i = 0; i < 500; i++)
        a = a * 0.999f + 1;
    y[get_global_id(0)] = a;
}
"""


@pytest.fixture
def launch(device):
    """Launches a kernel by name, the way launch code has to."""
    raw = cl._cl._Program(device.context, SOURCE)
    raw._build(options=b"", devices=[device.cl])
    memory = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 4 * SIZE)

    def go(name, nbytes=4 * SIZE, flops=0):
        kernel = cl.Kernel(cl.Program(raw), name)
        kernel.set_args(memory)
        event = cl.enqueue_nd_range_kernel(device.queue, kernel, (SIZE,), None)
        for running in device.profiles:
            running.record(name, event, nbytes, flops)
        return event

    go.memory = memory
    return go


def test_kernels_are_timed_in_order(device, launch):
    launch("fill")
    with profile(device) as p:
        launch("fill")
        launch("spin", 8 * SIZE, 1000 * SIZE)
        launch("fill", 0)
    launch("fill")
    assert [event.name for event in p.events] == ["fill", "spin", "fill"]
    fill, spin, last = p.events
    if spin.seconds <= 1e-9:
        pytest.skip("this device's clock stands")
    assert fill.start == 0 < spin.start < last.start
    assert all(0 <= event.seconds < 10 for event in p.events)
    assert spin.seconds > 0
    assert (spin.bytes, spin.flops) == (8 * SIZE, 1000 * SIZE)
    assert spin.gflops == pytest.approx(1000 * SIZE / spin.seconds / 1e9)
    assert spin.gb_per_s == pytest.approx(8 * SIZE / spin.seconds / 1e9)
    assert last.gb_per_s == 0
    assert p.seconds == pytest.approx(sum(event.seconds for event in p.events))
    with pytest.raises(dataclasses.FrozenInstanceError):
        fill.seconds = 0


def test_rates_are_safe_where_no_time_was_measured():
    event = KernelEvent("k", 0.0, 100, 100, 0.0)
    assert (event.gb_per_s, event.gflops) == (0.0, 0.0)


def test_the_queue_is_swapped_and_restored(device, launch):
    queue, count = device.queue, len(device.queues)
    assert not queue.properties & cl.command_queue_properties.PROFILING_ENABLE
    with profile(device):
        first = device.queue
        assert first.properties & cl.command_queue_properties.PROFILING_ENABLE
        assert first.context == device.context
        assert len(device.profiles) == 1
    assert device.queue is queue
    assert device.profiles == ()
    with profile(device):
        assert device.queue is first
    assert len(device.queues) <= count + 1
    assert first in device.queues


def test_an_exception_restores_everything(device, launch):
    queue = device.queue
    p = profile(device)
    with pytest.raises(KeyError), p:
        launch("fill")
        raise KeyError
    assert device.queue is queue
    assert device.profiles == ()
    assert len(p.events) == 1


def test_results_are_complete_after_the_block(device, launch):
    launch("spin")
    with profile(device):
        launch("fill")
    result = np.zeros(SIZE, np.float32)
    cl.enqueue_copy(device.queue, result, launch.memory)
    np.testing.assert_array_equal(result, 1)


def test_events_may_be_read_inside(device, launch):
    with profile(device) as p:
        assert p.events == []
        launch("fill")
        assert len(p.events) == 1
        launch("spin")
        assert len(p.events) == 2
        assert p.events[0].start == 0
    assert len(p.events) == 2


def test_nested_blocks_both_count(device, launch):
    queue = device.queue
    with profile(device) as outer:
        launch("fill")
        with profile(device) as inner:
            launch("spin")
        assert device.profiles == (outer,)
        launch("fill")
    assert device.queue is queue
    assert [event.name for event in inner.events] == ["spin"]
    assert [event.name for event in outer.events] == ["fill", "spin", "fill"]
    assert inner.events[0].seconds == outer.events[1].seconds


def test_blocks_that_overlap_restore_the_queue(device, launch):
    # As those of two threads may: the one that began first ends first.
    queue = device.queue
    first, second = profile(device), profile(device)
    first.__enter__()
    launch("fill")
    second.__enter__()
    launch("spin")
    first.__exit__(None, None, None)
    assert device.queue is not queue
    launch("fill")
    second.__exit__(None, None, None)
    assert device.queue is queue
    assert device.profiles == ()
    assert [event.name for event in first.events] == ["fill", "spin"]
    assert [event.name for event in second.events] == ["spin", "fill"]


def test_one_profile_cannot_run_within_itself(device):
    queue = device.queue
    p = profile(device)
    with p:
        with pytest.raises(DeviceError, match="running already"), p:
            pass
        assert device.profiles == (p,)
    assert device.queue is queue
    assert device.profiles == ()


def test_a_profile_may_run_again(device, launch):
    p = profile(device)
    for name in "fill", "spin":
        with p:
            launch(name)
        assert [event.name for event in p.events] == [name]


def test_launches_that_nobody_measured_are_left_out(device, launch):
    unmeasured = launch("fill")
    unmeasured.wait()
    try:
        _ = unmeasured.profile.start
    except cl.Error:
        pass
    else:
        pytest.skip("this device measures on every queue")
    with profile(device) as p:
        p.record("of another device", unmeasured)
        launch("spin")
    assert [event.name for event in p.events] == ["spin"]


def test_the_table_adds_up(device):
    p = Profile(device)
    p._events = [
        KernelEvent("scale", 0.001, 2_000_000, 1_000_000, 0.0),
        KernelEvent("sum", 0.004, 40_000_000, 0, 0.001),
        KernelEvent("scale", 0.003, 2_000_000, 3_000_000, 0.005),
        KernelEvent("noop", 0.0, 0, 0, 0.008),
    ]
    assert p.table().split("\n") == [
        "kernel  calls  total ms  mean µs  GB/s  GFLOP/s   share",
        "------  -----  --------  -------  ----  -------  ------",
        "scale       2     4.000   2000.0   1.0      1.0   50.0%",
        "sum         1     4.000   4000.0  10.0        -   50.0%",
        "noop        1     0.000      0.0     -        -    0.0%",
        "------  -----  --------  -------  ----  -------  ------",
        "total       4     8.000   2000.0   5.5      0.5  100.0%",
    ]
    assert str(p) == p.table()


def test_an_empty_table_is_a_table(device):
    with profile(device) as p:
        pass
    assert p.table().split("\n")[-1].split() == ["total", "0", "0.000", "-", "-", "-", "-"]
    assert p.seconds == 0


def test_the_current_device_by_default(device, monkeypatch):
    import clprim.runtime.device as device_module

    monkeypatch.setattr(device_module, "_current", None)
    set_device(device)
    with profile() as p:
        assert device.queue in device.queues[1:]
    assert p.events == []
