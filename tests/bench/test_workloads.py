"""The tables hold what was promised, and count bytes rightly."""

import math

import pytest

from bench.work.workloads import LAUNCH, RESULTS, Workload, pointwise_workloads, reduce_workloads

FULL = (*pointwise_workloads(), *reduce_workloads())
QUICK = (*pointwise_workloads(quick=True), *reduce_workloads(quick=True))
MI = 1 << 20


def named(name):
    (found,) = [workload for workload in FULL if workload.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [
        ("axpb-scalar", 4 * (64 * MI + 1), 4 * 64 * MI),
        ("axpb-full", 8 * 64 * MI, 4 * 64 * MI),
        ("moments-contiguous", 102_760_448, 2 * 64 * 4),
        ("moments-channels_last", 102_760_448, 2 * 64 * 4),
        ("sum-64x128x56x56-0", 102_760_448, 102_760_448 // 64),
        ("sum-64x128x56x56-23", 102_760_448, 4 * 64 * 128),
        ("sum-1x16777216-0", 64 * MI, 64 * MI),
        ("sum-1x16777216-1", 64 * MI, 4),
        ("sum-16777216x1-1", 64 * MI, 64 * MI),
        ("sum-67108865-0", 4 * (64 * MI + 1), 4),
        ("sum-4095x4097-1", 4 * 4095 * 4097, 4 * 4095),
    ],
)
def test_bytes(name, read, written):
    workload = named(name)
    assert (workload.read_bytes, workload.written_bytes) == (read, written)
    assert workload.nbytes == read + written


def test_bytes_of_a_broadcast():
    workload = Workload("", "", "", "axpb", ((3, 1, 5), (4, 1)))
    assert workload.result_shape == (3, 4, 5)
    assert workload.nbytes == 4 * (15 + 4 + 60)


@pytest.mark.parametrize("table", [FULL, QUICK], ids=["full", "quick"])
def test_names_are_unique(table):
    for key in (lambda w: w.name, lambda w: (w.group, w.title)):
        assert len(set(map(key, table))) == len(table)
    assert {workload.op for workload in (*table, LAUNCH)} == set(RESULTS)


def test_every_axis_and_pair_of_axes():
    axes = {w.axes for w in FULL if w.shapes == ((64, 128, 56, 56),)}
    singles, pairs = {(n,) for n in range(4)}, {(a, b) for b in range(4) for a in range(b)}
    assert axes == singles | pairs


def test_sizes_beside_powers_of_two():
    shapes = [w.shapes[0] for w in FULL if w.group == "Σx at sizes 2ⁿ±1"]
    assert {len(shape) for shape in shapes} == {1, 2}
    for size in {size for shape in shapes for size in shape}:
        assert any(abs(size - (1 << n)) == 1 for n in range(30)), size


def test_targets():
    bounds = {w.op: {(t.measure, t.bound) for t in w.targets} for w in FULL}
    assert bounds == {
        "axpb": {("share", 0.95)},
        "moments": {("share", 0.90), ("times PyTorch", 15)},
        "sum": {("share", 0.80)},
    }


def test_a_sum_of_single_elements_is_a_copy():
    copies = {w.name for w in FULL if w.axes and w.ceiling == "copy"}
    assert copies == {"sum-1x16777216-0", "sum-16777216x1-1"}


def test_quick_is_quick_and_alike():
    assert sum(workload.nbytes for workload in QUICK) < 8 * MI
    assert {w.op for w in QUICK} == {w.op for w in FULL}
    assert all(math.prod(w.result_shape) for w in QUICK)
