"""Processes: what a forked one may do is said, and a spawned one may do everything."""

import multiprocessing
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

FORKED = """
import os, signal, sys
import numpy as np, clprim as cp

before, *uses = sys.argv[2:]
if before == "used":
    cp.set_device(int(sys.argv[1]))
    x = cp.asarray(np.ones(1000, "f"))
    y = x + 1
    with cp.profile() as p:
        y.sum()
elif before == "listed":
    cp.devices()
device = cp.devices()[int(sys.argv[1])] if before != "imported" else None
ways = {
    "new": lambda: (cp.set_device(int(sys.argv[1])), cp.asarray(np.ones(9, "f")) * 3),
    "current": lambda: cp.zeros(9),
    "call": lambda: x + 1,
    "download": lambda: y.get(),
    "wait": lambda: device.synchronize(),
    "list": lambda: cp.devices(),
    "profile": lambda: cp.profile(device).__enter__(),
    "exit": lambda: sys.exit(3),
}
for use in uses:
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # what hangs ends here
        try:
            ways[use]()
            print("works", flush=True)
        except cp.DeviceError as error:
            print(error, flush=True)
        os._exit(0)
    print("child", use, os.waitpid(child, 0)[1], flush=True)
if before == "used":
    print((y + 1).get().sum())
"""


def forked(device, before, *uses):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FORKED, str(device.index), before, *uses]
    return subprocess.check_output(command, env=environment, timeout=60, text=True)


def test_a_fork_of_a_process_that_used_a_device_is_refused_and_may_end(device):
    uses = "new current call download wait list profile exit".split()
    said = forked(device, "used", *uses)
    for use in uses[:-1]:
        answer, found, said = said.partition(f"\nchild {use} 0\n")
        assert found, f"{use}: {answer}"
        assert answer.startswith(
            "this process was forked from one that had listed its OpenCL devices"
        ), use
        assert 'multiprocessing.get_context("spawn")' in answer, use
    assert said == f"child exit {3 << 8}\n3000.0\n"


def test_a_fork_after_listing_devices_is_refused(device):
    assert forked(device, "listed", "current").startswith("this process was forked")


def test_a_fork_before_the_first_use_may_do_everything(device):
    assert forked(device, "imported", "new") == "works\nchild new 0\n"


def double(index):
    import numpy as np

    import clprim as cp

    cp.set_device(index)
    return float((cp.asarray(np.ones(1000, "f")) * 2).get().sum())


@pytest.mark.alone
def test_multiprocessing_spawns(device):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(double, [device.index] * 4) == [2000.0] * 4
