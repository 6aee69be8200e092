"""How many Python functions a first call of an operator runs, its kernels being known."""

import sys
from dataclasses import replace

import pytest

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.plan.conv.dense import CPU, GPU, dense_convolution
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.runtime.tables import table_of


def calls_of(run):
    """How many functions written in Python `run` calls, by name."""
    found = {}

    def count(frame, event, _):
        if event == "call":
            name = frame.f_code.co_name
            found[name] = found.get(name, 0) + 1

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def test_a_first_convolution_is_soon_planned_and_launched(device):
    x, w = cp.zeros((8, 64, 56, 56), "float32"), cp.zeros((64, 64, 3, 3), "float32")
    ops.conv2d(x, w, padding=1)
    Calls.forget()
    table_of(device).plans.clear()
    assert sum(calls_of(lambda: ops.conv2d(x, w, padding=1)).values()) < 3000


@pytest.mark.parametrize("traits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("error", [0, 5e-6])
def test_what_a_convolution_is_and_its_tile_are_found_once(traits, error):
    what = replace(dense_convolution(8, 64, 56, 64), error=error)
    CONVOLUTIONS.plan(what, traits)
    found = calls_of(lambda: CONVOLUTIONS.plan(what, traits))
    assert sum(found.values()) < (2200 if traits.is_cpu else 3000)
    for name in ("depthwise_of", "gradient_of", "contractions", "winograd_tile", "best_outline"):
        assert found.get(name, 0) <= 1, name
