"""What GPUs run of decompositions, by their traits, against what the device runs itself."""

import dataclasses

import numpy as np
import pytest

import clprim as cp
from clprim.arrays.memory import operand_of
from clprim.call.primitive import Request, built
from clprim.primitives.decomposition import Options, _decompose, decompose

RNG = np.random.default_rng(0)
KINDS = [
    Options("solve", ("x", "info")),
    Options("inv", ("x", "info")),
    Options("lu", ("lu", "pivots", "info")),
    Options("det", ("det", "logabs")),
    Options("triangular", ("x",), upper=True),
    Options("cholesky", ("l", "info")),
    Options("qr", ("q", "r"), 20),
    Options("qr", ("h", "tau")),
    Options("eigh", ("w", "v", "info")),
    Options("svd", ("u", "s", "v", "info")),
]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize("options", KINDS, ids=lambda o: f"{o.kind} {o.results[0]}")
def test_work_items_and_work_groups(device, options, n, dtype):
    a = RNG.normal(size=(70, n, n)) + 1j * RNG.normal(size=(70, n, n))
    a = (a if dtype == np.complex64 else a.real).astype(dtype)
    a = (a @ a.conj().swapaxes(1, 2) + n * np.eye(n)).astype(dtype)
    a[5] = 0 if options.kind == "svd" else a[5]
    given = [cp.asarray(a)]
    if options.kind in ("solve", "triangular"):
        given.append(cp.asarray(a[:, :, :2]))
    options = options._replace(k=n if options.k else 0)
    request = Request(tuple(map(operand_of, given)), (), (), options)
    problem = _decompose.problem(request, device)
    traits = dataclasses.replace(device.traits, is_cpu=False, local_memory=32768)
    plan = _decompose.plan(problem, traits)
    assert plan.stages[0].code.items == (1 if n == 3 else 64)
    call = built(device, _decompose, problem, plan, problem.results)
    results = call.allocate(device)
    call.run(device, (*results, *given), (), {})
    for name, one, other in zip(options.results, results, decompose(options, *given), strict=True):
        found, expected = one.get(), other.get()
        if name in ("u", "v"):
            found, expected = abs(found), abs(expected)
        if name == "u":  # what completes a matrix of 0 may be chosen otherwise
            found, expected = np.delete(found, 5, 0), np.delete(expected, 5, 0)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4 * scale, err_msg=name)
