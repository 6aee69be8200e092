"""Tuning at calls: once a class of problems, in memory of its own, kept for every process."""

import dataclasses
import warnings

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.plan.families import FAMILIES
from clprim.plan.table import Entry, TuningFile
from clprim.runtime import tables
from clprim.tune import ask, measure

REAL = measure.tune


@pytest.fixture(autouse=True)
def folder(device, tmp_path, monkeypatch):
    """An empty cache folder, and calls that are planned anew."""
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    tables.forget()
    Calls.forget()
    yield tmp_path / "tuning"
    tables.forget()
    Calls.forget()


@pytest.fixture
def tuned(monkeypatch):
    """The cases that were timed, of which the second candidate wins."""
    found = []

    def second(case, *_, **__):
        found.append(case)
        one = REAL(case, measure.Effort(2, 1, 1, 0.0))
        if one is None:
            return None
        return dataclasses.replace(one, best=case.candidates[1], gain=2.0)

    monkeypatch.setattr(measure, "tune", second)
    return found


def arrays(m=48, n=32, k=40):
    a, b = (
        (np.arange(r * c) % 7 - 3.0).astype(np.float32).reshape(r, c) for r, c in ((m, k), (k, n))
    )
    return cp.asarray(a), cp.asarray(b), a @ b


def test_the_first_call_of_a_class_is_timed_and_what_wins_is_kept(device, tuned):
    a, b, expected = arrays()
    ops.matmul(a, b)  # planned without
    with cp.options(tune=True):
        for _ in range(2):
            np.testing.assert_array_equal(ops.matmul(a, b).get(), expected)
        ops.matmul(*arrays(48, 32, 40)[:2])
    (case,) = tuned
    file = TuningFile.parse(tables.user_file(device).read_text(), FAMILIES)
    assert file.entries == {case.key: Entry(case.candidates[1], 2.0)}
    assert file.version == cp.__version__
    # Another process finds it, and so do calls without the option that were planned before.
    Calls.forget()
    tables.forget()
    with cp.options(tune=True):
        ops.matmul(a, b)
    assert len(tuned) == 1
    assert tables.table_of(device).choices == {
        **tables.known_of(device).choices,
        case.key: case.candidates[1],
    }


def test_reductions_are_timed_too(device, tuned):
    x = np.arange(64 * 300, dtype=np.float32).reshape(64, 300)
    ops.sum(cp.asarray(x), axis=1)  # planned without
    with cp.options(tune=True):
        for _ in range(2):
            found = ops.sum(cp.asarray(x)[:, ::-1], axis=1).get()
            np.testing.assert_array_equal(found, x.sum(axis=1))
        found = ops.sum(cp.zeros((64, 0)), axis=1).get()  # nothing to time
        np.testing.assert_array_equal(found, np.zeros(64))
    (case,) = tuned
    assert tables.table_of(device).choices[case.key] == case.candidates[1]


def test_results_keep_their_old_values_and_epilogues(device, tuned):
    a, b, expected = arrays()
    out = cp.full(expected.shape, 3.0)
    bias = cp.full(expected.shape[1], 2.0)
    with cp.options(tune=True):
        ops.matmul(a, b, bias=bias, epilogue="y0 = y0 * 2;", out=out, beta=0.5)
    assert len(tuned) == 1
    np.testing.assert_array_equal(out.get(), 2 * (expected + 2) + 1.5)


def test_in_a_trace_it_is_timed_as_well(device, tuned):
    a, b, expected = arrays()

    @cp.jit
    def product(a, b):
        return ops.relu(ops.matmul(a, b))

    product(a, b)
    assert tuned == []
    with cp.options(tune=True):
        np.testing.assert_array_equal(product(a, b).get(), np.maximum(expected, 0))
        product(a, b)
    assert len(tuned) == 1


def test_another_version_times_what_gained_nothing(device, tuned, monkeypatch):
    a, b, _ = arrays()
    with cp.options(tune=True):
        ops.matmul(a, b)
    (case,) = tuned
    tables.save(device, {case.key: Entry(case.candidates[0], 1.0)}, cp.__version__)
    assert ask.is_timed(tables.table_of(device), case.key)
    monkeypatch.setattr(cp, "__version__", "999.0")
    assert not ask.is_timed(tables.table_of(device), case.key)
    tables.save(device, {case.key: Entry(case.candidates[1], 1.5)}, "998.0")
    assert ask.is_timed(tables.table_of(device), case.key)


def test_what_cannot_be_timed_is_left_to_the_rule(device, monkeypatch):
    def refused(*_, **__):
        raise cp.DeviceError("not enough memory")

    monkeypatch.setattr(measure, "tune", refused)
    a, b, expected = arrays()
    with cp.options(tune=True), pytest.warns(UserWarning, match="could not be timed: not enough"):
        np.testing.assert_array_equal(ops.matmul(a, b).get(), expected)
    Calls.forget()
    with cp.options(tune=True), warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        ops.matmul(a, b)


def test_two_devices_are_recorded_apart(device):
    others = [d for d in cp.devices() if d.compiles and d != device]
    if not others:
        pytest.skip("one device")

    def run():
        for one in (device, others[0]):
            with cp.on(one):
                ops.matmul(*arrays()[:2])

    assert {case.device for case in ask.record(run)} == {device, others[0]}


def test_a_run_that_fails_restores_the_tables(device):
    with pytest.raises(ZeroDivisionError):
        ask.record(lambda: 1 / 0)
    assert not tables.is_overridden()
