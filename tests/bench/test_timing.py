"""Turns are fair and ratios are taken within a round."""

import gc
import time

import numpy as np
import pytest

import clprim as cp
from bench import timing
from bench.timing import (
    Contender,
    Gauge,
    Result,
    Sample,
    batch,
    calm_race,
    host_call,
    measured_call,
    race,
    ratio,
    spread,
    stream,
)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(timing, "SETTLE", 0)


def test_contenders_take_turns():
    order, ticks, befores = [], [], []

    def contender(name):
        def run():
            order.append(name)
            assert not gc.isenabled()
            return Sample(float(len(order)))

        return Contender(name, 1, run)

    results = race(
        [contender(n) for n in "abc"],
        3,
        before=lambda: befores.append(len(order)),
        tick=lambda: ticks.append(1),
    )
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert results["a"].seconds("host") == [4, 9, 11]  # without the first run
    assert befores == list(range(3, 12))
    assert len(ticks) == 3
    assert gc.isenabled()


def test_ratio_pairs_rounds():
    slow_machine = [1, 1, 10]  # the third round was slow for everyone
    one = Result("one", 4, tuple(Sample(2 * s, s) for s in slow_machine))
    other = Result("other", 2, tuple(Sample(s, 2 * s) for s in slow_machine))
    assert ratio(one, other, "host") == (1, 1, 1)
    assert ratio(one, other, "device") == (4, 4, 4)
    assert one.rate("device") == 4
    assert one.rate("host") == 2


def test_what_the_device_did_not_time():
    with pytest.raises(ValueError, match="x was not timed by the device"):
        Result("x", 1, (Sample(1.0),)).rate("device")


def test_spread():
    assert spread([5]) == (5, 5, 5)
    assert spread([1, 2, 3, 4, 5]) == (3, 2, 4)


def test_a_batch_is_timed_by_the_call_and_finishes():
    calls, finished = [], []
    contender = batch("b", lambda: calls.append(1), lambda: finished.append(1), calls=50)
    assert 0 < contender.run().host < 1e-3
    assert (len(calls), len(finished)) == (50, 1)


def test_a_host_call_includes_its_finish():
    done = []
    sample = host_call("h", 8, lambda: done.append(1), lambda: done.append(2)).run()
    assert done == [1, 2]
    assert sample.host > 0
    assert sample.device is None


def test_a_measured_call_has_both_times():
    x = cp.asarray(np.ones(1 << 16, np.float32))
    sample = measured_call("m", 1, lambda: x + x, cp.current_device()).run()
    assert 0 < sample.device < sample.host


def scripted(name, seconds):
    """A contender whose runs take these times, after a first one that does not count."""
    times = iter([9, *seconds[:3], 9, *seconds[3:6], 9, *seconds[6:]])
    return Contender(name, 1, lambda: Sample(next(times)))


def test_disturbed_rounds_are_left_out():
    gauge = Gauge(scripted("gauge", [2, 1.1, 1]))
    results, calm = calm_race([scripted("a", [50, 5, 6])], gauge, 3)
    assert calm
    assert results["a"].seconds("host") == [5, 6]
    assert results["gauge"].seconds("host") == [1.1, 1]
    assert gauge.best == 1


def test_a_disturbed_race_is_run_again():
    gauge = Gauge(scripted("gauge", [2, 2, 2, 2, 1, 1]), best=1.0)
    ticks = []
    results, calm = calm_race(
        [scripted("a", [10, 20, 30, 40, 50, 60])], gauge, 3, tick=lambda: ticks.append(1)
    )
    assert calm
    assert results["a"].seconds("host") == [50, 60]
    assert len(ticks) == 3


def test_a_race_that_never_is_calm_counts_all_rounds():
    gauge = Gauge(scripted("gauge", [2] * 9), best=1.0)
    results, calm = calm_race([scripted("a", list(range(9)))], gauge, 3)
    assert not calm
    assert results["a"].seconds("host") == list(range(9))


def test_a_stream_counts_its_calls_once():
    calls, finished = [], []
    contender = stream("s", 8, lambda: calls.append(1), lambda: finished.append(1), seconds=1)
    before = len(calls)
    assert before == 1 + timing._LOOKS
    sample = contender.run()
    assert len(calls) - before == 1 + timing._MOST_CALLS
    assert len(finished) == before + 2
    assert 0 < sample.host < 1e-3


def test_one_disturbed_look_makes_no_stream_a_single_call():
    calls = []

    def call():
        calls.append(1)
        if len(calls) == 2:
            time.sleep(0.02)

    contender = stream("s", 8, call, lambda: None, seconds=0.01)
    before = len(calls)
    contender.run()
    assert len(calls) - before > 2


def test_a_stream_of_long_calls_is_single_calls():
    calls = []
    contender = stream("s", 8, lambda: calls.append(1), lambda: None, seconds=1e-12)
    assert len(calls) == 2
    contender.run()
    assert len(calls) == 3
