"""The tuner: what is taken, and what never; clocks are made up."""

import numpy as np
import pytest
from support import clock_of

import clprim as cp
from clprim import ops
from clprim.plan.table import Entry
from clprim.tune.ask import record
from clprim.tune.measure import Effort, Memory, tune

ALL, FEW = Effort(None, 3, 5), Effort(4, 3, 5)


@pytest.fixture(scope="module")
def case():
    a, b = cp.zeros((48, 40)), cp.zeros((40, 32))
    (found,) = record(lambda: ops.matmul(a, b))
    return found


@pytest.fixture(scope="module")
def windows():
    """Three by three, of a size that Winograd's algorithm is meant for."""
    if not cp.current_device().traits.is_cpu:
        pytest.skip("the choices below are a CPU's")
    x = cp.zeros((2, 64, 14, 14), memory_format="channels_last")
    w = ops.pack_weight(cp.zeros((64, 64, 3, 3)))
    return record(lambda: ops.conv2d(x, w, padding=1))[0]


def choices(case):
    return case.candidates


def run(case, factors, effort=FEW):
    return tune(case, effort, clock=clock_of(factors))


def test_candidates_differ_and_fit(case):
    found = choices(case)
    assert len(found) == len(set(found)) > 2
    for choice in found:
        assert case.family.tuned(case.problem, case.device.traits, choice) is not None


def test_the_fastest_is_taken(case):
    rule, other, third = choices(case)[:3]
    found = run(case, {str(other): 0.5, str(third): 0.8}, ALL)
    assert (found.rule, found.best) == (rule, other)
    assert found.gain == 2
    assert found.seconds == (1.0, 0.5)
    assert found.tried == len(choices(case))
    assert not found.wrong
    assert found.entry == Entry(other, 2.0)


@pytest.mark.parametrize("times", [0.99, [0.5, 1.1, 0.5, 1.1, 0.9]])
def test_noise_changes_nothing(case, times):
    rule, other = choices(case)[:2]
    found = run(case, {str(other): times})
    assert found.best == found.rule == rule
    assert found.gain == 1


def test_a_wrong_result_never_wins(case, monkeypatch):
    rule, other, third = choices(case)[:3]
    order = iter(choices(case))
    result = Memory.result

    def damaged(self, run):
        found = result(self, run)
        return found + 1 if next(order) == other else found

    monkeypatch.setattr(Memory, "result", damaged)
    found = run(case, {str(other): 0.1, str(third): 0.5})
    assert found.best == third
    assert found.wrong == (str(other),)
    assert rule == found.rule


def test_algorithms_with_errors_agree_within_these(windows, monkeypatch):
    case = windows
    few = choices(case)
    names = [c.strategy for c in few]
    winograd, other = [choice for choice in few if choice.strategy == few[0].strategy][:2]
    product = few[names.index("in_place")]
    monkeypatch.setattr(type(case.family), "candidates", lambda *_: [winograd, other, product])
    found = run(case, {str(product): 0.5})
    assert (found.rule, found.best, found.tried, found.wrong) == (winograd, product, 3, ())
    # What is further from sums of products than its error is wrong, and so are other sums.
    result = Memory.result
    order = iter([product, winograd, other])

    def damaged(self, run):
        return result(self, run) * (1 + 1e-5 * (next(order) == other))

    monkeypatch.setattr(Memory, "result", damaged)
    found = run(case, {str(other): 0.1, str(product): 0.5})
    assert (found.best, found.wrong) == (product, (str(other),))


def test_results_are_computed(case):
    bench = Memory(case)
    first, *others = [bench.result(bench.call(choice)) for choice in choices(case)[:3]]
    x, w = (array.get() for array in bench.operands.values())
    a, b = x[: 48 * 40].reshape(48, 40), w[: 40 * 32].reshape(40, 32)
    np.testing.assert_array_equal(first.reshape(48, 32), a @ b)
    for other in others:
        np.testing.assert_array_equal(other, first)


_MOMENTS = cp.Reduction(
    "y0 = x0 * w0 - x1; y1 = log(x0);",
    init="reduce_y0 = 0; reduce_y1 = 0;",
    step="reduce_y0 += y0; reduce_y1 += y1;",
)


def test_reductions_of_several_arrays_numbers_and_results():
    x, mean = cp.zeros((40, 300)), cp.zeros((40, 1))
    (case,) = record(lambda: _MOMENTS(x[:, ::-1], mean, 0.5, axis=1))
    bench = Memory(case)
    first = bench.result(bench.call(choices(case)[0]))
    x, mean = (array.get() for array in bench.operands.values())
    x = x.reshape(40, 300).astype(np.float64)
    np.testing.assert_allclose(first[:40], (x - mean[:, None]).sum(axis=1), atol=1e-3)
    assert np.isnan(first[40:]).any()  # of negative numbers there is no logarithm
    found = run(case, {str(choices(case)[1]): 0.5})
    assert (found.best, found.wrong) == (choices(case)[1], ())


_SHARES = cp.Grouped(
    "y0 = x0 * x1;",
    init="reduce_y0 = 0;",
    step="reduce_y0 += y0;",
    each="y0 = x0 * w0 + group_y0;",
)
_SUMS = cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")


@pytest.mark.parametrize(
    ("call", "strategy"),
    [
        (lambda: _SHARES(cp.zeros((500, 320)), cp.zeros(320), 2.0, keep=[True]), "grouped/runs"),
        (lambda: _SHARES(cp.zeros((500, 9)), cp.zeros(9), 2.0), "grouped/lanes"),
        (lambda: _SUMS(cp.zeros((40, 300))), "scan/vectors"),
        (lambda: _SUMS(cp.zeros((300, 40)), axis=0, reverse=True), "scan/columns"),
    ],
    ids=["runs", "lanes", "vectors", "columns"],
)
def test_groups_and_scans_are_timed_too(call, strategy):
    if not cp.current_device().traits.is_cpu:
        pytest.skip("the choices below are a CPU's")
    (case,) = record(call)
    first, *others = choices(case)
    assert first.strategy == strategy and others
    found = run(case, {str(others[0]): 0.5}, ALL)
    assert (found.best, found.wrong) == (others[0], ())
    assert found.tried == len(choices(case))


def test_strategies_take_turns(windows):
    found = [choice.strategy for choice in choices(windows)]
    different = len(set(found))
    assert different > 2
    assert len(set(found[:different])) == different  # each one's rule before any other tile
    assert found.index(found[0], 1) >= different


def test_what_is_tried_is_bounded(windows):
    found = tune(windows, Effort(5, 1, 1), clock=clock_of({}))
    assert found.tried == 5 < len(choices(windows))


def test_what_does_not_build_is_left_out(case, monkeypatch):
    rule, broken, third = choices(case)[:3]
    call = Memory.call

    def refused(self, choice):
        if choice == broken:
            raise cp.BuildError("refused")
        return call(self, choice)

    monkeypatch.setattr(Memory, "call", refused)
    found = run(case, {str(broken): 0.1, str(third): 0.5})
    assert (found.rule, found.best, found.wrong) == (rule, third, ())
    assert found.tried == FEW.most - 1
    monkeypatch.setattr(Memory, "call", lambda *_: (_ for _ in ()).throw(cp.BuildError("refused")))
    with pytest.raises(cp.BuildError):
        run(case, {})


def test_profiles_that_run_see_nothing_of_it(case):
    x = cp.zeros(4)
    with cp.profile() as outer:
        x + 1
        tune(case, Effort(2, 1, 1))
        with cp.profile():
            x + 1
    assert len(outer.events) == 2
