"""Peers compute what the workload says."""

import numpy as np
import pytest

import clprim as cp
from bench.peers.peer import Clprim, Inputs, NumPy, available_peers
from bench.work.workloads import LAUNCH, pointwise_workloads, reduce_workloads

WORKLOADS = [*pointwise_workloads(quick=True), *reduce_workloads(quick=True)]
PEERS = [*available_peers(cp.current_device()), Clprim(cp.current_device())]


def numbers(result):
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(r.get() if hasattr(r, "get") else r) for r in results]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_results(peer, workload):
    if peer.missing:
        pytest.skip(peer.missing)
    inputs = Inputs(workload)
    call = peer.prepare(workload, inputs)
    if call is None:
        assert peer.name in {"PyOpenCL", "cl.array"}  # which have no axes
        return
    found = numbers(call())
    expected = numbers(NumPy(peer.device).prepare(workload, inputs)())
    if peer.name == "PyTorch" and workload.op == "moments":
        x = inputs.host[0].astype(np.float64)
        expected = [x.var(axis=workload.axes, ddof=1), x.mean(axis=workload.axes)]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        return
    for mine, reference in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, reference)


def test_the_reference_is_exact():
    for workload in WORKLOADS:
        inputs = Inputs(workload)
        wide = Inputs(workload)
        wide.host = [array.astype(np.float64) for array in inputs.host]
        if workload.op == "axpb":
            continue  # its result's memory is float32
        reference = NumPy(cp.current_device())
        narrow = numbers(reference.prepare(workload, inputs)())
        for one, other in zip(narrow, numbers(reference.prepare(workload, wide)()), strict=True):
            np.testing.assert_array_equal(one, other)


def test_inputs_have_their_memory_format():
    last = next(w for w in WORKLOADS if w.memory_format == "channels_last")
    inputs = Inputs(last)
    assert inputs.device[0].shape == inputs.host[0].shape == last.shapes[0]
    assert inputs.device[0].strides == inputs.host[0].strides
    assert inputs.host[0].strides[1] == 4


def test_a_missing_peer_says_why():
    peer = NumPy(cp.current_device())
    peer.missing = "it is not installed"
    assert peer.prepare(LAUNCH, Inputs(LAUNCH)) is None
    assert peer.note(["axpb"]) == "NumPy: it is not installed"


def test_notes_speak_of_what_was_measured():
    peer = NumPy(cp.current_device())
    assert peer.note(["sum"]) == "NumPy: `x.sum(axis)`"
    assert "(x * x).sum(axis)" in peer.note(["moments", "sum"])
