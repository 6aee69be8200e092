"""What is compiled when: a new shape compiles nothing, a second process compiles nothing."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from support import answers_in, equal, numbers

import clprim as cp
from clprim.call import signature
from clprim.call.signature import Calls
from clprim.runtime.program import forget, programs_met
from clprim.runtime.stats import stats


def spent(before):
    now = stats() - before
    return now.builds + now.disk_hits + now.memory_hits, now.plans, now.launches


@pytest.mark.parametrize(
    "shapes",
    [
        [(1000,), (1001,), (4096,), (200_000,)],
        [(2, 16, 28, 28), (3, 16, 28, 28), (64, 16, 28, 28)],
        [(7, 100), (8, 100), (500, 100)],
    ],
    ids=lambda shapes: str(shapes[0]),
)
def test_a_new_shape_compiles_nothing(device, shapes):
    scale = cp.Pointwise("y0 = x0 * w0 + x1; // new shapes")
    bias = cp.asarray(np.float32(2))
    first = numbers(shapes[0])
    scale(cp.asarray(first), bias, 1.0)
    for shape in shapes[1:]:
        a = numbers(shape)
        before = stats()
        result = scale(cp.asarray(a), bias, 3.0)
        assert (stats() - before).builds == 0
        assert spent(before)[1:] == (1, 1)
        equal(result, 3 * a + 2)


@pytest.mark.parametrize("axis", [(0, 2, 3), (1,), (2, 3)], ids=str)
def test_another_batch_size_compiles_nothing(device, axis):
    total = cp.Reduction("y0 = x0; // batches", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    for batch in (8, 16, 32):
        a = numbers((batch, 24, 40, 40))
        before = stats()
        result = total(cp.asarray(a), axis=axis)
        if batch > 8:  # a GPU of many units begins to cut rows, which a second kernel merges
            assert (stats() - before).builds <= (0 if device.traits.is_cpu else 2)
        equal(result, a.sum(axis))


def test_strides_and_offsets_compile_nothing(device):
    double = cp.Pointwise("y0 = 2 * x0; // strides")
    a = numbers((40, 60))
    x = cp.asarray(a)
    double(x[::2, ::3])
    before = stats()
    for index in (np.s_[::3, ::2], np.s_[1::2, 5::4], np.s_[:, ::7], np.s_[5:, 1::8]):
        equal(double(x[index]), 2 * a[index])
    assert (stats() - before).builds == 0


def test_a_repeated_call_is_a_look_up(device):
    double = cp.Pointwise("y0 = 2 * x0;")
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    x = cp.asarray(numbers((30, 40)))
    out = cp.empty((30, 40))
    calls = [
        lambda: double(x),
        lambda: double(x, out=out),
        lambda: double(x[::2]),
        lambda: total(x, axis=1),
        lambda: total(x, axis=(0, 1), keepdims=True, alpha=2.0),
    ]
    for call in calls:
        call()
    before = stats()
    for call in calls:
        call()
    assert spent(before) == (0, 0, len(calls))


def test_operators_of_one_source_share_their_kernels(device):
    x = cp.asarray(numbers((30, 40)))
    cp.Pointwise("y0 = 5 * x0;")(x)
    before = stats()
    cp.Pointwise("y0 = 5 * x0;")(x)
    now = stats() - before
    assert (now.builds, now.disk_hits, now.memory_hits) == (0, 0, 1)


def test_another_dtype_or_layout_is_another_kernel(device):
    double = cp.Pointwise("y0 = 2 * x0;")
    assert double.source(cp.zeros(40)) != double.source(cp.zeros(40, np.int32))
    assert double.source(cp.zeros(40)) != double.source(cp.zeros(80)[::2])
    assert double.source(cp.zeros(40)) == double.source(cp.zeros(80)[:40])


def test_what_is_remembered_is_bounded(device, monkeypatch):
    monkeypatch.setattr(signature, "MAX_CALLS", 20)
    double = cp.Pointwise("y0 = 2 * x0;")
    x = cp.asarray(numbers(50))
    found = []
    for size in range(1, 50):
        double(x[:size])
        found.append(len(double.calls))
    assert max(found) == 20
    equal(double(x), 2 * x.get())


def test_each_device_has_kernels_of_its_own():
    found = [device for device in cp.devices() if device.compiles]
    if len(found) < 2:
        pytest.skip("one device only")
    before = cp.current_device()
    double = cp.Pointwise("y0 = 2 * x0;")
    a = numbers(100)
    try:
        for _ in range(2):
            for device in found[:2]:
                cp.set_device(device)
                equal(double(cp.asarray(a)), 2 * a)
    finally:
        cp.set_device(before)


SCRIPT = """
import json, sys
import numpy as np
import clprim as cp

cp.set_device(int(sys.argv[1]))
a = np.random.default_rng(0).standard_normal((50, 60), np.float32)
x = cp.asarray(a)
total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
results = [
    cp.Pointwise("y0 = sin(x0) * w0 + coord(0);")(x, 2.0),
    total(x, axis=0),
    total(x, axis=1, alpha=0.5),
    total(cp.asarray(np.tile(a, (100, 1))), axis=0),
    x.T + 1,
]
now = cp.stats()
print(json.dumps([now.builds, now.disk_hits, [r.get().tobytes().hex() for r in results]]))
"""


def process(device, folder):
    if folder != "off":
        answers_in(folder, device)
    environment = {**os.environ, "CLPRIM_CACHE_DIR": str(folder)}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(device.index)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stderr == ""
    return json.loads(ran.stdout)


@pytest.mark.usefixtures("unoptimised")
def test_a_second_process_compiles_nothing_without_a_cache_or_with_a_damaged_one_all(
    device, some, tmp_path
):
    builds, hits, cold = process(device, tmp_path)
    assert builds >= 5
    assert hits == 0
    assert process(device, tmp_path) == [0, builds, cold]
    for entry in (tmp_path / "programs").iterdir():
        entry.write_bytes(b"damaged")
    for folder in some(["off", tmp_path], 2):  # neither asks the driver for a binary
        assert process(device, folder) == [builds, 0, cold]


def test_cold_and_warm_kernels_compute_the_same(device):
    rng = np.random.default_rng(0)
    x = cp.asarray(rng.standard_normal((300, 400), np.float32))
    wave = cp.Pointwise("y0 = exp(x0) * x0;")
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    cold = [wave(x).get(), total(x, axis=0).get(), total(x).get()]
    forget()
    wave, total = (
        cp.Pointwise("y0 = exp(x0) * x0;"),
        cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;"),
    )
    before = stats()
    warm = [wave(x).get(), total(x, axis=0).get(), total(x).get()]
    assert (stats() - before).builds == 0
    for a, b in zip(cold, warm, strict=True):
        assert a.tobytes() == b.tobytes()


def test_calls_let_go_of_their_programs_where_different_ones_come_without_end(device, monkeypatch):
    monkeypatch.setattr(signature, "MAX_PROGRAMS", 4)
    monkeypatch.setattr(Calls, "_allowed", programs_met() + 4)
    kept = cp.Pointwise("y0 = x0 + 3; // lets go")
    x = numbers((33,))
    a = cp.asarray(x)
    kept(a)
    for size in range(40, 60):  # other shapes of the same program
        kept(cp.asarray(numbers((size,))))
    assert len(kept.calls) == 21
    others = [cp.Pointwise(f"y0 = x0 + {n}; // lets go") for n in range(10, 16)]
    for n, other in enumerate(others):
        equal(other(a), x + np.float32(10 + n))
    assert len(kept.calls) == 0
    assert sum(len(other.calls) for other in others) < len(others)
    before = stats()
    equal(kept(a), x + np.float32(3))
    assert (stats() - before).builds == 0
