"""Caches that several processes share, launches that go on and on, products of any size."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support import answers_in, equal

import clprim as cp
from clprim import ops
from clprim.runtime import program
from clprim.runtime.stats import stats

WORK = """
import sys, numpy as np, clprim as cp
cp.set_device({device})
x = cp.asarray(np.arange(100, dtype=np.float32))
for n in range({strings}):
    assert np.array_equal(cp.Pointwise(f"y0 = x0 * 2 + {{n}};")(x).get(), np.arange(100) * 2 + n)
    print(n, flush=True)
"""


def started(device, folder, strings):
    # Windows' own variables stay, without which no driver is found.
    environment = {**os.environ, "CLPRIM_CACHE_DIR": str(folder)}
    script = WORK.format(device=device.index, strings=strings)
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.alone
@pytest.mark.skipif(os.name != "posix", reason="the signal is POSIX's")
def test_processes_share_an_empty_cache_and_one_is_killed(device, tmp_path):
    answers_in(tmp_path, device)
    children = [started(device, tmp_path, 3) for _ in range(4)]
    children[0].stdout.readline()
    children[0].send_signal(signal.SIGKILL)
    for child in children:
        child.communicate(timeout=300)
    assert [child.returncode for child in children] == [-signal.SIGKILL, 0, 0, 0]
    last = started(device, tmp_path, 3)
    last.communicate(timeout=300)
    assert last.returncode == 0


def test_a_kept_kernel_is_that_of_its_types_options_and_device(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    half = cp.Pointwise("y0 = x0 / w0; // of some type")
    x = cp.asarray(np.array([7, 9], np.int32))
    equal(half(x, np.int32(2)), np.array([3, 4]))
    found = cp.Pointwise("y0 = x0 / w0; // of some type", result_type=np.float32)(x, np.float32(2))
    equal(found, np.array([3.5, 4.5]))
    before = stats()
    monkeypatch.setenv("CLPRIM_BUILD_OPTIONS", "-cl-fast-relaxed-math")
    equal(cp.Pointwise("y0 = x0 / w0; // of some type")(x, np.int32(2)), np.array([3, 4]))
    assert (stats() - before).builds == 1  # of other options, another one
    monkeypatch.delenv("CLPRIM_BUILD_OPTIONS")
    for file in (tmp_path / "programs").iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x10
        file.write_bytes(content)
    program.forget()
    equal(cp.Pointwise("y0 = x0 / w0; // of some type")(x, np.int32(2)), np.array([3, 4]))


def test_transfers_behind_many_launches_do_not_wait_forever(device):
    add, x = cp.Pointwise("y0 = x0 + 1;"), cp.zeros((64,), np.int32)
    for _ in range(2000):
        add(x, out=x)
    x[:1] = 5
    start = time.monotonic()
    assert x[0].item() == 5
    assert x[63].item() == 2000
    assert time.monotonic() - start < 20  # a second at most where the machine is idle


SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 129)


def test_products_of_odd_sizes_are_exact(device, unoptimised, some):
    random = np.random.default_rng(7)
    for n, size in enumerate(some(SIZES, 5)):
        sizes = [size, SIZES[(4 * n + 3) % len(SIZES)], SIZES[(7 * n + 1) % len(SIZES)]]
        for turn in range(3):
            m, k, columns = np.roll(sizes, turn)
            a, b = random.integers(-3, 4, (m, k)), random.integers(-3, 4, (k, columns))
            y = ops.matmul(cp.asarray(a.astype(np.float32)), cp.asarray(b.astype(np.float32)))
            equal(y, a @ b)
